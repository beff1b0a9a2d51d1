#include "meta/log/restore_superblock.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/buffer.h"
#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"
#include "meta/log/recovery.h"
#include "meta/log/second_read.h"
#include "meta/log/superblock_format.h"
#include "meta/log/superblock_log.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kPieceBlocks = 256;

// The stamp of a block of the log.
std::optional<BlockStamp> log_stamp_of(ConstBlockBytes block) {
  if (const auto header = decode_band_header(block)) return header->stamp;
  if (const auto front = decode_descriptor(DescriptorRole::kFront, block)) return front->stamp;
  return std::nullopt;
}

class Restorer {
 public:
  explicit Restorer(device::Device& device) : device_(device) {}

  // `older`: the newest superblock that remains. `named`: the volume's UUID according to the
  // device. lazyfsctl uuid changes that UUID, but not the one in the log.
  Result<Superblock> run(const std::optional<Superblock>& older, const std::optional<Uuid>& named) {
    for (std::uint32_t i = 0; i < device_.geometry().band_count(); ++i) look_at(BandId{i});
    if (older) return restore(*older);
    Superblock s;
    ASSIGN_OR_RETURN(s.uuid, choose_log(named));
    return restore(std::move(s));
  }

 private:
  bool is_usable(BandId band) const {
    const auto& geometry = device_.geometry();
    return std::ranges::find(geometry.super_bands, band) == geometry.super_bands.end() &&
           geometry.band_kinds[band.value] == device::BandKind::kShingled &&
           geometry.blocks_of(band) >= kMinLogBandBlocks;
  }

  // The first two blocks of a band show whether it belongs to a log. On a device that keeps no
  // write pointers only the first one does: the second may be a leftover in a band that the log has
  // given back, and that now holds one block of a file.
  void look_at(BandId band) {
    if (!is_usable(band)) return;
    const auto write_pointer = device_.write_pointer(band);
    if (!write_pointer) return;
    if (*write_pointer == 0) free_.push_back(band);
    AlignedBuffer block(kBlockBytes);
    const std::uint32_t shown = needs_rescue_band(device_.capabilities()) ? 1 : 2;
    for (std::uint32_t rba = 0; rba < std::min(*write_pointer, shown); ++rba) {
      const auto stamp = stamp_at({band, rba}, block);
      if (!stamp || stamp->rba != rba) continue;
      FoundLog& found = by_uuid_[stamp->uuid];
      found.bands.push_back(band);
      found.oldest_session = std::min(found.oldest_session, stamp->session);
      found.newest_session = std::max(found.newest_session, stamp->session);
      return;
    }
  }

  // Reads twice before the block counts as one that does not belong to a log.
  std::optional<BlockStamp> stamp_at(BandAddress at, AlignedBuffer& block) {
    const auto bytes = block.span().first<kBlockBytes>();
    if (device_.read(at, bytes)) {
      if (const auto stamp = log_stamp_of(bytes)) return stamp;
    }
    return read_again(device_, at, bytes) ? log_stamp_of(bytes) : std::nullopt;
  }

  // The UUID of the volume's log. A device that keeps no write pointers still shows logs of volumes
  // that mkfs has replaced. None of them is restored in place of the named or the newest one, even
  // if that one cannot be recovered. Sessions are counted from the time of mkfs, so all sessions of
  // the newest volume are newer than those of the others. If not, the clock was set back, and it is
  // not known which volume is the newest. Errors: kNoFilesystem, kSuperblockBad.
  Result<Uuid> choose_log(const std::optional<Uuid>& named) const {
    if (named && by_uuid_.contains(*named)) return *named;
    const auto newest = std::ranges::max_element(
        by_uuid_, {}, [](const auto& log) { return log.second.newest_session; });
    if (newest == by_uuid_.end()) return fail(Errc::kNoFilesystem);
    for (const auto& [uuid, found] : by_uuid_) {
      const bool is_older = found.newest_session < newest->second.oldest_session;
      if (uuid != newest->first && !is_older) return fail(Errc::kSuperblockBad);
    }
    return newest->first;
  }

  // Rebuilds the superblock with this UUID. Replaces its fields about the log.
  Result<Superblock> restore(Superblock s) {
    const auto found = by_uuid_.find(s.uuid);
    if (found == by_uuid_.end()) return fail(Errc::kNoFilesystem);
    commits_.clear();
    newest_session_ = 0;
    s.super_bands = device_.geometry().super_bands;
    s.log_bands = found->second.bands;
    for (const BandId band : s.log_bands) {
      read_commits(band, s.uuid);
      device_.forget_copies(band);
      read_commits(band, s.uuid);  // what was read wrong could be a session's first transaction
    }
    if (commits_.empty()) return fail(Errc::kLogTailLost);
    s.sequence += 1;
    s.set_clean_end(false);
    s.band_count = device_.geometry().band_count();
    const auto& [session, seqs] = *commits_.rbegin();
    // Transactions of earlier sessions count up to the start of this one. A session without a
    // commit record has lost everything, but its slots must not be used again.
    s.session = std::max(session, newest_session_);
    s.session_start_seq = s.session == session ? seqs.first - 1 : seqs.last;
    s.durable_seq = s.head_slot = 0;
    s.head_rba = s.head_blocks = 0;
    add_free_bands(s.log_bands);
    if (s.log_bands.size() > kMaxLogBands) return fail(Errc::kSuperblockBad);
    s.min_log_bands = std::max(s.min_log_bands, min_log_bands(device_.capabilities()));
    TRY(recover_log(device_, s));
    return s;
  }

  // The first and the last transaction of each session.
  void read_commits(BandId band, const Uuid& uuid) {
    const auto write_pointer = device_.write_pointer(band);
    if (!write_pointer) return;
    AlignedBuffer buffer(std::size_t{kPieceBlocks} * kBlockBytes);
    for (std::uint32_t at = 0; at < *write_pointer; at += kPieceBlocks) {
      const std::uint32_t blocks = std::min(kPieceBlocks, *write_pointer - at);
      const auto bytes = buffer.span().first(std::size_t{blocks} * kBlockBytes);
      const bool whole = device_.read({band, at}, bytes).has_value();
      for (std::uint32_t i = 0; i < blocks; ++i) {
        const auto block = bytes.subspan(std::size_t{i} * kBlockBytes).first<kBlockBytes>();
        if (!whole && !read_twice(device_, {band, at + i}, block)) continue;
        const auto stamp = log_stamp_of(block);
        if (stamp && stamp->uuid == uuid && stamp->rba == at + i) {
          newest_session_ = std::max(newest_session_, stamp->session);
        }
        const auto commit = decode_descriptor(DescriptorRole::kCommit, block);
        if (!commit || commit->stamp.uuid != uuid || commit->stamp.rba != at + i) continue;
        const std::uint64_t seq = commit->seq.value;
        const auto known = commits_.try_emplace(commit->stamp.session, Seqs{seq, seq}).first;
        known->second.first = std::min(known->second.first, seq);
        known->second.last = std::max(known->second.last, seq);
      }
    }
  }

  // The log's spare bands are empty and look like other free bands. The nearest free bands take
  // their place: half as many as the log bands that hold something, plus two.
  void add_free_bands(std::vector<BandId>& log) const {
    const std::size_t least = min_log_bands(device_.capabilities());
    const std::size_t wanted = std::max(log.size() + log.size() / 2 + 2, least);
    const std::uint32_t middle = log[log.size() / 2].value;
    std::vector<BandId> free = free_;
    std::ranges::sort(free, {}, [&](BandId band) {
      return std::pair(band.value > middle ? band.value - middle : middle - band.value, band);
    });
    for (const BandId band : free) {
      if (log.size() >= wanted) break;
      log.push_back(band);
    }
    std::ranges::sort(log);
  }

  struct FoundLog {
    std::vector<BandId> bands;
    std::uint64_t oldest_session = ~std::uint64_t{0};  // oldest session that began one of them
    std::uint64_t newest_session = 0;                  // newest one
  };

  device::Device& device_;
  std::map<Uuid, FoundLog> by_uuid_;
  std::vector<BandId> free_;
  struct Seqs {
    std::uint64_t first = 0, last = 0;
  };
  // Of the volume that restore() rebuilds:
  std::map<std::uint64_t, Seqs> commits_;  // by session
  std::uint64_t newest_session_ = 0;       // the newest that wrote to the log
};

std::vector<BandId> offline_bands(device::Device& device, const Superblock& superblock) {
  std::vector<BandId> offline;
  for (const BandId band : superblock.log_bands) {
    const auto report = device.report(band);
    if (report && report->condition == device::BandCondition::kOffline) offline.push_back(band);
  }
  return offline;
}

}  // namespace

Result<> restore_superblock(device::Device& device, const std::optional<Uuid>& named,
                            const std::function<void(std::string)>& report) {
  const auto newest = read_superblock(device);
  Result<> usable = newest ? ok() : fail(newest.error());
  if (newest) {
    const auto log = recover_log(device, *newest);
    if (!log) usable = fail(log.error());
  }
  const auto offline = newest ? offline_bands(device, *newest) : std::vector<BandId>();
  const bool can_help = !usable && (usable.error() == Errc::kSuperblockBad || !offline.empty() ||
                                    (!newest && usable.error() == Errc::kNoFilesystem));
  if (!can_help) return ok();  // if the log cannot be opened, opening it gives the reason
  ASSIGN_OR_RETURN(const Superblock restored,
                   Restorer(device).run(newest ? std::optional(*newest) : std::nullopt, named));
  // The surviving superblock stays until the rebuilt one is durable.
  TRY(newest ? SuperblockLog(device, *newest).write(restored)
             : SuperblockLog::format(device, restored));
  for (const BandId band : offline) {
    report(fmt::format(
        "log band {} is offline: what it held is lost, and it is taken out of the log",
        band.value));
  }
  if (offline.empty()) {
    report(fmt::format(
        "the superblock was lost, and is rebuilt from the log: {} log bands, "
        "session {}{}",
        restored.log_bands.size(), restored.session, newest ? "" : "; the label is lost"));
  }
  return ok();
}

Result<std::vector<BandId>> damaged_superblocks(device::Device& device) {
  ASSIGN_OR_RETURN(const Superblock newest, read_superblock(device));
  std::vector<BandId> damaged;
  AlignedBuffer block(kBlockBytes);
  for (const BandId band : newest.super_bands) {
    if (!device.capabilities().keeps_write_pointers) {
      if (newest_sequence_in(device, band) != newest.sequence) damaged.push_back(band);
      continue;
    }
    const auto end = device.write_pointer(band);
    if (end && *end == 0) continue;  // a crash may come before the first record
    const auto read = end ? device.read({band, *end - 1}, block.span()) : fail(end.error());
    const auto record =
        read ? decode_superblock(block.span().first<kBlockBytes>()) : fail(Errc::kSuperblockBad);
    if (!record || record->sequence != newest.sequence) damaged.push_back(band);
  }
  return damaged;
}

}  // namespace lazyfs::meta
