// The write pointers on disk. A table consists of blocks. Each block has the pointers of
// consecutive bands and is written as a whole.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/backing.h"
#include "edi/layout.h"

namespace lazyfs::edi {

using device::Backing;

// Not thread-safe. Only the running flush uses it.
class PointerTable {
 public:
  virtual ~PointerTable() = default;

  // Reads the pointers of all bands.
  // Errors: kEdiBadChecksum, kEdiBadHeader, kDeviceRead, kDeviceTruncated.
  virtual Result<std::vector<std::uint32_t>> load(const Backing& backing) = 0;

  virtual std::uint32_t block_of(BandId band) const = 0;
  virtual std::uint32_t block_count() const = 0;
  // Bands [first, second) of a block.
  virtual std::pair<std::uint32_t, std::uint32_t> bands_of(std::uint32_t block) const = 0;

  // Writes one block. The last flushed version stays readable until settle().
  // REQUIRES: `pointers` are those of bands_of(block). Errors: kDeviceWrite, kDeviceNoSpace.
  virtual Result<> write(const Backing& backing, std::uint32_t block,
                         std::span<const std::uint32_t> pointers) = 0;
  // REQUIRES: all blocks written so far are durable.
  virtual void settle() = 0;
  // Returns the blocks with a damaged copy, as found by load(). The next write of such a block
  // replaces that copy.
  virtual std::vector<std::uint32_t> damaged() const { return {}; }
};

std::unique_ptr<PointerTable> make_pointer_table(const Layout& layout);

// Writes a table with every pointer 0. Errors: kDeviceWrite, kDeviceNoSpace.
Result<> write_empty_table(const Layout& layout, const Backing& backing);

}  // namespace lazyfs::edi
