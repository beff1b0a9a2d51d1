// CHECK: an invariant of ours was broken; the process ends, in release builds too, because going on
// would write a lie to the disk. Never used on bytes that came from a disk: those are a Result.
#pragma once

namespace lazyfs {
[[noreturn]] void check_failed(const char* what, const char* file, int line);
}

#define CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::lazyfs::check_failed(#condition, __FILE__, __LINE__))

#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof(!(condition)))  // not evaluated
#else
#define DCHECK(condition) CHECK(condition)
#endif
