#include "meta/log/superblock_log.h"

#include <algorithm>
#include <optional>

#include "base/buffer.h"
#include "base/log.h"
#include "meta/log/log_layout.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kPieceBlocks = 64;
// A band is reset after this many records, so that opening can read all of them. It has to: blocks
// that a crash has left may follow the newest record, and they may be a whole record from before
// the band's last reset.
constexpr std::uint32_t kMaxRecords = 256;
constexpr std::uint32_t kSearchBlocks = 4096;  // while the other band takes none, and once always

struct Search {
  std::optional<Superblock> newest;
  std::uint64_t newer_version_sequence = 0;  // highest one of records that a newer lazyfs wrote
  Errc trouble = Errc::kNoFilesystem;        // the worst that was met, when nothing was found
};

int rank(Errc e) {
  if (e == Errc::kNoFilesystem) return 0;
  return e == Errc::kSuperblockBad ? 1 : 2;
}

void note(Search& search, Errc e) {
  if (rank(e) > rank(search.trouble)) search.trouble = e;
}

// Looks through the blocks [begin, end) of `band` from the last to the first.
void search_piece(device::Device& device, BandId band, std::uint32_t begin, std::uint32_t end,
                  Search& search) {
  AlignedBuffer buffer(std::size_t{end - begin} * kBlockBytes);
  if (auto read = device.read({band, begin}, buffer.span()); !read) {
    if (end - begin == 1) return note(search, read.error());
    for (std::uint32_t rba = end; rba > begin; --rba) {
      search_piece(device, band, rba - 1, rba, search);
    }
    return;
  }
  for (std::uint32_t i = end - begin; i > 0; --i) {
    const auto block = buffer.span().subspan(std::size_t{i - 1} * kBlockBytes).first<kBlockBytes>();
    if (auto record = decode_superblock(block)) {
      const bool is_newer = !search.newest || record->sequence > search.newest->sequence;
      if (is_newer) search.newest = std::move(*record);
    } else {
      note(search, record.error());
      if (record.error() == Errc::kSuperblockNewer) {
        search.newer_version_sequence =
            std::max(search.newer_version_sequence, superblock_sequence(block));
      }
    }
  }
}

Search search_band(device::Device& device, BandId band) {
  Search search;
  const auto write_pointer = device.write_pointer(band);
  if (!write_pointer) {
    note(search, write_pointer.error());
    return search;
  }
  const std::uint32_t stop = *write_pointer - std::min(*write_pointer, kSearchBlocks);
  for (std::uint32_t end = *write_pointer; end > stop;) {
    const std::uint32_t begin = end - std::min(end - stop, kPieceBlocks);
    search_piece(device, band, begin, end, search);
    end = begin;
  }
  return search;
}

Result<> check_against_device(const Superblock& s, const device::Device& device) {
  const auto& geometry = device.geometry();
  if (s.band_count != geometry.band_count() || s.log_bands.empty() || s.sequence == 0) {
    return fail(Errc::kSuperblockBad);
  }
  std::vector<BandId> bands = s.log_bands;
  bands.push_back(s.super_bands[0]);
  bands.push_back(s.super_bands[1]);
  std::ranges::sort(bands);
  const bool distinct = std::ranges::adjacent_find(bands) == bands.end();
  if (!distinct || !geometry.has(bands.back())) return fail(Errc::kSuperblockBad);
  const bool usable = std::ranges::all_of(s.log_bands, [&](BandId band) {
    return geometry.band_kinds[band.value] == device::BandKind::kShingled &&
           geometry.blocks_of(band) >= kMinLogBandBlocks;
  });
  return usable ? ok() : fail(Errc::kSuperblockBad);
}

}  // namespace

Result<Superblock> read_superblock(device::Device& device) {
  Search best;
  for (const std::uint32_t band : {0u, 1u}) {
    if (!device.geometry().has(BandId{band})) return fail(Errc::kNoFilesystem);
    Search search = search_band(device, BandId{band});
    note(best, search.trouble);
    best.newer_version_sequence =
        std::max(best.newer_version_sequence, search.newer_version_sequence);
    if (search.newest && (!best.newest || search.newest->sequence > best.newest->sequence)) {
      best.newest = std::move(search.newest);
    }
  }
  if (!best.newest) return fail(best.trouble);
  // What a newer lazyfs has upgraded must not be continued from before the upgrade.
  if (best.newer_version_sequence > best.newest->sequence) return fail(Errc::kSuperblockNewer);
  TRY(check_against_device(*best.newest, device));
  return std::move(*best.newest);
}

SuperblockLog::SuperblockLog(device::Device& device, Superblock newest)
    : device_(device), current_(std::move(newest)) {
  for (std::size_t i = 0; i < intact_.size(); ++i) {
    const Search search = search_band(device_, current_.super_bands[i]);
    intact_[i] = search.newest && search.newest->sequence == current_.sequence;
  }
}

Result<> SuperblockLog::format(device::Device& device, const Superblock& first) {
  for (const BandId band : first.super_bands) TRY(device.reset(band));
  TRY(device.flush());
  SuperblockLog log(device, first);
  log.intact_ = {true, true};
  for (std::size_t i = 0; i < log.intact_.size(); ++i) TRY(log.write_to(i, first));
  return ok();
}

Result<> SuperblockLog::write(Superblock next) {
  next.sequence = current_.sequence + 1;
  std::array<bool, 2> written{};
  Result<> trouble = ok();
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (auto r = write_to(i, next); r) {
      written[i] = true;
      intact_[i] = true;
    } else {
      log::error("superblock {} not written to band {}: {}", next.sequence,
                 next.super_bands[i].value, describe(r.error()));
      // No later flush makes up for it.
      if (r.error() == Errc::kDeviceFlush) return r;
      trouble = r;
    }
  }
  if (!written[0] && !written[1]) return trouble;
  is_in_doubt_ = false;
  intact_ = written;
  current_ = std::move(next);
  return ok();
}

Result<> SuperblockLog::write_to(std::size_t index, const Superblock& record) {
  const BandId band = record.super_bands[index];
  ASSIGN_OR_RETURN(std::uint32_t at, device_.write_pointer(band));
  // While the other band takes no records, this one is filled up to the limit of the search.
  const bool other = intact_[1 - index];
  const std::uint32_t room =
      std::min(device_.geometry().blocks_of(band), other ? kMaxRecords : kSearchBlocks);
  if (at >= room || (has_refused_[index] && other)) {
    if (!other) return fail(Errc::kSuperblockBad);  // S2
    intact_[index] = false;
    TRY(device_.reset(band));
    at = 0;
  }
  AlignedBuffer block(kBlockBytes);
  encode(record, block.span().first<kBlockBytes>());
  if (auto appended = device_.append({band, at}, block.span()); !appended) {
    const auto now = device_.write_pointer(band);
    is_in_doubt_ |= !now || *now != at;
    has_refused_[index] = true;
    return appended;
  }
  has_refused_[index] = false;
  auto flushed = device_.flush();
  is_in_doubt_ |= !flushed;
  return flushed;
}

}  // namespace lazyfs::meta
