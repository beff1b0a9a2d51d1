#include "fs/volume/space_maker.h"

#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr std::chrono::nanoseconds kUnlinkIsRecent = std::chrono::seconds(1);
constexpr auto kForgetPeriod = std::chrono::milliseconds(5);
constexpr int kForgetTries = 100;
constexpr std::uint64_t kLargeWriteBlocks = 256;
constexpr std::uint64_t kSeveralWritesBlocks = 4 * kLargeWriteBlocks;
constexpr int kLogRoomTries = 16;

}  // namespace

SpaceMaker::SpaceMaker(meta::Store& store, data::BandTable& bands, OrphanCleanup& orphans,
                       OrphanRecovery& recovery, WriteBack& write_back, gc::Collector& collector,
                       Throttle& throttle, TimeHistogram& stalls, Clock& clock,
                       bool kernel_forgets)
    : store_(store),
      bands_(bands),
      orphans_(orphans),
      recovery_(recovery),
      write_back_(write_back),
      collector_(collector),
      throttle_(throttle),
      stalls_(stalls),
      clock_(clock),
      kernel_forgets_(kernel_forgets) {}

bool SpaceMaker::make_space() {
  const auto start = clock_.monotonic();
  const data::SpaceCounts before = bands_.space();
  const std::uint64_t deaths = bands_.deaths();
  const bool had_room_to_record = store_.has_room_to_record(kLargeWriteBlocks);
  const bool had_old_orphans = recovery_.is_due();
  recovery_.step();
  orphans_.run();
  ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
  ignore_error(write_back_.move_inline(true), "each inode keeps its error");
  // A write that lacks room in the log, not blocks, would lack it again without those bands.
  const bool lacks_blocks = bands_.space().available < kSeveralWritesBlocks;
  if (lacks_blocks) ignore_error(store_.give_back_bands(), "the store logs it");
  // Recording data takes less room than is kept for it. Other writers may have taken the room.
  const bool has_room_to_record = store_.has_room_to_record(kLargeWriteBlocks);
  const bool needs_room_to_record = !had_room_to_record || (!lacks_blocks && !has_room_to_record);
  const bool gained_room_to_record =
      needs_room_to_record && (store_.make_room_to_record(kLargeWriteBlocks) ||
                               bands_.space().reserved < before.reserved);
  const auto gained = [&] {
    return had_old_orphans || gained_room_to_record || bands_.deaths() > deaths ||
           bands_.space().available > before.available;
  };
  // Another thread may be deleting the inodes whose space this thread needs.
  bool has_gained = gained() || orphans_.await_others();
  // The kernel gives the lookups of a removed file back a moment after unlink was answered.
  for (int i = 0; i < kForgetTries && kernel_forgets_ && !has_gained; ++i) {
    if (clock_.monotonic().count() - last_unlink_ns_.load() > kUnlinkIsRecent.count()) break;
    if (!throttle_.pause(kForgetPeriod)) break;
    orphans_.run();
    has_gained = gained();
  }
  stalls_.add(clock_.monotonic() - start);
  if (!has_gained) note_full();
  return has_gained;
}

void SpaceMaker::note_full() {
  const auto events = full_.note(clock_.monotonic());
  if (!events) return;
  log::warn("no space is left: {} requests have found none since the last such message, {} blocks "
            "are available",
            *events, bands_.space().available);
}

// Deletions under way free nodes, and data that was accepted takes less room once it is recorded.
// The collector frees bands for the log, unless users have taken them.
bool SpaceMaker::make_log_room(int tries) {
  recovery_.step();
  orphans_.run();
  ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
  if (tries == 0) return true;
  return tries < kLogRoomTries && bands_.space().available >= bands_.largest_band_blocks() &&
         collector_.make_room();
}

Result<> SpaceMaker::prepare_cleaning() {
  orphans_.run();
  TRY(write_back_.write_dirty(kEver));
  TRY(write_back_.move_inline(true));
  TRY(store_.give_back_bands());
  return collector_.reset_empty_bands();
}

Result<> SpaceMaker::collect_garbage() {
  TRY(prepare_cleaning());
  return collector_.clean_all();
}

}  // namespace lazyfs::fs
