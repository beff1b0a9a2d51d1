#include "fs/file/file_copier.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/buffer.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;  // a call: others wait for its end
constexpr std::uint64_t kBlocksABatch = 8192;
constexpr std::size_t kEntriesABatch = 128;
constexpr std::size_t kBytesAWrite = std::size_t{1} << 20;

}  // namespace

// [first, first + blocks) of `from` becomes [target, target + blocks) of `to`, which then is at
// least `end` bytes long: the end of these blocks, or of the source inside the last of them.
struct FileCopier::Share {
  const InodeRef& from;
  const InodeRef& to;
  std::uint64_t first = 0, target = 0, blocks = 0;
  std::uint64_t end = 0;
  bool clear_set_id = false;
};

// ---- From outside -------------------------------------------------------------------------------

Result<std::uint64_t> FileCopier::copy(Place from, Place to, std::uint64_t length,
                                       bool clear_set_id) {
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*from.inode));
  ASSIGN_OR_RETURN(const std::uint64_t to_size, file_size(*to.inode));
  if (core_.options.read_only) return fail(Errc::kReadOnly);
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
  if (copied || done > 0) return done;  // an error behind it is met by who goes on
  const std::uint64_t grown = file_size(*to.inode).value_or(0);
  if (grown > to_size) {
    ignore_error(writer_.truncate(to.inode, to_size), "the copy has failed for another reason");
  }
  return fail(copied.error());
}

// Requires that the source is at least that long.
Result<> FileCopier::copy_range(Place from, Place to, std::uint64_t length, bool clear_set_id,
                                std::uint64_t& done) {
  const std::uint64_t skip = from.offset % kBlockBytes;
  if (to.offset % kBlockBytes != skip) return write_through(from, to, length, clear_set_id, done);
  if (skip > 0) {
    const std::uint64_t head = std::min(length, kBlockBytes - skip);
    TRY(write_through(from, to, head, clear_set_id, done));
  }
  ASSIGN_OR_RETURN(const std::uint64_t size, file_size(*from.inode));
  ASSIGN_OR_RETURN(std::uint64_t to_size, file_size(*to.inode));
  // Whole blocks; the source's last one with what lies behind its end, where that is the end of the
  // target too.
  const bool to_the_end = from.offset + length >= size && to.offset + length >= to_size;
  std::uint64_t end = length - (to_the_end ? 0 : (from.offset + length) % kBlockBytes);
  if (end > length) end = done;
  while (done < end) {
    if (to_size < to.offset + done) {  // brings the rest of its last block in order (I6)
      TRY(writer_.truncate(to.inode, to.offset + done));
    }
    const std::uint64_t first = (from.offset + done) / kBlockBytes;
    const std::uint64_t blocks = std::min(kBlocksABatch, blocks_for(from.offset + end) - first);
    const std::uint64_t bytes = std::min(end - done, blocks * kBlockBytes);
    const Share range{from.inode,  to.inode,
                      first,       (to.offset + done) / kBlockBytes,
                      blocks,      to.offset + done + bytes,
                      clear_set_id};
    ASSIGN_OR_RETURN(const std::uint64_t shared, share(range));
    ++core_.counters.copy_steps;
    if (shared == 0) {
      TRY(write_through({from.inode, from.offset + done}, {to.inode, to.offset + done}, bytes,
                        clear_set_id, done));
    }
    done = std::min(end, done + shared * kBlockBytes);
    ASSIGN_OR_RETURN(to_size, file_size(*to.inode));
  }
  if (done >= length) return ok();
  return write_through({from.inode, from.offset + done}, {to.inode, to.offset + done},
                       length - done, clear_set_id, done);
}

// Adds what it has copied to `done`.
Result<> FileCopier::write_through(Place from, Place to, std::uint64_t length, bool clear_set_id,
                                   std::uint64_t& done) {
  AlignedBuffer buffer(std::min<std::uint64_t>(blocks_for(length) * kBlockBytes, kBytesAWrite));
  for (std::uint64_t at = 0; at < length;) {
    const auto to_read = buffer.span().first(std::min<std::uint64_t>(length - at, buffer.size()));
    ASSIGN_OR_RETURN(const std::size_t got, reader_.read(*from.inode, from.offset + at, to_read));
    if (got == 0) return fail(Errc::kInvalid);  // the source was cut meanwhile
    TRY(writer_.write(to.inode, to.offset + at, to_read.first(got), clear_set_id));
    at += got;
    done += got;
  }
  return ok();
}

// ---- Sharing ------------------------------------------------------------------------------------

// Returns how many blocks were shared; none: they must be copied.
Result<std::uint64_t> FileCopier::share(const Share& share) {
  TRY(write_back_.write_inode(share.from));
  if (!(share.from == share.to)) TRY(write_back_.write_inode(share.to));
  ASSIGN_OR_RETURN(const InodeNo number, numbers_.take());
  for (std::size_t at_most = kEntriesABatch; at_most > 0; at_most /= 2) {
    const auto shared = share_once(share, number, at_most);
    if (shared) return shared->value_or(0);
    if (shared.error() != Errc::kBatchTooLarge) return fail(shared.error());
  }
  return 0;
}

// With the target's token and both files' locks: whether all of the source's blocks are in the
// map, and the target's map can say all that there is of it afterwards (I5).
bool FileCopier::can_share(const Share& share) const {
  const Inode &from = *share.from, &to = *share.to;
  if (to.truncate_pending) return false;
  const bool sizes_fit = share.first + share.blocks <= blocks_for(from.record.size) &&
                         share.target * kBlockBytes <= to.record.size &&
                         (share.end % kBlockBytes == 0 || to.record.size <= share.end);
  if (!sizes_fit) return false;
  const auto waiting = [](const Inode& inode, std::uint64_t first, std::uint64_t blocks) {
    std::uint64_t count = 0;
    if (!inode.buffer || inode.buffer->clean()) return count;
    for (std::uint64_t i = 0; i < blocks; ++i) count += inode.buffer->has(first + i);
    return count;
  };
  if (waiting(from, share.first, share.blocks) > 0) return false;
  const std::uint64_t dirty = to.buffer ? to.buffer->dirty_blocks() : 0;
  return dirty == waiting(to, share.target, share.blocks);
}

// nullopt: they must be copied.
Result<std::optional<std::uint64_t>> FileCopier::share_once(const Share& share, InodeNo number,
                                                            std::size_t at_most) {
  Inode &from = *share.from, &to = *share.to;
  const WriteBackToken token(share.to);  // no block of it is being written
  const InodeLocks locks{&from, &to};
  if (from.deleted || to.deleted) return fail(Errc::kStale);
  if (!can_share(share)) return std::nullopt;
  ASSIGN_OR_RETURN(auto entries, read_map(core_.store, from.no, share.first, share.blocks));
  if (share.first == 0 && (entries.empty() || entries.front().file_block > 0)) {
    ASSIGN_OR_RETURN(const auto value, core_.store.get(key_of(from.no, Kind::kInline)));
    if (value) return std::nullopt;
  }
  std::uint64_t blocks = share.blocks;
  if (entries.size() > at_most) {
    blocks = entries[at_most].file_block - share.first;
    entries.resize(at_most);
  }
  const bool all = blocks == share.blocks;
  if (!all && to.buffer && !to.buffer->clean()) return std::nullopt;  // what waits may be behind
  const std::uint64_t end = all ? share.end : (share.target + blocks) * kBlockBytes;

  SharedChange shared(core_.shared);
  MapChange source(core_.store, from.no, &shared);
  std::optional<MapChange> other;
  if (&from != &to) other.emplace(core_.store, to.no, &shared);
  MapChange& target = other ? *other : source;
  TRY(change_maps(share, number, entries, blocks, source, target, shared));

  InodeRecord to_record = to.record;
  to_record.blocks += static_cast<std::uint64_t>(target.blocks_delta());
  to_record.size = std::max(to_record.size, end);
  to_record.modification = to_record.change = core_.clock.now();
  if (share.clear_set_id) drop_set_id(to_record);
  InodeRecord from_record = from.record;
  from_record.blocks += static_cast<std::uint64_t>(source.blocks_delta());
  meta::Batch batch;
  if (other) batch.put(key_of(from.no, Kind::kInode), encode(for_tree(from, from_record)));
  batch.put(key_of(to.no, Kind::kInode), encode(to_record));
  if (share.target == 0 && !(to.inline_known && to.inline_bytes == 0)) {
    batch.erase(key_of(to.no, Kind::kInline));
  }
  source.put_into(batch);
  if (other) other->put_into(batch);
  shared.put_into(batch);
  TRY(core_.store.apply(batch));

  source.account(core_.bands);
  if (other) other->account(core_.bands);
  shared.account(core_.bands);
  if (other) from.record.blocks = from_record.blocks;
  to.record = to_record;
  to.tree_size = to_record.size;
  to.record_dirty = false;
  if (share.target == 0) {
    to.inline_known = true;
    to.inline_bytes = 0;
  }
  ++from.map_version;
  ++to.map_version;
  if (to.buffer) {
    core_.bands.release(to.buffer->drop_range(share.target, share.target + blocks));
  }
  for (const MapEntry& entry : entries) core_.counters.shared_blocks += entry.blocks();
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
  // All are counted before any that was there is given up.
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
                     core_.store.get(key_of(at.band, Kind::kAppendRecord, at.rba)));
    if (!value) return fail(Errc::kItemBad);
    ASSIGN_OR_RETURN(const AppendRecord record, decode_append_record(*value));
    if (record.inode != inode) return fail(Errc::kItemBad);
    ASSIGN_OR_RETURN(auto extents,
                     read_extents(core_.store, inode, record.file_block, record.blocks));
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
