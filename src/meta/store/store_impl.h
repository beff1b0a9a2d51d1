// The store: joins the log, the tree in memory, and the parts that read, change, commit and clean.
// meta/store/store.h has what it promises, docs/metadata-log.md how it works.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "meta/log/log.h"
#include "meta/store/applier.h"
#include "meta/store/cleaner.h"
#include "meta/store/commit_cycles.h"
#include "meta/store/committer.h"
#include "meta/store/log_sizer.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"
#include "meta/store/store_failure.h"
#include "meta/store/store_superblock.h"
#include "meta/store/tree_reader.h"

namespace lazyfs::meta {

// Lock order: the turn of CommitCycles (held across I/O), then SharedTree's mu, then the leaves:
// the mutexes of CommitCycles, Log, NodeLoader, StoreSuperblock, and background_mu_. Device I/O is
// done with none of the locks held.
class StoreImpl final : public Store {
 public:
  StoreImpl(device::Device& device, const StoreOptions& options, Superblock superblock,
            const RecoveredLog& found, bool was_clean);
  ~StoreImpl() override;
  static Result<std::unique_ptr<StoreImpl>> open(device::Device& device,
                                                 const StoreOptions& options, bool repair);
  // REQUIRED before any other call. Writes the new session's superblock unless read-only. With
  // `repair`, an empty root replaces one that cannot be read; then the caller repairs the tree.
  Result<> start(bool repair = false);
  // Makes room in the log, because repair changes nodes without asking for room. After a crash the
  // log may have none.
  Result<> make_room_for_repair(const FreeBandFinder& find_free);
  Result<> repair_tree(const std::function<void(std::string)>& report,
                       const LostListener& on_lost);

  Result<std::optional<Value>> get(Key key) override { return reader_.get(key); }
  Result<std::optional<Item>> last_in(Key first, Key last) override {
    return reader_.last_in(first, last);
  }
  Result<std::vector<Item>> scan(Key first, Key last, std::size_t max_items) override {
    return reader_.scan(first, last, max_items);
  }
  std::optional<Key> end_of_part(Key key) override { return reader_.end_of_part(key); }
  Result<Seq> apply(const Batch& batch, Reserve reserve) override;
  Result<Seq> try_apply(const Batch& batch, Reserve reserve) override;
  Result<> make_room() override;
  Result<> commit() override;
  Seq durable_seq() const override { return committer_.durable_seq(); }
  void set_band_source(BandSource source) override { sizer_.set_source(std::move(source)); }
  void promise_with(std::function<std::uint64_t()> promised_blocks) override {
    tree_.promised_blocks = std::move(promised_blocks);
  }
  bool has_room_to_record(std::uint64_t more_blocks) override;
  bool make_room_to_record(std::uint64_t more_blocks) override;
  Result<> give_back_bands() override;
  Result<> empty_log_bands(std::span<const BandId> bands) override;
  Result<> extend() override;
  std::vector<BandId> log_bands() const override { return log_.bands(); }
  std::vector<LogBandUse> log_band_use() const override;
  Superblock superblock() const override { return superblock_.current(); }
  bool was_clean() const override { return was_clean_; }
  const std::vector<std::string>& log_losses() const override { return log_losses_; }
  void set_data_ends_known(bool known) override { superblock_.set_data_ends_known(known); }
  void set_cache_bytes(std::size_t bytes) override;
  StoreStats stats() const override;
  bool failed() const override { return failure_.has_failed(); }
  Result<> close() override;
  void abandon() override;
  void check(const CheckListener& listener) override;

 private:
  enum class Work { kCommit, kClean, kCheckpoint, kGrow, kResize, kShrinkFully, kExtend };
  // `victim`: the band to clean; without it the cleaner chooses.
  Result<> run_cycle(Work work, std::optional<CleanChoice> victim = std::nullopt);
  Result<CommitCycles::Turn> begin_cycle(Work work);
  Result<> do_or_stop(Work work, Additions to_clean);
  Result<> do_work(Work work, Additions to_clean);
  Result<> commit_in_cycle();
  void clean_in_cycle();
  Result<> get_past(Applier::Obstacle obstacle, Seq running);
  void report_loss(LogLoss loss);
  Result<> state_log_end();
  NodePin replace_root();

  void wake_background(bool to_commit = false) EXCLUDES(background_mu_);
  void run_background();
  bool wait_for_work(bool& commit) EXCLUDES(background_mu_);
  Result<> work_in_background(bool commit);
  Result<> clean_in_background();
  void stop_background() EXCLUDES(background_mu_);

  device::Device& device_;
  const StoreOptions options_;
  const bool was_clean_;
  std::vector<std::string> log_losses_;  // const after open()
  StoreFailure failure_;
  Log log_;
  SharedTree tree_;
  NodeLoader loader_;
  StoreSuperblock superblock_;
  CommitCycles cycles_;
  LogSizer sizer_;
  Cleaner cleaner_;
  Committer committer_;
  TreeReader reader_;
  Applier applier_;
  NodePin root_pin_;
  bool root_was_lost_ = false;

  Mutex background_mu_;
  CondVar background_wake_;
  bool background_wanted_ GUARDED_BY(background_mu_) = false;
  bool commit_wanted_ GUARDED_BY(background_mu_) = false;
  bool stopping_ GUARDED_BY(background_mu_) = false;
  std::thread background_;
};

}  // namespace lazyfs::meta
