#include "meta/log/superblock_log.h"

#include <algorithm>
#include <optional>

#include "base/buffer.h"
#include "base/log.h"
#include "meta/log/log_layout.h"
#include "meta/log/second_read.h"
#include "meta/log/superblock_format.h"

namespace lazyfs::meta {
namespace {

constexpr std::uint32_t kSearchPieceBlocks = 64;
// A band is reset after this many records, so that opening can read all of them. Opening must read
// all: leftovers of a crash may follow the newest record, and may be a whole record from before the
// band's last reset.
constexpr std::uint32_t kMaxRecords = 256;
constexpr std::uint32_t kSearchBlocks = 4096;  // while the other band takes none
constexpr std::uint32_t kZeroBlocks = 64;      // written at once
// Blocks after the newest record that an unfinished write may have changed.
constexpr std::uint32_t kMayBeTorn = 1;

struct Search {
  std::optional<Superblock> newest;
  std::uint32_t newest_rba = 0;
  std::uint64_t newer_version_sequence = 0;  // highest one of records that a newer lazyfs wrote
  Errc trouble = Errc::kNoFilesystem;        // the worst error met, if nothing was found
};

int rank(Errc e) {
  if (e == Errc::kNoFilesystem) return 0;
  return e == Errc::kSuperblockBad ? 1 : 2;
}

void note(Search& search, Errc e) {
  if (rank(e) > rank(search.trouble)) search.trouble = e;
}

void merge(Search& into, Search from) {
  note(into, from.trouble);
  into.newer_version_sequence = std::max(into.newer_version_sequence, from.newer_version_sequence);
  if (!from.newest || (into.newest && into.newest->sequence >= from.newest->sequence)) return;
  into.newest = std::move(from.newest);
  into.newest_rba = from.newest_rba;
}

// Looks through `blocks`, of which the first one has the RBA `begin`, from the last to the first.
// Returns whether all of them are records.
bool search_blocks(std::span<const std::byte> blocks, std::uint32_t begin, Search& search) {
  bool all = true;
  for (std::size_t i = blocks.size() / kBlockBytes; i-- > 0;) {
    const auto block = blocks.subspan(i * kBlockBytes).first<kBlockBytes>();
    auto record = decode_superblock(block);
    if (record) {
      const bool is_newer = !search.newest || record->sequence > search.newest->sequence;
      if (!is_newer) continue;
      search.newest = std::move(*record);
      search.newest_rba = begin + static_cast<std::uint32_t>(i);
      continue;
    }
    all = false;
    note(search, record.error());
    if (record.error() == Errc::kSuperblockNewer) {
      search.newer_version_sequence =
          std::max(search.newer_version_sequence, superblock_sequence(block));
    }
  }
  return all;
}

// Searches the blocks [begin, end) of `band`. A block that was read wrong could hide the newest
// record, whatever it looks like. So if some are no records, all are read again.
void search_piece(device::Device& device, BandId band, std::uint32_t begin, std::uint32_t end,
                  Search& search) {
  AlignedBuffer buffer(std::size_t{end - begin} * kBlockBytes);
  auto read = device.read({band, begin}, buffer.span());
  if (!read && end - begin == 1) read = read_again(device, {band, begin}, buffer.span());
  if (!read) {
    if (end - begin == 1) return note(search, read.error());
    for (std::uint32_t rba = end; rba > begin; --rba) {
      search_piece(device, band, rba - 1, rba, search);
    }
    return;
  }
  if (search_blocks(buffer.span(), begin, search)) return;
  if (read_again(device, {band, begin}, buffer.span())) {
    search_blocks(buffer.span(), begin, search);
  }
}

// Searches a band whose end is not known: the first kMaxRecords blocks, then further while records
// are found. Records from before the band's reset follow, with lower sequences.
void search_from_start(device::Device& device, BandId band, std::uint32_t end, Search& search) {
  for (std::uint32_t begin = 0; begin < std::min(end, kSearchBlocks);) {
    const std::uint32_t piece_end = std::min(end, begin + kSearchPieceBlocks);
    Search piece;
    search_piece(device, band, begin, piece_end, piece);
    const bool has_records = piece.newest.has_value() || piece.trouble != Errc::kNoFilesystem;
    merge(search, std::move(piece));
    if (piece_end >= kMaxRecords && !has_records) return;
    begin = piece_end;
  }
}

Search search_band(device::Device& device, BandId band) {
  Search search;
  const auto write_pointer = device.write_pointer(band);
  if (!write_pointer) {
    note(search, write_pointer.error());
    return search;
  }
  if (!device.capabilities().keeps_write_pointers) {
    search_from_start(device, band, *write_pointer, search);
    return search;
  }
  const std::uint32_t stop = *write_pointer - std::min(*write_pointer, kSearchBlocks);
  for (std::uint32_t end = *write_pointer; end > stop;) {
    const std::uint32_t begin = end - std::min(end - stop, kSearchPieceBlocks);
    search_piece(device, band, begin, end, search);
    end = begin;
  }
  return search;
}

Result<> check_against_device(const Superblock& s, const device::Device& device) {
  const auto& geometry = device.geometry();
  // A device that has grown has more bands, until the next record counts them.
  if (s.band_count > geometry.band_count() || s.log_bands.empty() || s.sequence == 0 ||
      s.super_bands != geometry.super_bands) {
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
  for (const BandId band : device.geometry().super_bands) {
    if (!device.geometry().has(band)) return fail(Errc::kNoFilesystem);
    merge(best, search_band(device, band));
  }
  if (!best.newest) return fail(best.trouble);
  // If a newer lazyfs has upgraded the volume, a record from before the upgrade must not be used.
  if (best.newer_version_sequence > best.newest->sequence) return fail(Errc::kSuperblockNewer);
  TRY(check_against_device(*best.newest, device));
  return std::move(*best.newest);
}

SuperblockLog::SuperblockLog(device::Device& device, Superblock newest)
    : device_(device), current_(std::move(newest)) {
  for (std::size_t i = 0; i < intact_.size(); ++i) {
    const Search search = search_band(device_, current_.super_bands[i]);
    intact_[i] = search.newest && search.newest->sequence == current_.sequence;
    if (search.newest) found_end_[i] = search.newest_rba + 1 + kMayBeTorn;
  }
}

Result<> erase_superblocks(device::Device& device, std::span<const BandId> bands) {
  const bool keeps_pointers = device.capabilities().keeps_write_pointers;
  const AlignedBuffer zeros = AlignedBuffer::zeroed(std::size_t{kZeroBlocks} * kBlockBytes);
  for (const BandId band : bands) {
    TRY(device.reset(band));
    const std::uint32_t blocks = std::min(device.geometry().blocks_of(band), kSearchBlocks);
    for (std::uint32_t rba = 0; !keeps_pointers && rba < blocks; rba += kZeroBlocks) {
      const std::size_t length = std::min(blocks - rba, kZeroBlocks) * std::size_t{kBlockBytes};
      TRY(device.append({band, rba}, zeros.span().first(length)));
    }
    if (!keeps_pointers) TRY(device.reset(band));
  }
  return device.flush();
}

std::uint64_t newest_sequence_in(device::Device& device, BandId band) {
  const Search search = search_band(device, band);
  return search.newest ? search.newest->sequence : 0;
}

Result<> SuperblockLog::format(device::Device& device, const Superblock& first) {
  for (const BandId band : first.super_bands) TRY(device.reset(band));
  TRY(device.flush());
  SuperblockLog log(device, first);
  log.intact_ = log.is_begun_ = {true, true};
  for (std::size_t i = 0; i < log.intact_.size(); ++i) TRY(log.write_to(i, first));
  return ok();
}

Result<> SuperblockLog::write(Superblock next) {
  next.sequence = current_.sequence + (is_first_ ? 2 : 1);  // S4
  std::array<bool, 2> written{};
  Result<> trouble = ok();
  // S3: a band that does not hold the newest record is the first one to be reset.
  const std::size_t first = intact_[0] && !intact_[1] ? 1 : 0;
  for (const std::size_t i : {first, 1 - first}) {
    if (auto r = write_to(i, next); r) {
      written[i] = true;
      intact_[i] = true;
    } else {
      log::error("superblock {} not written to band {}: {}", next.sequence,
                 next.super_bands[i].value, describe(r.error()));
      // No later flush can make this record durable.
      if (r.error() == Errc::kDeviceFlush) return r;
      trouble = r;
    }
  }
  if (!written[0] && !written[1]) return trouble;
  is_first_ = false;
  is_in_doubt_ = false;
  intact_ = written;
  current_ = std::move(next);
  return ok();
}

// Called when the other band takes no records, so that this one cannot be reset. If the device does
// not know the band's end, skips a record that an earlier session has torn.
Result<> SuperblockLog::continue_band(std::size_t index) {
  const BandId band = current_.super_bands[index];
  if (device_.capabilities().keeps_write_pointers) return ok();
  const std::uint32_t end = std::min(found_end_[index], device_.geometry().blocks_of(band));
  const Result<> stated = device_.set_write_pointer(band, end);
  const bool is_known = !stated && stated.error() == Errc::kUnsupported;
  return is_known ? ok() : stated;
}

Result<> SuperblockLog::write_to(std::size_t index, const Superblock& record) {
  const BandId band = record.super_bands[index];
  // While the other band takes no records, this one is filled up to the limit of the search.
  const bool other = intact_[1 - index];
  if (!is_begun_[index] && !other) TRY(continue_band(index));
  ASSIGN_OR_RETURN(std::uint32_t at, device_.write_pointer(band));
  const std::uint32_t room =
      std::min(device_.geometry().blocks_of(band), other ? kMaxRecords : kSearchBlocks);
  if (at >= room || (other && (has_refused_[index] || !is_begun_[index]))) {
    if (!other) return fail(Errc::kSuperblockBad);  // S2
    intact_[index] = false;
    TRY(device_.reset(band));
    at = 0;
  }
  is_begun_[index] = true;
  AlignedBuffer block(kBlockBytes);
  encode(record, block.span().first<kBlockBytes>());
  if (auto appended = device_.append({band, at}, block.span()); !appended) {
    const auto now = device_.write_pointer(band);
    is_in_doubt_ |= !now || *now != at || !device_.capabilities().keeps_write_pointers;
    has_refused_[index] = true;
    return appended;
  }
  has_refused_[index] = false;
  auto flushed = device_.flush();
  is_in_doubt_ |= !flushed;
  return flushed;
}

}  // namespace lazyfs::meta
