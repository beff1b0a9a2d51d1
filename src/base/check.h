// CHECK(invariant) aborts the process when the invariant does not hold, in release builds too: a
// process that continues could write wrong metadata to the disk. Bytes from a disk are never
// checked by CHECK; code that finds bad bytes returns a Result.
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
