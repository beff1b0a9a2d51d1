#include "fs/file/file_writer.h"

#include <sys/stat.h>

#include <algorithm>

#include "fs/file/extent_map.h"
#include "fs/file/write_back.h"

namespace lazyfs::fs {
namespace {

constexpr int kMaxTries = 1000;  // of a write whose blocks change while they are loaded
constexpr std::size_t kExtentsABatch = 128;

}  // namespace

void drop_set_id(InodeRecord& record) {
  record.mode &= ~static_cast<std::uint32_t>(S_ISUID);
  if (record.mode & S_IXGRP) record.mode &= ~static_cast<std::uint32_t>(S_ISGID);
}

Result<std::uint64_t> file_size(Inode& inode) {
  ReaderLock lock(inode.mu);
  if (inode.deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode.record.mode)) return fail(Errc::kInvalid);
  return inode.record.size;
}

struct FileWriter::Write {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  bool clear_set_id = false;
  std::size_t pages = 0;  // reservation that was not available
  std::vector<std::uint64_t> missing;
  std::vector<std::pair<std::uint64_t, FileReader::Block>> loaded;  // by block
};

Result<FileWriter::Step> FileWriter::try_write(const InodeRef& inode, Write& w) {
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
  if (!inode->buffer) inode->buffer = std::make_unique<data::WriteBuffer>(core_.pages);
  data::WriteBuffer& buffer = *inode->buffer;

  const std::uint64_t size = inode->record.size, last_block = size / kBlockBytes;
  if (inode->truncate_pending && w.offset + w.bytes.size() > size) return Step::kNeedsCut;
  const auto loaded = [&](std::uint64_t block) -> const FileReader::Block* {
    const auto found = std::ranges::find(w.loaded, block, [](const auto& l) { return l.first; });
    const bool good = found != w.loaded.end() && found->second.map_version == inode->map_version;
    return good ? &found->second : nullptr;
  };
  w.missing = buffer.needs_old(w.offset, w.bytes.size());
  std::erase_if(w.missing, [&](std::uint64_t block) { return block * kBlockBytes >= size; });
  bool grows_over_rest =  // I6
      w.offset / kBlockBytes > last_block && size % kBlockBytes != 0 && !buffer.has(last_block);
  if (grows_over_rest) w.missing.push_back(last_block);
  if (!std::ranges::all_of(w.missing, loaded)) return Step::kNeedsBlocks;
  if (grows_over_rest && !loaded(last_block)->had_rest) {
    w.missing.pop_back();
    grows_over_rest = false;
  }
  w.pages = buffer.new_pages(w.offset, w.bytes.size()) + (grows_over_rest ? 1 : 0);
  if (!core_.bands.reserve(w.pages)) {
    ASSIGN_OR_RETURN(const std::uint64_t overwriting, count_overwritten(*inode, w));
    if (!core_.bands.reserve_to_overwrite(w.pages - overwriting, overwriting)) {
      return Step::kNeedsSpace;
    }
  }
  static const AlignedBuffer kZeros = AlignedBuffer::zeroed(kBlockBytes);
  for (const std::uint64_t block : w.missing) buffer.provide(block, loaded(block)->bytes.span());
  for (const std::uint64_t block : buffer.needs_old(w.offset, w.bytes.size())) {
    buffer.provide(block, kZeros.span());  // behind the end of the file
  }
  buffer.write(w.offset, w.bytes);

  inode->record.size = std::max(inode->record.size, w.offset + w.bytes.size());
  inode->record.modification = inode->record.change = core_.clock.now();
  if (w.clear_set_id) drop_set_id(inode->record);
  inode->record_dirty = true;
  core_.dirty.add(inode, core_.clock.monotonic());
  return Step::kDone;
}

// Of the pages that the write needs, how many take the place of blocks that have room on the
// device.
Result<std::uint64_t> FileWriter::count_overwritten(const Inode& inode, const Write& w) const {
  const std::uint64_t first = w.offset / kBlockBytes;
  const std::uint64_t end = blocks_for(w.offset + w.bytes.size());
  std::vector<bool> has_room(end - first);
  ASSIGN_OR_RETURN(const auto entries, read_map(core_.store, inode.no, first, end - first));
  for (const MapEntry& entry : entries) {
    if (const auto* reference = std::get_if<ReferenceRecord>(&entry.record)) {
      // What others refer to stays when it is overwritten here.
      ASSIGN_OR_RETURN(const auto exclusive, core_.shared.count_exclusive(*reference));
      if (exclusive < entry.blocks()) continue;
    }
    std::fill_n(has_room.begin() + static_cast<std::ptrdiff_t>(entry.file_block - first),
                entry.blocks(), true);
  }
  std::uint64_t count = 0;
  for (std::uint64_t block = first; block < end; ++block) {
    const bool writing = inode.buffer->has(block);  // has_dirty() ones need no page
    count += !inode.buffer->has_dirty(block) && (writing || has_room[block - first]);
  }
  return count;
}

Result<> FileWriter::load_missing(Inode& inode, Write& w) {
  w.loaded.clear();
  for (const std::uint64_t block : w.missing) {
    ASSIGN_OR_RETURN(auto stored, reader_.stored_block(inode, block));
    w.loaded.emplace_back(block, std::move(stored));
  }
  return ok();
}

Result<> FileWriter::write(const InodeRef& inode, std::uint64_t offset,
                           std::span<const std::byte> from, bool clear_set_id) {
  if (from.empty()) return ok();
  if (offset > kMaxFileBytes || from.size() > kMaxFileBytes - offset) {
    return fail(Errc::kFileTooBig);
  }
  if (core_.options.read_only) return fail(Errc::kReadOnly);
  if (core_.store.failed()) return fail(Errc::kLogFailed);
  TRY(throttle_(from.size()));
  Write w{.offset = offset, .bytes = from, .clear_set_id = clear_set_id};
  for (int i = 0; i < kMaxTries; ++i) {
    ASSIGN_OR_RETURN(const Step step, try_write(inode, w));
    switch (step) {
      case Step::kDone: return ok();
      case Step::kNeedsBlocks: TRY(load_missing(*inode, w)); break;
      case Step::kNeedsCut: TRY(finish_cut(inode)); break;
      case Step::kNeedsSpace:
        if (!make_room_()) return fail(Errc::kNoSpace);
        break;
    }
  }
  return fail(Errc::kNoSpace);
}

// ---- Truncating ---------------------------------------------------------------------------------

namespace {

// Frees the blocks of the file from `from_block` on, in as many batches as it takes, and keeps
// record.blocks and the inode's item in step. What a crash leaves undone is found by the orphan
// record.
Result<> free_blocks(const Core& core, Inode& inode, std::uint64_t from_block) REQUIRES(inode.mu) {
  for (std::size_t at_most = kExtentsABatch;;) {
    // From the end, so that a crash in between leaves a shorter tail to free.
    std::vector<MapEntry> last;
    std::uint64_t end = meta::kMaxOffset;
    while (last.size() < at_most) {
      const std::uint64_t lowest =
          from_block - std::min<std::uint64_t>(from_block, kMaxExtentBlocks - 1);
      if (end <= lowest) break;
      ASSIGN_OR_RETURN(const auto item,
                       core.store.last_in(key_of(inode.no, Kind::kExtent, lowest),
                                          key_of(inode.no, Kind::kExtent, end - 1)));
      if (!item) break;
      ASSIGN_OR_RETURN(auto record_there, decode_map_record(item->value));
      MapEntry mapped{item->key.offset, std::move(record_there)};
      end = mapped.file_block;
      if (mapped.end() <= from_block) break;
      last.push_back(std::move(mapped));
    }
    if (last.empty()) return ok();
    const std::uint64_t first = std::max(from_block, last.back().file_block);
    SharedChange shared(core.shared);
    MapChange change(core.store, inode.no, &shared);
    TRY(change.unmap(first, last.front().end() - first));
    InodeRecord record = inode.record;
    record.blocks += static_cast<std::uint64_t>(change.blocks_delta());
    meta::Batch batch;
    change.put_into(batch);
    shared.put_into(batch);
    batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, record)));
    const auto applied = core.store.apply(batch, meta::Reserve::kDelete);
    if (!applied) {
      if (applied.error() != Errc::kBatchTooLarge || last.size() == 1) return fail(applied.error());
      at_most = last.size() / 2;  // the extents' bands are many
      continue;
    }
    change.account(core.bands);
    shared.account(core.bands);
    ++inode.map_version;
    inode.record.blocks = record.blocks;
    if (last.size() < at_most) return ok();
  }
}

}  // namespace

Result<> free_behind_end(const Core& core, Inode& inode) {
  TRY(free_blocks(core, inode, blocks_for(inode.record.size)));
  if (inode.record.links > 0) {  // else the orphan record says kDelete
    meta::Batch last;
    last.erase(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value));
    TRY(core.store.apply(last, meta::Reserve::kDelete));
  }
  inode.truncate_pending = false;
  return ok();
}

Result<> resume_cut(const Core& core, const InodeRef& inode) {
  const WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
  inode->truncate_pending = true;
  const auto freed = free_behind_end(core, *inode);
  if (!freed) core.dirty.add(inode, core.clock.monotonic());
  return freed;
}

// Gives the stored file the size that `record` has: inline bytes behind it are cut off, extents
// wait for free_behind_end().
Result<> FileWriter::put_size(Inode& inode, const InodeRecord& record) {
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, record)));
  ASSIGN_OR_RETURN(const auto inline_value, core_.store.get(key_of(inode.no, Kind::kInline)));
  if (inline_value && record.size == 0) {
    batch.erase(key_of(inode.no, Kind::kInline));
  } else if (inline_value && inline_value->size() > record.size) {
    batch.put(key_of(inode.no, Kind::kInline),
              std::span<const std::byte>(*inline_value).first(record.size));
  }
  // Freeing blocks may take several batches: a crash in between is finished at the next mount. What
  // has no name has an orphan record that says kDelete, and keeps it.
  if (record.blocks > 0 && record.links > 0) {
    batch.put(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value),
              encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  }
  TRY(core_.store.apply(batch, meta::Reserve::kDelete));
  inode.inline_known = true;
  inode.inline_bytes =
      inline_value ? std::min<std::uint64_t>(inline_value->size(), record.size) : 0;
  inode.truncate_pending = record.blocks > 0;
  ++inode.map_version;
  return ok();
}

// Before the file grows over what a truncation that failed has left.
Result<> FileWriter::finish_cut(const InodeRef& inode) {
  const WriteBackToken token(inode);
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  return inode->truncate_pending ? free_behind_end(core_, *inode) : ok();
}

// `last` is the last block of the file as it is stored, when the file was `last_size` long.
Result<> FileWriter::truncate_locked(const InodeRef& ref, std::uint64_t size,
                                     std::uint64_t last_size, const FileReader::Block& last) {
  Inode& inode = *ref;
  WriterLock lock(inode.mu);
  if (inode.deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode.record.mode)) return fail(Errc::kInvalid);
  const std::uint64_t old_size = inode.record.size;
  const std::uint64_t end_block = blocks_for(size);
  if (inode.truncate_pending && size > old_size) TRY(free_behind_end(core_, inode));
  if (last.had_rest && size > old_size && old_size == last_size) {  // I6
    if (!inode.buffer) inode.buffer = std::make_unique<data::WriteBuffer>(core_.pages);
    const std::uint64_t last_block = old_size / kBlockBytes;
    if (!inode.buffer->has_dirty(last_block)) {
      core_.bands.reserve_always(1);
      inode.buffer->provide(last_block, last.bytes.span());
    }
  }
  const auto first_dirty = inode.buffer ? inode.buffer->first_dirty() : std::nullopt;
  const bool clean = !first_dirty || *first_dirty >= end_block;  // when what is cut off is dropped
  const std::uint64_t tree_size = clean ? size : std::min(inode.tree_size, size);
  InodeRecord record = inode.record;
  record.size = size;
  record.modification = record.change = core_.clock.now();
  const std::uint64_t old_tree_size = std::exchange(inode.tree_size, tree_size);
  const auto put = put_size(inode, record);
  if (!put) {  // nothing has changed
    inode.tree_size = old_tree_size;
    if (first_dirty) core_.dirty.add(ref, core_.clock.monotonic());
    return fail(put.error());
  }
  if (size < old_size && inode.buffer) {
    core_.bands.release(inode.buffer->drop_from(end_block));
    const std::uint64_t last_block = size / kBlockBytes;
    if (inode.buffer->has_dirty(last_block)) {
      inode.buffer->zero_tail(last_block, size % kBlockBytes);
    }
  }
  inode.record = record;
  inode.record_dirty = !clean;
  const auto freed = inode.truncate_pending ? free_behind_end(core_, inode) : ok();
  if (!clean || inode.truncate_pending) core_.dirty.add(ref, core_.clock.monotonic());
  return freed;
}

Result<> FileWriter::truncate(const InodeRef& inode, std::uint64_t size) {
  if (size > kMaxFileBytes) return fail(Errc::kFileTooBig);
  if (core_.options.read_only) return fail(Errc::kReadOnly);
  // With the token no block is being written, and only the collector moves blocks, which keeps
  // contents.
  const WriteBackToken token(inode);
  FileReader::Block last;
  std::uint64_t old_size = 0;
  {
    ReaderLock lock(inode->mu);
    old_size = inode->record.size;
  }
  if (size > old_size && old_size % kBlockBytes != 0) {
    ASSIGN_OR_RETURN(last, reader_.stored_block(*inode, old_size / kBlockBytes));
  }
  return truncate_locked(inode, size, old_size, last);
}

}  // namespace lazyfs::fs
