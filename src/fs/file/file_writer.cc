#include "fs/file/file_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "fs/file/extent_map.h"

namespace lazyfs::fs {
namespace {

// How often a write makes space before it gives up: others may take the freed space each time.
constexpr int kMaxSpaceTries = 1000;
// Space is reserved for so much at once, so that the room kept for recording it stays small.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

}  // namespace

struct FileWriter::Write {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  WriteFlags flags;
  std::vector<std::pair<std::uint64_t, FileReader::Block>> loaded;  // by block

  std::uint64_t first_block() const { return offset / kBlockBytes; }
  std::uint64_t end() const { return offset + bytes.size(); }
  // The loaded block, unless the map has changed since.
  const FileReader::Block* find(std::uint64_t block, std::uint64_t map_version) const {
    const auto found = std::ranges::find(loaded, block, [](const auto& l) { return l.first; });
    const bool is_current = found != loaded.end() && found->second.map_version == map_version;
    return is_current ? &found->second : nullptr;
  }
};

// The stored blocks that the write needs: those inside the file that it covers in part and that the
// buffer lacks; and the last block, if the file grows past it (I6).
std::vector<std::uint64_t> FileWriter::blocks_needed(const Inode& inode, const Write& w) const {
  const data::WriteBuffer empty(pages_);
  const data::WriteBuffer& buffer = inode.buffer ? *inode.buffer : empty;
  const std::uint64_t size = inode.record.size, last_block = size / kBlockBytes;
  std::vector<std::uint64_t> blocks = buffer.needs_old(w.offset, w.bytes.size());
  std::erase_if(blocks, [size](std::uint64_t block) { return block * kBlockBytes >= size; });
  const bool grows_past = w.first_block() > last_block && size % kBlockBytes != 0;
  if (grows_past && !buffer.has(last_block)) blocks.push_back(last_block);
  return blocks;
}

// Loads the stored blocks that the write needs, and finishes a pending truncation over which the
// file would grow (I7).
Result<> FileWriter::load_blocks(const InodeRef& inode, Write& w) {
  w.loaded.clear();
  std::vector<std::uint64_t> blocks;
  bool grows_over_truncated = false;
  {
    ReaderLock lock(inode->mu);
    grows_over_truncated = inode->truncate_pending && w.end() > inode->record.size;
    blocks = blocks_needed(*inode, w);
  }
  if (grows_over_truncated) TRY(truncation_.finish(inode));
  for (const std::uint64_t block : blocks) {
    ASSIGN_OR_RETURN(auto stored, reader_.stored_block(*inode, block));
    w.loaded.emplace_back(block, std::move(stored));
  }
  return ok();
}

Result<FileWriter::Stored> FileWriter::store(const InodeRef& inode, const Write& w) {
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
  if (inode->truncate_pending && w.end() > inode->record.size) return Stored::kMapChanged;
  if (!inode->buffer) inode->buffer = std::make_unique<data::WriteBuffer>(pages_);
  data::WriteBuffer& buffer = *inode->buffer;

  std::vector<std::pair<std::uint64_t, const FileReader::Block*>> old;
  std::uint64_t pages = buffer.new_pages(w.offset, w.bytes.size());
  for (const std::uint64_t block : blocks_needed(*inode, w)) {
    const FileReader::Block* loaded = w.find(block, inode->map_version);
    if (!loaded) return Stored::kMapChanged;
    const bool is_last_of_file = block < w.first_block();  // I6
    if (is_last_of_file && !loaded->had_rest) continue;
    if (is_last_of_file) ++pages;
    old.emplace_back(block, loaded);
  }
  ASSIGN_OR_RETURN(const bool reserved, reserve(*inode, w, pages));
  if (!reserved) return Stored::kNoSpace;

  static const AlignedBuffer kZeros = AlignedBuffer::zeroed(kBlockBytes);
  for (const auto& [block, loaded] : old) buffer.provide(block, loaded->bytes.span());
  for (const std::uint64_t block : buffer.needs_old(w.offset, w.bytes.size())) {
    buffer.provide(block, kZeros.span());  // past the end of the file
  }
  buffer.write(w.offset, w.bytes);

  inode->record.size = std::max(inode->record.size, w.end());
  if (!w.flags.keep_times) {
    inode->record.modification = inode->record.change = change_time(clock_, {inode.get()});
  }
  if (w.flags.clear_set_id) drop_set_id(inode->record);
  inode->record_dirty = true;
  dirty_.add(inode, clock_.monotonic());
  return Stored::kDone;
}

// Reserves the write's pages; false when there is no space for them, or for recording them.
Result<bool> FileWriter::reserve(const Inode& inode, const Write& w, std::uint64_t pages) {
  if (pages == 0) return true;
  if (!bands_.reserve(pages)) {
    ASSIGN_OR_RETURN(const std::uint64_t overwriting, count_overwritten(inode, w));
    if (!bands_.reserve_to_overwrite(pages - overwriting, overwriting)) return false;
  }
  if (store_.has_room_to_record(0)) return true;
  bands_.release(pages);
  return false;
}

// How many of the pages that the write needs replace blocks that have their space on the device.
Result<std::uint64_t> FileWriter::count_overwritten(const Inode& inode, const Write& w) const {
  const std::uint64_t first = w.first_block(), end = blocks_for(w.end());
  std::vector<bool> has_space(end - first);
  ASSIGN_OR_RETURN(const auto entries, read_map(store_, inode.no, first, end - first));
  for (const MapEntry& entry : entries) {
    if (const auto* reference = std::get_if<ReferenceRecord>(&entry.record)) {
      // Overwriting a block that others refer to frees nothing.
      ASSIGN_OR_RETURN(const auto exclusive, shared_.count_exclusive(*reference));
      if (exclusive < entry.blocks()) continue;
    }
    std::fill_n(has_space.begin() + static_cast<std::ptrdiff_t>(entry.file_block - first),
                entry.blocks(), true);
  }
  std::uint64_t count = 0;
  for (std::uint64_t block = first; block < end; ++block) {
    const bool is_buffered = inode.buffer->has(block);  // has_dirty() ones need no page
    count += !inode.buffer->has_dirty(block) && (is_buffered || has_space[block - first]);
  }
  return count;
}

Result<> FileWriter::write(const InodeRef& inode, std::uint64_t offset,
                           std::span<const std::byte> from, WriteFlags flags) {
  if (from.empty()) return ok();
  if (offset > kMaxFileBytes || from.size() > kMaxFileBytes - offset) {
    return fail(Errc::kFileTooBig);
  }
  while (!from.empty()) {
    const auto piece = from.first(std::min(from.size(), kPieceBytes - offset % kBlockBytes));
    TRY(write_piece(inode, offset, piece, flags));
    offset += piece.size();
    from = from.subspan(piece.size());
  }
  return ok();
}

Result<> FileWriter::write_piece(const InodeRef& inode, std::uint64_t offset,
                                 std::span<const std::byte> from, WriteFlags flags) {
  if (store_.failed()) return fail(Errc::kLogFailed);
  TRY(pressure_.throttle(from.size()));
  Write w{.offset = offset, .bytes = from, .flags = flags, .loaded = {}};
  bool is_full = false;
  for (int space_tries = 0;;) {  // kMapChanged: another thread has made progress with this file
    TRY(load_blocks(inode, w));
    ASSIGN_OR_RETURN(const Stored stored, store(inode, w));
    if (stored == Stored::kDone) return ok();
    if (stored == Stored::kMapChanged) continue;
    if (is_full || ++space_tries > kMaxSpaceTries) return fail(Errc::kNoSpace);
    // Space may have become free after the try and before make_space() looked: one more try.
    is_full = !pressure_.make_space();
  }
}

}  // namespace lazyfs::fs
