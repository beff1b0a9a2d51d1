// Writes transactions: seals the changes, appends them to the log, and makes them durable together
// with the data that they refer to. docs/metadata-log.md, "Committing".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/store/additions.h"
#include "meta/store/commit_cycles.h"
#include "meta/store/log_sizer.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store_failure.h"
#include "meta/store/store_superblock.h"

namespace lazyfs::meta {

// The committing thread calls commit(); the figures are thread-safe.
class Committer {
 public:
  Committer(device::Device& device, Log& log, SharedTree& tree, LogSizer& sizer,
            StoreSuperblock& superblock, CommitCycles& cycles, StoreFailure& failure,
            Seq durable_seq)
      : device_(device),
        log_(log),
        tree_(tree),
        sizer_(sizer),
        superblock_(superblock),
        cycles_(cycles),
        failure_(failure),
        durable_seq_(durable_seq.value) {}

  // Commits the running transaction with the additions. Error: kLogFailed; then the store has
  // failed.
  Result<> commit(Additions additions);
  // To be called when memory has lacked (std::bad_alloc) in a cycle. kNoMemory: nothing is lost.
  // kLogFailed: a transaction was sealed, so the store fails.
  Result<> stop_without_memory();

  Seq durable_seq() const { return Seq{durable_seq_.load(std::memory_order_acquire)}; }
  struct Figures {
    std::uint64_t transactions = 0, checkpoints = 0;
    std::uint64_t nodes_written = 0, nodes_cleaned = 0, nodes_cooled = 0, bands_adopted = 0;
  };
  Figures figures() const;

 private:
  bool lacks_room();
  std::optional<LogPlan> plan_again(const LogPlan& plan, Errc why, std::size_t images,
                                    std::size_t annotations, bool is_rescue = false);
  Result<std::optional<LogPlan>> seal(Additions& additions);
  void leave_out_changed(Additions& additions) REQUIRES(tree_.mu);
  void add_moved(Additions& additions) REQUIRES(tree_.mu);
  bool add_rescued(const Additions& additions) REQUIRES(tree_.mu);
  std::uint64_t name_data(Additions& additions, std::uint64_t images, std::uint64_t annotations)
      REQUIRES(tree_.mu);
  Result<> write_cold(std::vector<LogImage>& images, Additions& additions, LogPlan& plan);
  Result<> write_sealed(const LogPlan& plan, std::vector<LogImage> images, Additions& additions);
  Result<> write_somewhere(const LogPlan& plan, std::span<const LogImage> images,
                           std::span<const DescriptorEntry> annotations, NodeNo next_node,
                           bool is_rescue);
  void release_passed(bool has_checkpoint);
  bool is_record_due(bool has_checkpoint) const;
  std::vector<NodeNo> sealed_frees();
  std::vector<LogImage> stamp_images();
  void finish_sealed();
  Result<> fail_permanently(Errc cause, const char* what);

  device::Device& device_;
  Log& log_;
  SharedTree& tree_;
  LogSizer& sizer_;
  StoreSuperblock& superblock_;
  CommitCycles& cycles_;
  StoreFailure& failure_;
  std::atomic<std::uint64_t> durable_seq_;
  std::atomic<std::uint64_t> transactions_{0}, checkpoints_{0};
  std::atomic<std::uint64_t> nodes_written_{0}, nodes_cleaned_{0}, nodes_cooled_{0};
  std::atomic<std::uint64_t> bands_adopted_{0};
};

}  // namespace lazyfs::meta
