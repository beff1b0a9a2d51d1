#include "fsck/check.h"

#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

void check_nodes(Context& c) {
  c.progress_now("nodes", {.total = 2 * c.store.stats().jmap_entries});
  c.store.check({.problem = [&](const std::string& text) { c.problem("Metadata: {}", text); },
                 .progress = [&](std::uint64_t done, std::uint64_t total) {
                   c.progress("nodes", {done, total});
                 }});
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
