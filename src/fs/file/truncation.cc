#include "fs/file/truncation.h"

#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "fs/file/inline_block.h"

namespace lazyfs::fs {

// ---- Freeing ------------------------------------------------------------------------------------

// False: blocks past the end remain after `max_parts`.
Result<bool> Truncation::free_past_end(const InodeRef& inode, std::size_t max_parts) try {
  std::uint64_t end_block = 0;
  {
    ReaderLock lock(inode->mu);
    if (inode->deleted || !inode->truncate_pending) return true;
    end_block = blocks_for(inode->record.size);  // stays: I7
  }
  const auto free_one = [&](std::uint64_t begin, std::uint64_t end) {
    WriterLock lock(inode->mu);
    return maps_.free_blocks(*inode, begin, end, meta::Reserve::kDelete);
  };
  ASSIGN_OR_RETURN(const bool all, maps_.free_in_parts(*inode, end_block, meta::kMaxOffset,
                                                       max_parts, free_one));
  if (!all) return false;
  TRY(meta::when_room(store_, [&] {
    WriterLock lock(inode->mu);
    return end_pending(*inode);
  }));
  return true;
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> Truncation::end_pending(Inode& inode) {
  if (inode.record.links > 0) {  // else the orphan record says kDelete
    meta::Batch last;
    last.erase(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value));
    TRY(store_.try_apply(last, meta::Reserve::kDelete));
  }
  inode.truncate_pending = false;
  return ok();
}

Result<> Truncation::finish(const InodeRef& inode, const WriteBackToken&) {
  TRY(free_past_end(inode, SIZE_MAX));
  return ok();
}

Result<bool> Truncation::try_finish(const InodeRef& inode, const WriteBackToken&) {
  const auto freed = keep_after_error(inode, free_past_end(inode, SIZE_MAX));
  if (!freed && freed.error() == Errc::kLogFull) return false;
  return freed;
}

Result<> Truncation::finish(const InodeRef& inode) {
  const WriteBackToken token(inode);
  return finish(inode, token);
}

Result<bool> Truncation::resume(const InodeRef& inode, std::size_t max_parts) {
  const WriteBackToken token(inode);
  ASSIGN_OR_RETURN(const auto item,
                   store_.get(key_of(kVolumeOwner, Kind::kOrphan, inode->no.value)));
  const auto record = item ? decode_orphan(*item) : fail(Errc::kItemBad);
  if (!record || record->work != OrphanRecord::Work::kTruncate) return true;
  {
    WriterLock lock(inode->mu);
    if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
    inode->truncate_pending = true;
  }
  return keep_after_error(inode, free_past_end(inode, max_parts));
}

// A truncation that cannot be finished now is finished by write-back (I7).
Result<bool> Truncation::keep_after_error(const InodeRef& inode, Result<bool> freed) {
  if (freed) return freed;
  WriterLock lock(inode->mu);
  dirty_.add(inode, clock_.monotonic());
  return freed;
}

// ---- Setting the size ---------------------------------------------------------------------------

// Puts into the batch what stays of the inline block when the file has `size` bytes.
Result<InlineState> Truncation::cut_inline(Inode& inode, std::uint64_t size, meta::Batch& batch) {
  TRY(learn_inline(store_, inode));
  const InlineState now = inode.inline_state;
  if (now.bytes == 0) return now;
  if (now.block >= blocks_for(size)) {
    erase_inline(batch, inode);
    return InlineState{.is_known = true};
  }
  const std::uint64_t begin = now.block * kBlockBytes;
  if (size >= begin + now.bytes) return now;
  ASSIGN_OR_RETURN(const auto contents, read_inline(store_, inode));
  if (!contents) return fail(Errc::kItemBad);
  return put_inline(batch, inode, now.block, std::span(contents->bytes).first(size - begin));
}

// Puts the inode's item with the new size, and shortens inline contents. Extents past the end wait
// for finish().
Result<> Truncation::put_size(Inode& inode, const InodeRecord& record) try {
  meta::Batch batch;
  batch.put(key_of(inode.no, Kind::kInode), encode(for_tree(inode, record)));
  ASSIGN_OR_RETURN(const InlineState inline_state, cut_inline(inode, record.size, batch));
  // An inode without a name keeps its orphan record, which says kDelete.
  if (record.blocks > 0 && record.links > 0) {
    batch.put(key_of(kVolumeOwner, Kind::kOrphan, inode.no.value),
              encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
  }
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  inode.inline_state = inline_state;
  inode.truncate_pending = record.blocks > 0;
  ++inode.map_version;
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

// `last` is the file's last block as it was stored when the file was `last_size` long.
Result<> Truncation::set_size_locked(const InodeRef& inode, std::uint64_t size,
                                     std::uint64_t last_size, const FileReader::Block& last) {
  if (inode->deleted) return fail(Errc::kStale);
  if (!S_ISREG(inode->record.mode)) return fail(Errc::kInvalid);
  const std::uint64_t old_size = inode->record.size;
  const std::uint64_t end_block = blocks_for(size);
  CHECK(size <= old_size || !inode->truncate_pending);  // I7: only the token's holder sets it
  if (last.had_rest && size > old_size && old_size == last_size) {  // I6
    if (!inode->buffer) inode->buffer = std::make_unique<data::WriteBuffer>(pages_);
    const std::uint64_t last_block = old_size / kBlockBytes;
    if (!inode->buffer->has_dirty(last_block)) {
      TRY(reserver_.reserve(*inode, last_block, last_block + 1, 1));
      try {
        inode->buffer->provide(last_block, last.bytes.span());
      } catch (...) {
        reserver_.give_back(1);
        throw;
      }
    }
  }
  const auto first_dirty = inode->buffer ? inode->buffer->first_dirty() : std::nullopt;
  const bool clean = !first_dirty || *first_dirty >= end_block;  // once blocks past the end drop
  const std::uint64_t tree_size = clean ? size : std::min(inode->tree_size, size);
  InodeRecord record = inode->record;
  record.size = size;
  record.modification = record.change = change_time(clock_, {inode.get()});
  const std::uint64_t old_tree_size = std::exchange(inode->tree_size, tree_size);
  const auto put = put_size(*inode, record);
  if (!put) {  // nothing has changed
    inode->tree_size = old_tree_size;
    if (first_dirty) dirty_.add(inode, clock_.monotonic());
    return fail(put.error());
  }
  if (size < old_size && inode->buffer) {
    bands_.release(inode->buffer->drop_from(end_block));
    const std::uint64_t last_block = size / kBlockBytes;
    if (inode->buffer->has_dirty(last_block)) {
      inode->buffer->zero_tail(last_block, size % kBlockBytes);
    }
  }
  inode->record = record;
  inode->record_dirty = !clean;
  if (!clean) dirty_.add(inode, clock_.monotonic());
  return ok();
}

Result<> Truncation::set_size(const InodeRef& inode, std::uint64_t size) {
  if (size > kMaxFileBytes) return fail(Errc::kFileTooBig);
  std::uint64_t old_size = 0;
  {
    ReaderLock lock(inode->mu);
    old_size = inode->record.size;
  }
  // The last block may become dirty.
  if (size > old_size && old_size % kBlockBytes != 0) TRY(reserver_.admit(*inode, kBlockBytes));
  return reserver_.with_space([&] { return try_set_size(inode, size); });
}

Result<> Truncation::try_set_size(const InodeRef& inode, std::uint64_t size) {
  // The token keeps blocks of the file from being written meanwhile. The collector may move them,
  // which keeps their contents.
  const WriteBackToken token(inode);
  TRY(change_size(inode, size, token));
  // The size is set. After an error the kernel would keep the old one.
  ignore_error(keep_after_error(inode, free_past_end(inode, SIZE_MAX)), "write-back frees them");
  return ok();
}

Result<> Truncation::change_size(const InodeRef& inode, std::uint64_t size,
                                 const WriteBackToken& held) {
  FileReader::Block last;
  std::uint64_t old_size = 0;
  {
    ReaderLock lock(inode->mu);
    old_size = inode->record.size;
  }
  if (size > old_size) TRY(finish(inode, held));
  if (size > old_size && old_size % kBlockBytes != 0) {
    ASSIGN_OR_RETURN(last, reader_.stored_block(*inode, old_size / kBlockBytes));
  }
  return meta::when_room(store_, [&] {
    WriterLock lock(inode->mu);
    return set_size_locked(inode, size, old_size, last);
  });
}

}  // namespace lazyfs::fs
