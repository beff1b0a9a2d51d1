#include "fs/file/file_copier.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/buffer.h"
#include "fs/file/inline_block.h"
#include "fs/inode/write_back_token.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;  // a call: the kernel's lock is held
constexpr std::uint64_t kBlocksABatch = 8192;
constexpr std::size_t kEntriesCopiedAtOnce = 128;
constexpr std::size_t kBytesAWrite = std::size_t{1} << 20;

}  // namespace

// Blocks [first, first + blocks) of `from` become [target, target + blocks) of `to`, whose size
// then is at least `end`: the end of these blocks, or the source's end inside the last of them.
struct FileCopier::Share {
  const InodeRef& from;
  const InodeRef& to;
  std::uint64_t first = 0, target = 0, blocks = 0;
  std::uint64_t end = 0;
  bool clear_set_id = false;
};

// ---- Copying -------------------------------------------------------------------------------

Result<std::uint64_t> FileCopier::copy(Place from, Place to, std::uint64_t length,
                                       bool clear_set_id) {
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*from.inode));
  ASSIGN_OR_RETURN(const std::uint64_t to_size, file_size(*to.inode));
  if (from.offset >= size) return 0;
  length = std::min({length, size - from.offset, kMostBytes});
  if (to.offset > kMaxFileBytes || length > kMaxFileBytes - to.offset) {
    return fail(Errc::kFileTooBig);
  }
  const bool overlap = from.inode == to.inode && from.offset < to.offset + length &&
                       to.offset < from.offset + length;
  if (overlap) return fail(Errc::kInvalid);
  std::uint64_t done = 0;
  const auto copied = copy_range(from, to, length, clear_set_id, done);
  if (copied || done > 0) return done;  // a caller that continues meets the error at its place
  const std::uint64_t grown = file_size(*to.inode).value_or(0);
  if (grown > to_size) {
    ignore_error(truncation_.set_size(to.inode, to_size), "the copy's own error is returned");
  }
  return fail(copied.error());
}

// Adds the bytes that it has copied to `done`: fewer than `length` if the source was truncated
// meanwhile.
Result<> FileCopier::copy_range(Place from, Place to, std::uint64_t length, bool clear_set_id,
                                std::uint64_t& done) {
  const auto rest = [&](std::uint64_t end) -> Result<Through> {
    return write_through({from.inode, from.offset + done}, {to.inode, to.offset + done}, end - done,
                         clear_set_id, done);
  };
  const std::uint64_t skip = from.offset % kBlockBytes;
  if (to.offset % kBlockBytes != skip) {
    TRY(rest(length));
    return ok();
  }
  if (skip > 0) {
    ASSIGN_OR_RETURN(const Through head, rest(std::min(length, kBlockBytes - skip)));
    if (head == Through::kSourceEnded) return ok();
  }
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*from.inode));
  ASSIGN_OR_RETURN(const std::uint64_t to_size, file_size(*to.inode));
  // Whole blocks. The source's last one with its bytes past the end, if the target ends there too.
  const bool to_the_end = from.offset + length >= size && to.offset + length >= to_size;
  const std::uint64_t tail = to_the_end ? 0 : (from.offset + length) % kBlockBytes;
  if (length - done > tail) {
    ASSIGN_OR_RETURN(const Through whole, copy_blocks(from, to, length - tail, clear_set_id, done));
    if (whole == Through::kSourceEnded) return ok();
  }
  TRY(rest(length));
  return ok();
}

// Copies whole blocks, until `done` is `end`. Each turn raises `done`.
Result<FileCopier::Through> FileCopier::copy_blocks(Place from, Place to, std::uint64_t end,
                                                    bool clear_set_id, std::uint64_t& done) {
  while (done < end) {
    ASSIGN_OR_RETURN(const std::uint64_t to_size, file_size(*to.inode));
    if (to_size < to.offset + done) {  // brings the rest of its last block in order (I6)
      TRY(truncation_.set_size(to.inode, to.offset + done));
    }
    const std::uint64_t first = (from.offset + done) / kBlockBytes;
    const std::uint64_t blocks = std::min(kBlocksABatch, blocks_for(from.offset + end) - first);
    const std::uint64_t bytes = std::min(end - done, blocks * kBlockBytes);
    const Share range{from.inode,  to.inode,
                      first,       (to.offset + done) / kBlockBytes,
                      blocks,      to.offset + done + bytes,
                      clear_set_id};
    ASSIGN_OR_RETURN(const std::uint64_t shared, share(range));
    ++counters_.copy_steps;
    done = std::min(end, done + shared * kBlockBytes);
    if (shared > 0) continue;
    ASSIGN_OR_RETURN(const Through through,
                     write_through({from.inode, from.offset + done}, {to.inode, to.offset + done},
                                   bytes, clear_set_id, done));
    if (through == Through::kSourceEnded) return through;
  }
  return Through::kAll;
}

// Copies by reading and writing. Adds what it has copied to `done`.
Result<FileCopier::Through> FileCopier::write_through(Place from, Place to, std::uint64_t length,
                                                      bool clear_set_id, std::uint64_t& done) {
  if (length == 0) return Through::kAll;
  AlignedBuffer buffer(std::min<std::uint64_t>(blocks_for(length) * kBlockBytes, kBytesAWrite));
  for (std::uint64_t at = 0; at < length;) {
    const auto to_read = buffer.span().first(std::min<std::uint64_t>(length - at, buffer.size()));
    ASSIGN_OR_RETURN(const std::size_t got, reader_.read(*from.inode, from.offset + at, to_read));
    if (got == 0) return Through::kSourceEnded;  // it was truncated meanwhile
    TRY(writer_.write(to.inode, to.offset + at, to_read.first(got),
                      {.clear_set_id = clear_set_id}));
    at += got;
    done += got;
  }
  return Through::kAll;
}

// ---- Sharing ------------------------------------------------------------------------------------

// Returns how many blocks were shared; 0: they must be copied.
Result<std::uint64_t> FileCopier::share(const Share& share) {
  TRY(write_back_.write_inode(share.from, InlineRule::kOneBlockFiles));
  if (!(share.from == share.to)) {
    TRY(write_back_.write_inode(share.to, InlineRule::kSmallFiles));
  }
  ASSIGN_OR_RETURN(const InodeNo number, new_inode_());
  for (std::size_t at_most = kEntriesCopiedAtOnce; at_most > 0; at_most /= 2) {
    const auto shared =
        meta::when_room(store_, [&] { return share_once(share, number, at_most); });
    if (shared) return shared->value_or(0);
    if (shared.error() != Errc::kBatchTooLarge) return fail(shared.error());
  }
  return 0;
}

// Whether all of the source's blocks are in the map, and the target's item can show the target as
// it will be (I5). REQUIRES: the target's token.
bool FileCopier::can_share(const Share& share, const Inode& from, const Inode& to) {
  if (to.truncate_pending) return false;
  const bool sizes_fit = share.first + share.blocks <= blocks_for(from.record.size) &&
                         share.target * kBlockBytes <= to.record.size &&
                         (share.end % kBlockBytes == 0 || to.record.size <= share.end);
  if (!sizes_fit) return false;
  const auto buffered = [](const data::WriteBuffer* buffer, std::uint64_t first,
                           std::uint64_t blocks) {
    std::uint64_t count = 0;
    if (!buffer || buffer->clean()) return count;
    for (std::uint64_t i = 0; i < blocks; ++i) count += buffer->has(first + i);
    return count;
  };
  if (buffered(from.buffer.get(), share.first, share.blocks) > 0) return false;
  const std::uint64_t dirty = to.buffer ? to.buffer->dirty_blocks() : 0;
  return dirty == buffered(to.buffer.get(), share.target, share.blocks);
}

// nullopt: the blocks must be copied.
Result<std::optional<std::uint64_t>> FileCopier::share_once(const Share& share, InodeNo number,
                                                            std::size_t at_most) {
  Inode &from = *share.from, &to = *share.to;
  const WriteBackToken token(share.to);  // keeps its blocks from being written meanwhile
  const InodeLocks locks{&from, &to};
  from.assert_held();
  to.assert_held();
  if (from.deleted || to.deleted) return fail(Errc::kStale);
  if (!can_share(share, from, to)) return std::nullopt;
  TRY(learn_inline(store_, from));
  TRY(learn_inline(store_, to));
  if (from.inline_state.is_in(share.first, share.blocks)) return std::nullopt;
  ASSIGN_OR_RETURN(auto entries, read_map(store_, from.no, share.first, share.blocks));
  std::uint64_t blocks = share.blocks;
  if (entries.size() > at_most) {
    blocks = entries[at_most].file_block - share.first;
    entries.resize(at_most);
  }
  const bool all = blocks == share.blocks;
  // Dirty blocks may follow the shared ones.
  if (!all && to.buffer && !to.buffer->clean()) return std::nullopt;
  const std::uint64_t end = all ? share.end : (share.target + blocks) * kBlockBytes;

  MapBatch batch = maps_.batch();
  MapChange& source = batch.change(from.no);
  MapChange& target = &from == &to ? source : batch.change(to.no);
  TRY(change_maps(share, number, entries, blocks, source, target, batch.shared()));
  InodeRecord source_record = from.record, record = to.record;
  if (!entries.empty()) {
    source_record.flags |= kHasShared;
    record.flags |= kHasShared;
  }
  record.size = std::max(record.size, end);
  record.modification = record.change = change_time(clock_, {&to});
  if (share.clear_set_id) drop_set_id(record);
  if (&from != &to) batch.put_inode(from, source_record, from.tree_size, source);
  batch.put_inode(to, record, record.size, target);
  const bool covers_inline = to.inline_state.is_in(share.target, blocks);
  if (covers_inline) erase_inline(batch.items(), to);
  TRY(batch.apply());

  from.record.flags = source_record.flags;
  record.blocks = to.record.blocks;
  to.record = record;
  to.record_dirty = false;
  if (covers_inline) to.inline_state = {.is_known = true};
  if (to.buffer) bands_.release(to.buffer->drop_range(share.target, share.target + blocks));
  for (const MapEntry& entry : entries) counters_.shared_blocks += entry.blocks();
  return blocks;
}

Result<> FileCopier::change_maps(const Share& share, InodeNo number,
                                 std::span<const MapEntry> entries, std::uint64_t blocks,
                                 MapChange& source, MapChange& target, SharedChange& shared) {
  const InodeNo from = share.from->no;
  ASSIGN_OR_RETURN(const auto extents, whole_records(from, entries));
  TRY(shared.take_over(number, from, extents));
  for (const MappedExtent& extent : extents) {
    TRY(source.give_away(extent));
    TRY(source.refer(extent.file_block, {number, extent.file_block, extent.extent.blocks()}));
  }
  // MapBatch counts references that end only after these were added.
  std::vector<std::pair<std::uint64_t, ReferenceRecord>> references;
  for (const MapEntry& entry : entries) {
    const auto* there = std::get_if<ReferenceRecord>(&entry.record);
    const ReferenceRecord reference =
        there ? *there : ReferenceRecord{number, entry.file_block, entry.blocks()};
    TRY(shared.add(reference));
    references.emplace_back(share.target + (entry.file_block - share.first), reference);
  }
  TRY(target.unmap(share.target, blocks));
  for (const auto& [block, reference] : references) TRY(target.refer(block, reference));
  return ok();
}

// All extents that came with the append records of those among the entries, in order.
Result<std::vector<MappedExtent>> FileCopier::whole_records(
    InodeNo inode, std::span<const MapEntry> entries) const {
  std::set<BandAddress> records;
  for (const MapEntry& entry : entries) {
    const auto* extent = std::get_if<ExtentRecord>(&entry.record);
    if (extent) records.insert({extent->at.band, extent->append_record});
  }
  std::map<std::uint64_t, MappedExtent> found;
  for (const BandAddress& at : records) {
    ASSIGN_OR_RETURN(const auto value,
                     store_.get(key_of(at.band, Kind::kAppendRecord, at.rba)));
    if (!value) return fail(Errc::kItemBad);
    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(*value));
    if (record.inode != inode) return fail(Errc::kItemBad);
    ASSIGN_OR_RETURN(auto extents,
                     read_extents(store_, inode, record.file_block, record.blocks));
    for (MappedExtent& extent : extents) {
      const bool of_it = extent.extent.at.band == at.band && extent.extent.append_record == at.rba;
      if (of_it) found.emplace(extent.file_block, std::move(extent));
    }
  }
  std::vector<MappedExtent> extents;
  extents.reserve(found.size());
  for (auto& [block, extent] : found) extents.push_back(std::move(extent));
  return extents;
}

}  // namespace lazyfs::fs
