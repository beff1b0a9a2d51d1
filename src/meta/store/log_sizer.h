// The size of the log: how many bands it has, and how many nodes the tree may have with them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/log/size_policy.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"
#include "meta/store/store_superblock.h"

namespace lazyfs::meta {

// Only the committing thread calls the functions that change the size. The band source is set once,
// before the first change. The other functions are thread-safe.
class LogSizer {
 public:
  // `on_less_space` is called when the log has lost space, which another band can replace.
  LogSizer(device::Device& device, const StoreOptions& options, Log& log, SharedTree& tree,
           StoreSuperblock& superblock, std::function<void()> on_less_space)
      : device_(device),
        options_(options),
        log_(log),
        tree_(tree),
        superblock_(superblock),
        on_less_space_(std::move(on_less_space)) {}

  void set_source(Store::BandSource source) { source_ = std::move(source); }
  // Computes the tree's limits from the bands that the log has now.
  void update_limits();
  // Called when a band has failed, cannot be reset, or is left out by the cleaner; or when it
  // counts again.
  void note_less_space();

  // Whether the log has fewer bands than a log must have, or no free band, so that the cleaner
  // cannot move anything. Always false on a device that keeps write pointers.
  bool lacks_bands() const;
  SizeChange wanted(SpaceDemand demand) const;
  bool is_due() const;
  // Grows or shrinks the log if wanted() says so.
  void resize(SpaceDemand demand);
  // Takes one band from the source; another one, if that cannot be reset, but at most kMaxRefused.
  // Error: kLogFull when none is available.
  Result<> grow();

 private:
  static constexpr std::size_t kMaxRefused = 16;
  std::optional<BandId> take_usable();
  void shrink(SpaceDemand demand);

  device::Device& device_;
  const StoreOptions& options_;
  Log& log_;
  SharedTree& tree_;
  StoreSuperblock& superblock_;
  const std::function<void()> on_less_space_;
  Store::BandSource source_;
};

}  // namespace lazyfs::meta
