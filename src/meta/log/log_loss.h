// What recovery could not read, and so which transactions may be lost. A transaction that a crash
// has torn is no loss: it was not durable.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"

namespace lazyfs::meta {

struct LogLoss {
  std::vector<BandId> bands;        // that cannot be read, so their place in the log is unknown
  std::vector<BandAddress> blocks;  // that cannot be read and lie past the newest transaction
  Seq newest;      // the newest transaction that was recovered
  Seq unverified;  // one that was passed over, because blocks that it names cannot be read; or 0
  Seq begun;       // the newest transaction of which a descriptor was found
};

// A sentence for each loss that may have happened.
std::vector<std::string> describe_loss(const LogLoss& loss);

}  // namespace lazyfs::meta
