// The cleaner: decides when cleaning is due, chooses a band of the log, and gathers its live nodes.
// docs/metadata-log.md, "The cleaner".
#pragma once

#include <cstdint>
#include <optional>

#include "device/device.h"
#include "meta/log/log.h"
#include "meta/store/additions.h"
#include "meta/store/log_sizer.h"
#include "meta/store/node_loader.h"
#include "meta/store/shared_tree.h"

namespace lazyfs::meta {

// Thread-safe, except add_cold_index() and take_checkpoint(), which the committing thread calls.
class Cleaner {
 public:
  Cleaner(device::Device& device, const StoreOptions& options, Log& log, SharedTree& tree,
          NodeLoader& loader, LogSizer& sizer)
      : device_(device),
        options_(options),
        log_(log),
        tree_(tree),
        loader_(loader),
        sizer_(sizer) {}

  bool is_due() const;
  // Whether cleaning gains nothing before the log has grown: its oldest band cannot be read, and
  // the log is too small for cold bands.
  bool is_blocked() const;
  // This many cycles clean the whole log once. More cycles make no more room.
  std::uint64_t cycles_at_most() const;
  // Reads and pins the live nodes of `victim`, or of a band that it chooses: one batch, or all of
  // them for a rescue.
  Additions gather(std::optional<CleanChoice> victim = std::nullopt);
  // Adds the cold index entries that would be lost with the band, or that adopt the band. They
  // describe the present map.
  Additions add_cold_index(Additions gathered);

  // Whether a checkpoint of the map is due. Checkpoints bound what opening has to read.
  bool checkpoint_is_due() const;
  Additions take_checkpoint() const;

 private:
  bool is_wanted() const;
  bool must_rescue(const std::optional<CleanChoice>& victim) const;
  bool gather_nodes(std::size_t max, Additions& to);
  bool gather_damaged(NodeNo node, Additions& to);

  device::Device& device_;
  const StoreOptions& options_;
  Log& log_;
  SharedTree& tree_;
  NodeLoader& loader_;
  LogSizer& sizer_;
};

}  // namespace lazyfs::meta
