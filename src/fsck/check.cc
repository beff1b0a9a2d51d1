#include "fsck/check.h"

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

void check_nodes(Context& c) {
  c.progress("nodes", 0, true);
  const auto checked =
      c.store.check([&](const std::string& text) { c.problem("Metadata: {}", text); });
  if (!checked) c.problem("Metadata: the tree cannot be read: {}", describe(checked.error()));
  c.report.nodes = c.store.stats().jmap_entries;
}

}  // namespace

Result<CheckReport> check(meta::Store& store, device::Device& device, const CheckOptions& options,
                          const FindingListener& listener, const ProgressListener& progress) {
  Context context(Mode::kCheck, store, device, {}, listener, progress);
  TRY(context.learn_bands());
  check_nodes(context);
  volume_items_pass(context);
  inodes_pass(context);
  bands_pass(context);
  shared_extents_pass(context);
  names_pass(context);
  counters_pass(context);
  if (options.data) check_data(context);
  return context.report;
}

}  // namespace lazyfs::fsck
