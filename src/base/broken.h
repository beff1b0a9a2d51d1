// Rules that tests break on purpose, one at a time, to see that they would notice. In everything
// that is installed is_broken() is the constant false, and nothing of what asks it is left; only
// test/crash compiles the files that do once more, with LAZYFS_BREAKABLE.
#pragma once

#include <cstdint>

namespace lazyfs {

// The numbers are those of DESIGN's rules that make lazyfs safe.
enum class Rule : std::uint8_t {
  kNone,
  kReadersAreAwaited,          // 2: a band that somebody reads is not reset
  kTornTransactionsAreTold,    // 4: the newest transaction counts only when all of it is there
  kSessionsAreTold,            // 4: what an earlier session wrote and lost does not come back
  kDataIsVerified,             // 5: blocks of files are compared with their checksums
  kSpaceIsReserved,            // 6: what was accepted has a place
  kMemoryIsBounded,            // 7: data that waits to be written
};

#ifdef LAZYFS_BREAKABLE
inline namespace breakable {
inline Rule broken_rule = Rule::kNone;  // set while no other thread runs
inline bool is_broken(Rule rule) { return broken_rule == rule; }
}  // namespace breakable
#else
constexpr bool is_broken(Rule) { return false; }
#endif

}  // namespace lazyfs
