#include "meta/log/log_loss.h"

#include <fmt/core.h>

namespace lazyfs::meta {

std::vector<std::string> describe_loss(const LogLoss& loss) {
  constexpr auto kMayBeLost = "changes of the last seconds before the crash may be lost";
  std::vector<std::string> all;
  for (const BandId band : loss.bands) {
    all.push_back(fmt::format("Log band {} cannot be read, and may have held the newest "
                              "transactions: {}.", band.value, kMayBeLost));
  }
  for (const BandAddress& at : loss.blocks) {
    all.push_back(fmt::format("Log band {} cannot be read at block {}, past the newest transaction "
                              "that was found: {}.", at.band.value, at.rba, kMayBeLost));
  }
  if (loss.unverified > loss.newest && loss.blocks.empty()) {
    all.push_back(fmt::format("Transaction {} of the metadata log was passed over, because blocks "
                              "that it names cannot be read: {}.", loss.unverified.value,
                              kMayBeLost));
  }
  // A transaction is begun when the one before it is durable.
  if (loss.begun.value > loss.newest.value + 1) {
    all.push_back(fmt::format("The metadata log is damaged: transaction {} was durable, and {} is "
                              "the newest that can be read. Changes of the last seconds before the "
                              "crash are lost.", loss.begun.value - 1, loss.newest.value));
  }
  return all;
}

}  // namespace lazyfs::meta
