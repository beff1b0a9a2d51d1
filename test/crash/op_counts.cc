#include "crash/op_counts.h"

#include <map>
#include <string_view>

namespace lazyfs::crash {

using device::Op;

Content content_of(const Op& append) {
  const std::string_view magic(reinterpret_cast<const char*>(append.bytes.data()), 4);
  if (magic == "LZSB") return Content::kSuperblock;
  return magic.starts_with("LZ") ? Content::kLog : Content::kData;
}

OpCounts& OpCounts::operator+=(const OpCounts& other) {
  data_resets += other.data_resets;
  log_resets += other.log_resets;
  superblock_resets += other.superblock_resets;
  discards += other.discards;
  log_bands_added += other.log_bands_added;
  transactions += other.transactions;
  return *this;
}

OpCounts count_ops(const device::Recording& recording, std::size_t first) {
  OpCounts found;
  std::map<BandId, Content> bands;
  std::map<BandId, bool> was_log;
  for (std::size_t i = 0; i < recording.ops.size(); ++i) {
    const Op& op = recording.ops[i];
    const BandId band = op.at.band;
    found.discards += op.kind == Op::Kind::kDiscard && i >= first;
    if (op.kind == Op::Kind::kAppend) {
      const Content content = content_of(op);
      if (content == Content::kLog) {
        found.transactions += i >= first;
        found.log_bands_added += i >= first && !was_log[band];
      }
      if (op.at.rba == 0) bands[band] = content;
      was_log[band] = content == Content::kLog;
    } else if (op.kind == Op::Kind::kReset && i >= first && bands.contains(band)) {
      switch (bands[band]) {
        case Content::kData: ++found.data_resets; break;
        case Content::kLog: ++found.log_resets; break;
        case Content::kSuperblock: ++found.superblock_resets; break;
      }
      bands.erase(band);
    }
  }
  return found;
}

std::string to_string(const OpCounts& l) {
  return std::to_string(l.transactions) + " transactions, reset bands: " +
         std::to_string(l.data_resets) + " of data, " + std::to_string(l.log_resets) +
         " of the log, " + std::to_string(l.superblock_resets) + " of superblocks; " +
         std::to_string(l.discards) + " discarded; " +
         std::to_string(l.log_bands_added) + " new in the log";
}

}  // namespace lazyfs::crash
