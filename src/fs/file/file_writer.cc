#include "fs/file/file_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/buffer.h"

namespace lazyfs::fs {
namespace {

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

// False: the map has changed since the blocks were loaded.
Result<bool> FileWriter::store(const InodeRef& inode, const Write& w) {
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
  if (inode->truncate_pending && w.end() > inode->record.size) return false;
  if (!inode->buffer) inode->buffer = std::make_unique<data::WriteBuffer>(pages_);
  data::WriteBuffer& buffer = *inode->buffer;

  OldBlocks old;
  std::uint64_t pages = buffer.new_pages(w.offset, w.bytes.size());
  for (const std::uint64_t block : blocks_needed(*inode, w)) {
    const FileReader::Block* loaded = w.find(block, inode->map_version);
    if (!loaded) return false;
    const bool is_last_of_file = block < w.first_block();  // I6
    if (is_last_of_file && !loaded->had_rest) continue;
    if (is_last_of_file) ++pages;
    old.emplace_back(block, loaded);
  }
  TRY(reserver_.reserve(*inode, w.first_block(), blocks_for(w.end()), pages));
  dirty_.add(inode, clock_.monotonic());  // I2: also if memory lacks from here on
  const std::uint64_t before = buffer.dirty_blocks();
  try {
    put_into_buffer(buffer, w, old);
  } catch (...) {
    reserver_.give_back(pages - (buffer.dirty_blocks() - before));
    throw;
  }

  inode->record.size = std::max(inode->record.size, w.end());
  if (!w.flags.keep_times) {
    inode->record.modification = inode->record.change = change_time(clock_, {inode.get()});
  }
  if (w.flags.clear_set_id) drop_set_id(inode->record);
  inode->record_dirty = true;
  return true;
}

// After std::bad_alloc the buffer may have more dirty blocks, with the contents that the file has.
void FileWriter::put_into_buffer(data::WriteBuffer& buffer, const Write& w, const OldBlocks& old) {
  static const AlignedBuffer kZeros = AlignedBuffer::zeroed(kBlockBytes);
  for (const auto& [block, loaded] : old) buffer.provide(block, loaded->bytes.span());
  for (const std::uint64_t block : buffer.needs_old(w.offset, w.bytes.size())) {
    buffer.provide(block, kZeros.span());  // past the end of the file
  }
  buffer.write(w.offset, w.bytes);
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
  TRY(reserver_.admit(*inode, from.size()));
  Write w{.offset = offset, .bytes = from, .flags = flags, .loaded = {}};
  return reserver_.with_space([&]() -> Result<> {
    for (;;) {  // each further turn: another thread has made progress with this file
      TRY(load_blocks(inode, w));
      ASSIGN_OR_RETURN(const bool is_stored, store(inode, w));
      if (is_stored) return ok();
    }
  });
}

}  // namespace lazyfs::fs
