// Deletes inodes that have lost their last name and their last user.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "data/band_table.h"
#include "fs/file/file_maps.h"
#include "fs/inode/inode.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// An inode that loses its last link gets an orphan record in the batch that removes its name. When
// its last reference ends it is queued here. The last batch that deletes items of the inode erases
// the record too. So a crash at any point leaves either the record, by which the next mount deletes
// the inode, or nothing.
//
// Thread-safe. mu_ is a leaf lock.
class OrphanCleanup {
 public:
  // Calls `wake`, which must not block, when many inodes are queued. Until then they wait for the
  // next run(), so that a program that removes a tree need not share the CPUs with the deletion.
  OrphanCleanup(meta::Store& store, FileMaps& maps, data::BandTable& bands,
                std::function<void()> wake)
      : store_(store), maps_(maps), bands_(bands), wake_(std::move(wake)) {}

  void add(InodeRef inode) EXCLUDES(mu_);
  // Deletes the queued inodes, many a batch. An inode for whose deletion the metadata log has no
  // room is retried at the next run: deleting others makes room. Other errors are logged, and the
  // next mount retries.
  void run() EXCLUDES(mu_);
  std::size_t waiting() const EXCLUDES(mu_);
  // Empties the queue. REQUIRES: the volume ends; add() is not called any more.
  void drop_all() EXCLUDES(mu_);

 private:
  static constexpr std::size_t kMany = 131072;  // some 80 MiB of inodes

  // What a batch deletes of one inode.
  enum class Gathered : std::uint8_t { kAll, kPart, kPostponed };

  bool mark_deleted(const InodeRef& inode);
  Result<> delete_next(std::span<const InodeRef> inodes, std::size_t max_items, std::size_t& at);
  std::vector<InodeRef> delete_inodes(std::span<const InodeRef> inodes);
  Result<Gathered> gather(InodeNo inode, std::size_t max_items, MapBatch& batch,
                          std::size_t& items);

  meta::Store& store_;
  FileMaps& maps_;
  data::BandTable& bands_;
  const std::function<void()> wake_;
  mutable Mutex mu_;
  std::deque<InodeRef> queue_ GUARDED_BY(mu_);
  // Inodes for whose deletion the log had no room. The references keep them in the inode table,
  // where other threads find them marked as deleted: the collector must not move their blocks.
  std::vector<InodeRef> left_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::fs
