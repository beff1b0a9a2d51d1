// Deletes inodes that have lost their last name and their last user.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
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
// Invariants:
//   Q1  waiting_ has every inode that is queued or being deleted, once; queue_, left_ and later_
//       name each of them that no thread deletes now
//   Q2  blocks_ is the sum of `blocks` over waiting_
//   Q3  an inode with dirty pages, and one that is marked as deleted, is held by its entry; of any
//       other waiting inode only the number is kept. The thread that deletes an inode holds it
//       meanwhile
// Thread-safe. mu_ is a leaf lock.
class OrphanCleanup {
 public:
  // Calls `wake`, which must not block, when many inodes are queued. Until then they wait for the
  // next run(), so that a program that removes a tree need not share the CPUs with the deletion.
  OrphanCleanup(meta::Store& store, InodeTable& inodes, FileMaps& maps, data::BandTable& bands,
                Clock& clock, std::function<void()> wake)
      : store_(store),
        inodes_(inodes),
        maps_(maps),
        bands_(bands),
        clock_(clock),
        wake_(std::move(wake)) {}

  // If memory lacks, the inode is left to the next mount.
  void add(Unnamed inode) noexcept EXCLUDES(mu_);
  // Deletes the queued inodes, many in one batch, until none is left or `max_batches` were tried.
  // Returns whether batches remain. An inode for whose deletion the metadata log has no room is
  // retried at the next run: deleting others makes room. After another error it is retried by a
  // run after a pause (fs/file/retry_pause.h), and in the end by the next mount.
  bool run(std::size_t max_batches = SIZE_MAX) EXCLUDES(mu_);
  // For a caller that needs the space: waits until other threads in run() have applied a batch, or
  // have ended. Returns whether a batch was applied. REQUIRES: the caller holds no locks.
  bool await_others() EXCLUDES(mu_);
  // To be called after a name was removed, without locks. Runs one batch if the queue is long,
  // because names may be removed faster than the background deletes inodes.
  void help() EXCLUDES(mu_);

  struct Waiting {
    std::uint64_t inodes = 0;
    std::uint64_t blocks = 0;  // that their deletion frees at least
  };
  Waiting waiting() const EXCLUDES(mu_);
  // Empties the queue. REQUIRES: the volume ends; add() is not called any more.
  void drop_all() EXCLUDES(mu_);

 private:
  void queue(Unnamed inode) EXCLUDES(mu_);
  void drop_pages(Inode& inode);

  static constexpr std::size_t kMany = 131072;  // some 10 MiB
  static constexpr std::size_t kMost = 2 * kMany;

  // Counts the threads in run().
  class Running {
   public:
    explicit Running(OrphanCleanup& cleanup);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    OrphanCleanup& cleanup_;
  };

  // What a batch deletes of one inode.
  enum class Gathered : std::uint8_t { kAll, kPart, kPostponed };
  // An inode that is marked as deleted.
  struct Marked {
    InodeRef inode;
    std::uint64_t freed = 0;     // blocks of it in the batch that is gathered now
    std::optional<Errc> failed;  // its items could not be gathered
  };

  std::vector<InodeNo> take() EXCLUDES(mu_);
  std::vector<Marked> take_left() EXCLUDES(mu_);
  Result<InodeRef> mark_deleted(InodeNo number);
  void count_down(InodeNo number, std::uint64_t blocks);
  void finish(InodeNo number);
  void finish(const Marked& marked);
  void try_later(InodeNo number, const InodeRef& marked, Errc error) EXCLUDES(mu_);
  void count_batch() EXCLUDES(mu_);
  Result<bool> delete_next(std::span<Marked> inodes, std::size_t max_items, std::size_t& at);
  void delete_inodes(std::span<Marked> inodes, std::size_t& batches);
  void leave(const InodeRef& inode);
  Result<Gathered> gather(Marked& marked, std::size_t max_items, MapBatch& batch,
                          std::size_t& items);

  meta::Store& store_;
  InodeTable& inodes_;
  FileMaps& maps_;
  data::BandTable& bands_;
  Clock& clock_;
  const std::function<void()> wake_;
  mutable Mutex mu_;
  struct Entry {
    InodeRef held;
    std::uint64_t blocks = 0;
    int failures = 0;
  };
  std::unordered_map<InodeNo, Entry> waiting_ GUARDED_BY(mu_);
  std::uint64_t blocks_ GUARDED_BY(mu_) = 0;
  std::deque<InodeNo> queue_ GUARDED_BY(mu_);
  // Inodes that are deleted in part, or for whose deletion the log had no room. Their entries hold
  // them in the inode table, where other threads find them marked as deleted: the collector must
  // not move their blocks.
  std::vector<InodeNo> left_ GUARDED_BY(mu_);
  // Inodes whose deletion has failed, by the time when it is retried.
  struct Failed {
    InodeNo number;
    bool is_marked = false;  // as deleted
  };
  bool put_later(std::chrono::nanoseconds when, Failed failed) REQUIRES(mu_);
  std::multimap<std::chrono::nanoseconds, Failed> later_ GUARDED_BY(mu_);
  std::size_t running_ GUARDED_BY(mu_) = 0;    // threads in run()
  std::uint64_t batches_ GUARDED_BY(mu_) = 0;  // applied
  CondVar progress_;                           // running_ or batches_ has changed
};

}  // namespace lazyfs::fs
