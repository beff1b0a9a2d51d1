// The store: tree, cache and log joined, with commits, cleaning and growth. See
// meta/store/store.h for what it promises, docs/metadata-log.md for how.
#pragma once

#include <atomic>
#include <condition_variable>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "meta/log/log.h"
#include "meta/log/size_policy.h"
#include "meta/tree/node_cache.h"
#include "meta/store/node_loader.h"
#include "meta/store/store.h"
#include "meta/log/superblock_log.h"
#include "meta/tree/tree.h"

namespace lazyfs::meta {

// Lock order: commit_mu_, tree_mu_, then the leaves: Log's mu_, NodeLoader's mu_, background_mu_.
// Device I/O is done with none of them held. A cycle is a commit, cleaning, a snapshot or growing;
// at most one runs at a time (busy_), and the thread that runs it is "the committing thread".
class StoreImpl final : public Store {
 public:
  StoreImpl(device::Device& device, const StoreOptions& options, Superblock superblock,
            const RecoveredLog& found);
  ~StoreImpl() override;
  static Result<std::unique_ptr<StoreImpl>> open(device::Device& device,
                                                 const StoreOptions& options, bool repair);
  // Before anything else. Writes the new session's superblock unless read-only. With `repair`, a
  // root that cannot be read becomes an empty one; then the tree is to be repaired.
  Result<> start(bool repair = false);

  Result<std::optional<Value>> get(Key key) override;
  Result<std::optional<Item>> last_in(Key first, Key last) override;
  Result<std::vector<Item>> scan(Key first, Key last, std::size_t max_items) override;
  std::optional<Key> end_of_part(Key key) override;
  Result<Seq> apply(const Batch& batch, Reserve reserve) override;
  Result<> commit() override;
  Seq durable_seq() const override { return Seq{durable_seq_.load(std::memory_order_acquire)}; }
  void set_band_source(BandSource source) override;
  Result<> give_back_bands() override;
  std::vector<BandId> log_bands() const override;
  std::vector<LogBandUse> log_band_use() const override;
  Superblock superblock() const override;
  StoreStats stats() const override;
  bool failed() const override { return failed_.load(std::memory_order_acquire); }
  Result<> close() override;
  void abandon() override;
  Result<> check(const std::function<void(std::string)>& problem) override;

 private:
  friend class TreeRepair;
  enum class Verdict { kAdmit, kCommitFirst, kCleanFirst, kGrowFirst, kTooLarge };
  enum class Work { kCommit, kClean, kSnapshot, kGrow, kResize, kShrinkFully };

  template <class T, class Ask>
  Result<T> ask_tree(Ask ask);
  Result<> load_missing(const Miss& miss, NodeNo& missing_before, std::vector<NodePin>& pins);

  Verdict admit(const Estimate& estimate, Reserve reserve) const REQUIRES_SHARED(tree_mu_);
  Result<> make_room(Verdict verdict, Seq running);
  Result<> wait_for_next_transaction(Seq running) EXCLUDES(commit_mu_);

  // What a transaction holds besides changes: what the cleaner moves, that is nodes in memory and
  // images that are damaged and move as they are; and a snapshot of the map as it is before it.
  struct Additions {
    std::vector<NodePin> nodes;
    std::vector<LogImage> damaged;
    std::vector<AlignedBuffer> bytes;  // of the damaged ones
    AlignedBuffer snapshot;            // its pieces
    std::optional<CleanChoice> victim;
    std::vector<DescriptorEntry> listings;  // of cold nodes
    std::optional<ColdRoom> cold;           // where seal() has put the nodes
    bool is_stuck = false;                  // of the victim's nodes none can be read
    bool empty() const {
      return nodes.empty() && damaged.empty() && listings.empty() && snapshot.size() == 0;
    }
    std::size_t pieces() const { return snapshot.size() / kBlockBytes; }
  };

  // Cycles (store_commit.cc).
  Result<> run_cycle(Work work) EXCLUDES(commit_mu_);
  void begin_cycle() EXCLUDES(commit_mu_);
  void end_cycle(std::uint64_t took_ns) EXCLUDES(commit_mu_);
  Result<> do_work(Work work, Additions to_clean);
  Result<> write_transaction(Additions additions);
  Result<std::optional<LogPlan>> seal(Additions& additions);
  void add_moved(Additions& additions, std::uint64_t damaged) REQUIRES(tree_mu_);
  Result<> write_cold(std::vector<LogImage>& images, Additions& additions, LogPlan& plan);
  void note_failed_bands();
  Result<> write_somewhere(const LogPlan& plan, std::span<const LogImage> images,
                           std::span<const DescriptorEntry> notes, NodeNo next_node);
  Result<> write_sealed(const LogPlan& plan, std::vector<LogImage> images, Additions& additions);
  void release_passed();
  std::vector<NodeNo> freed_in_flight();
  std::vector<LogImage> stamp_images();
  void land_sealed();
  void fail_for_ever(Errc cause, const char* what);

  // Cleaning and growing (store_clean.cc).
  Additions gather();
  Additions with_listings(Additions gathered);
  bool gather_damaged(NodeNo node, Additions& to);
  void clean_while_due();
  bool cleaning_is_due() const;
  SizeChange size_change(SpaceDemand demand) const;
  bool size_is_due() const;
  bool is_large() const;
  bool snapshot_is_due() const;
  Additions take_snapshot();
  std::uint64_t clean_cycles_at_most() const;
  Result<> grow();
  void resize(SpaceDemand demand);
  void shrink(SpaceDemand demand);
  Result<> write_superblock(Superblock next);
  Result<> write_log_bands(std::vector<BandId> bands);
  void update_limits();

  bool check_tree(const std::function<void(std::string)>& problem,
                  std::unordered_set<NodeNo>& visited);

  NodePin replace_root();
  void wake_background(bool to_commit = false);
  void run_background();
  bool clean_in_background();
  void stop_background();

  device::Device& device_;
  const StoreOptions options_;
  Log log_;
  mutable SharedMutex tree_mu_;
  NodeCache cache_ GUARDED_BY(tree_mu_);
  Tree tree_ GUARDED_BY(tree_mu_);
  LogLimits limits_ GUARDED_BY(tree_mu_);
  std::size_t crowd_nodes_ GUARDED_BY(tree_mu_) = 0;  // more dirty ones than that wait
  std::size_t large_nodes_ GUARDED_BY(tree_mu_) = 0;  // more dirty ones are committed unasked
  NodeLoader loader_;
  NodePin root_pin_;
  bool root_was_lost_ = false;
  BandSource source_;  // set once, before the first apply()

  mutable Mutex commit_mu_;
  CondVar cycle_moved_;  // a cycle ended, or sealed a transaction
  bool busy_ GUARDED_BY(commit_mu_) = false;
  bool abandoned_ GUARDED_BY(commit_mu_) = false;  // no cycle begins any more
  std::uint64_t cycles_ GUARDED_BY(commit_mu_) = 0;  // ended
  Seq sealed_seq_ GUARDED_BY(commit_mu_);            // newest transaction that takes no more
  std::uint64_t commits_waiting_ GUARDED_BY(commit_mu_) = 0;
  std::uint64_t commits_started_ GUARDED_BY(commit_mu_) = 0;
  std::uint64_t commits_ended_ GUARDED_BY(commit_mu_) = 0;
  std::uint64_t commit_ns_max_ GUARDED_BY(commit_mu_) = 0;
  Superblock superblock_ GUARDED_BY(commit_mu_);
  std::optional<SuperblockLog> superblock_log_;  // the committing thread's

  std::atomic<std::uint64_t> durable_seq_;
  std::atomic<std::uint64_t> transactions_{0}, nodes_written_{0}, nodes_cleaned_{0}, snapshots_{0};
  std::atomic<std::uint64_t> nodes_cooled_{0}, bands_adopted_{0};
  std::atomic<bool> failed_{false};

  Mutex background_mu_;
  CondVar background_wake_;
  bool background_wanted_ GUARDED_BY(background_mu_) = false;
  bool commit_wanted_ GUARDED_BY(background_mu_) = false;
  bool stopping_ GUARDED_BY(background_mu_) = false;
  std::thread background_;
};

}  // namespace lazyfs::meta
