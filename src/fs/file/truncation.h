// Sets the sizes of files, and frees what lies past the new end.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/result.h"
#include "data/band_table.h"
#include "data/page_pool.h"
#include "fs/file/file_maps.h"
#include "fs/file/file_reader.h"
#include "fs/file/page_reserver.h"
#include "fs/inode/dirty_list.h"
#include "fs/inode/inode.h"
#include "fs/inode/write_back_token.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// The new size and, if blocks are to be freed, an orphan record go into one batch; the blocks are
// freed in further batches. Until the last of them the truncation is pending (I7), so readers need
// not wait for it, and an error or a crash leaves it pending.
// Thread-safe.
class Truncation {
 public:
  Truncation(meta::Store& store, FileMaps& maps, FileReader& reader, PageReserver& reserver,
             data::BandTable& bands, data::PagePool& pages, DirtyList& dirty, Clock& clock)
      : store_(store),
        maps_(maps),
        reader_(reader),
        reserver_(reserver),
        bands_(bands),
        pages_(pages),
        dirty_(dirty),
        clock_(clock) {}

  // Sets the size. Bytes past the end are freed, added bytes read as zeros. Where bytes cannot be
  // freed now, the truncation is pending, which is no error. After an error nothing has changed. A
  // file that grows may need space for its last block, which is reserved as for a write. REQUIRES:
  // the caller holds no lock and no token. Errors: kStale, kInvalid (no regular file), kFileTooBig,
  // those of reading the last block, of PageReserver and of Store::apply().
  Result<> set_size(const InodeRef& inode, std::uint64_t size);
  // Continues a truncation that an earlier session has left, if the inode's orphan record still
  // says so. False: blocks remain after `max_parts` parts. After an error the truncation is
  // pending.
  Result<bool> resume(const InodeRef& inode, std::size_t max_parts);
  // Frees what a pending truncation has left, if there is one, in batches between which the inode's
  // lock is released. The caller may hold the inode's token. REQUIRES: the caller holds no lock.
  Result<> finish(const InodeRef& inode);
  Result<> finish(const InodeRef& inode, const WriteBackToken& held);
  // As finish(), for write-back, which records data while a truncation is pending. False: the
  // metadata log has no room, and the truncation stays pending. After that or an error the inode is
  // on the dirty list.
  Result<bool> try_finish(const InodeRef& inode, const WriteBackToken& held);

 private:
  Result<> try_set_size(const InodeRef& inode, std::uint64_t size);
  Result<> change_size(const InodeRef& inode, std::uint64_t size, const WriteBackToken& held);
  Result<> set_size_locked(const InodeRef& inode, std::uint64_t size, std::uint64_t last_size,
                           const FileReader::Block& last) REQUIRES(inode->mu);
  Result<InlineState> cut_inline(Inode& inode, std::uint64_t size, meta::Batch& batch)
      REQUIRES(inode.mu);
  Result<> put_size(Inode& inode, const InodeRecord& record) REQUIRES(inode.mu);
  Result<bool> free_past_end(const InodeRef& inode, std::size_t max_parts) EXCLUDES(inode->mu);
  Result<> end_pending(Inode& inode) REQUIRES(inode.mu);
  Result<bool> keep_after_error(const InodeRef& inode, Result<bool> freed) EXCLUDES(inode->mu);

  meta::Store& store_;
  FileMaps& maps_;
  FileReader& reader_;
  PageReserver& reserver_;
  data::BandTable& bands_;
  data::PagePool& pages_;
  DirtyList& dirty_;
  Clock& clock_;
};

}  // namespace lazyfs::fs
