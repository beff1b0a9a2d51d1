#include "fs/volume/space_maker.h"

namespace lazyfs::fs {
namespace {

constexpr std::chrono::nanoseconds kUnlinkIsRecent = std::chrono::seconds(1);
constexpr auto kForgetPeriod = std::chrono::milliseconds(5);
constexpr int kForgetTries = 20;

}  // namespace

SpaceMaker::SpaceMaker(meta::Store& store, data::BandTable& bands, OrphanCleanup& orphans,
                       WriteBack& write_back, gc::Collector& collector,
                       Throttle& throttle, StallTimes& stalls, Clock& clock, bool kernel_forgets)
    : store_(store),
      bands_(bands),
      orphans_(orphans),
      write_back_(write_back),
      collector_(collector),
      throttle_(throttle),
      stalls_(stalls),
      clock_(clock),
      kernel_forgets_(kernel_forgets) {}

bool SpaceMaker::make_space() {
  const auto start = clock_.monotonic();
  const std::uint64_t before = bands_.space().available, deaths = bands_.deaths();
  orphans_.run();
  ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
  ignore_error(write_back_.move_inline(true), "each inode keeps its error");
  ignore_error(store_.give_back_bands(), "the store logs it");
  const auto gained = [&] { return bands_.space().available > before || bands_.deaths() > deaths; };
  // The kernel gives the lookups of a removed file back a moment after unlink was answered.
  for (int i = 0; i < kForgetTries && kernel_forgets_ && !gained(); ++i) {
    if (clock_.monotonic().count() - last_unlink_ns_.load() > kUnlinkIsRecent.count()) break;
    if (!throttle_.pause(kForgetPeriod)) break;
    orphans_.run();
  }
  stalls_.add(clock_.monotonic() - start);
  return gained();
}

Result<> SpaceMaker::collect_garbage() {
  orphans_.run();
  TRY(write_back_.write_dirty(kEver));
  TRY(write_back_.move_inline(true));
  TRY(store_.give_back_bands());
  TRY(collector_.reset_empty_bands());
  return collector_.clean_all();
}

}  // namespace lazyfs::fs
