// Whether the metadata log should take a band from the volume or give one back: a pure function.
#pragma once

#include <cstdint>
#include <vector>

namespace lazyfs::meta {

// The state of the log that the decision depends on.
struct LogSize {
  std::vector<std::uint32_t> bands;    // sizes of the usable bands, in blocks with header
  std::uint32_t bands_min = 0;         // the log never shrinks below
  std::uint64_t transaction_blocks = 0;  // as for limits_of()
  std::uint64_t free_bands = 0;          // empty ones, which could be given back
  bool has_rescue_band = false;          // as for limits_of()
  bool has_cold_bands = false;           // as for limits_of()
  std::uint64_t available = 0;           // blocks for transactions
  std::uint64_t live = 0;                // nodes in the tree
};

enum class SizeChange : std::uint8_t {
  kKeep,
  kGrow,        // take one band
  kShrink,      // give one free band back
  kCleanFirst,  // clean, so that a band can be given back
};

// kOrdinary keeps room for three times the live nodes, so that a log whose content varies does not
// take and give back bands all the time. kShortage is for a volume that has no space left: the log
// keeps just enough bands not to grow again at once.
enum class SpaceDemand : std::uint8_t { kOrdinary, kShortage };

SizeChange choose_size_change(const LogSize& log, SpaceDemand demand);

}  // namespace lazyfs::meta
