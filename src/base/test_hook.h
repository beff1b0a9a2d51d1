// Test hooks: a test disables one safety rule at a time and checks that the test suite notices.
// In installed code rule_is_disabled() is the constant false, so the compiler removes each hook.
// Only test/crash compiles the files with hooks a second time, with LAZYFS_TEST_HOOKS defined.
#pragma once

#include <cstdint>

namespace lazyfs {

// Each comment names the rule by its number in the list of test/crash/rules_test.cc.
enum class Rule : std::uint8_t {
  kNone,
  kAwaitReaders,            // 2: a band is not reset while a reader has it pinned
  kProveData,               // 1: the newest transaction counts only if its data is on the disk
  kProveLiveDataOnly,       // 1: a transaction that brings dead blocks is written after a flush
  kDetectTornTransaction,   // 4: the newest transaction counts only if all of it is on the disk
  kDetectStaleSession,      // 4: lost writes of an earlier session do not come back
  kVerifyData,              // 5: file blocks are compared with their checksums
  kReserveSpace,            // 6: accepted data has space
  kBoundDirtyMemory,        // 7: the amount of dirty data is limited
};

#ifdef LAZYFS_TEST_HOOKS
inline namespace test_hooks {
inline Rule disabled_rule = Rule::kNone;  // REQUIRES: no other thread runs when a test sets it
inline bool rule_is_disabled(Rule rule) { return disabled_rule == rule; }
}  // namespace test_hooks
#else
constexpr bool rule_is_disabled(Rule) { return false; }
#endif

}  // namespace lazyfs
