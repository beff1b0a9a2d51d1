// The size of the log: how many bands it has, and what the tree may hold for it.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "meta/log/log.h"
#include "meta/log/size_policy.h"
#include "meta/store/shared_tree.h"
#include "meta/store/store.h"
#include "meta/store/store_superblock.h"

namespace lazyfs::meta {

// Only the committing thread calls what changes the size. The band source is set once, before the
// first change; all else is thread-safe.
class LogSizer {
 public:
  // `on_less_space` is called when the log has lost space, which another band may make up for.
  LogSizer(device::Device& device, const StoreOptions& options, Log& log, SharedTree& tree,
           StoreSuperblock& superblock, std::function<void()> on_less_space)
      : device_(device),
        options_(options),
        log_(log),
        tree_(tree),
        superblock_(superblock),
        on_less_space_(std::move(on_less_space)) {}

  void set_source(Store::BandSource source) { source_ = std::move(source); }
  // Works out what the tree may hold from the bands that the log has now.
  void update_limits();
  // A band has failed, cannot be reset, or is left out by the cleaner; or it counts again.
  void note_less_space();

  // On a device that keeps no write pointers the log has fewer bands than the smallest one, or none
  // of them is free, so that the cleaner has no place to move anything to.
  bool lacks_bands() const;
  SizeChange wanted(SpaceDemand demand) const;
  bool is_due() const;
  // Does what wanted() says, if that is kGrow or kShrink.
  void resize(SpaceDemand demand);
  // Takes one band. Error: kLogFull when there is none to be had.
  Result<> grow();

 private:
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
