#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/log.h"

namespace lazyfs {

void check_failed(const char* what, const char* file, int line) {
  log::critical("{}:{}: invariant violated: {}", file, line, what);
  log::flush();
  std::fprintf(stderr, "lazyfs: %s:%d: invariant violated: %s\n", file, line, what);
  std::abort();
}

}  // namespace lazyfs
