#include "fuse/requests/operation_counts.h"

namespace lazyfs::fuse {

std::string_view name_of(Operation operation) {
  static constexpr std::string_view kNames[] = {
#define X(name) #name,
      LAZYFS_OPERATIONS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(operation)];
}

}  // namespace lazyfs::fuse
