#include "meta/log/damaged_headers.h"

#include <set>

#include "base/buffer.h"
#include "meta/log/log_format.h"
#include "meta/log/recovery.h"

namespace lazyfs::meta {

Result<std::vector<BandId>> damaged_headers(device::Device& device, std::span<const BandId> live) {
  ASSIGN_OR_RETURN(const Superblock superblock, read_superblock(device));
  ASSIGN_OR_RETURN(const RecoveredLog log, recover_log(device, superblock));
  std::set<BandId> in_use(live.begin(), live.end());
  for (const ChainBand& band : log.chain) in_use.insert(band.band);
  std::vector<BandId> damaged;
  AlignedBuffer block(kBlockBytes);
  for (const BandId band : in_use) {
    const auto read = device.read({band, 0}, block.span());
    const auto header = read ? decode_band_header(block.span().first<kBlockBytes>())
                             : Result<BandHeader>(fail(read.error()));
    const bool is_good = header && header->stamp.uuid == superblock.uuid && header->band == band;
    if (!is_good) damaged.push_back(band);
  }
  return damaged;
}

}  // namespace lazyfs::meta
