// The write pointers on disk. A table is made of blocks; each holds the pointers of some
// neighbouring bands and is written as a whole.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "edi/backing.h"
#include "edi/layout.h"

namespace lazyfs::edi {

// Not thread-safe: one flush at a time uses it.
class PointerTable {
 public:
  virtual ~PointerTable() = default;

  // Pointers of every band. Errors: kEdiBadChecksum, kEdiBadHeader, kDeviceRead, kDeviceTruncated.
  virtual Result<std::vector<std::uint32_t>> load(const Backing& backing) = 0;

  virtual std::uint32_t block_of(BandId band) const = 0;
  virtual std::uint32_t block_count() const = 0;
  // Bands [first, second) of a block.
  virtual std::pair<std::uint32_t, std::uint32_t> bands_of(std::uint32_t block) const = 0;

  // Writes one block; `pointers` are those of bands_of(block). Until settle() a table that was
  // flushed before can still be read. Errors: kDeviceWrite, kDeviceNoSpace.
  virtual Result<> write(const Backing& backing, std::uint32_t block,
                         std::span<const std::uint32_t> pointers) = 0;
  // What was written is durable now.
  virtual void settle() = 0;
  // Blocks of which load() found one copy damaged: the next write of each makes it anew.
  virtual std::vector<std::uint32_t> damaged() const { return {}; }
};

std::unique_ptr<PointerTable> make_pointer_table(const Layout& layout);

// Every pointer 0, whatever lay there before. Errors: kDeviceWrite, kDeviceNoSpace.
Result<> write_empty_table(const Layout& layout, const Backing& backing);

}  // namespace lazyfs::edi
