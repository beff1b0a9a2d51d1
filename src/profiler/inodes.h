// The inodes of the backing directory that the kernel knows.
//
// Invariants:
//   N1  an inode is in the table as long as the kernel has looked it up more often than it has
//       forgotten it
//   N2  two inodes of the table are different files: their keys differ. The open descriptor keeps
//       the file, even without a name, so that its number is not used again.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "profiler/descriptor.h"

namespace lazyfs::profiler {

// What stands for a file of any type.
struct Inode {
  Descriptor file;  // O_PATH
  dev_t device;
  ino_t number;
  std::uint64_t lookups;  // guarded by InodeTable::mu_
};

// Thread-safe.
class InodeTable {
 public:
  // Counts one lookup of the file that `file` refers to. Returns its inode, which exists until the
  // lookup is forgotten.
  Inode& remember(Descriptor file, const struct stat& attributes);
  // Takes back `lookups` lookups. With the last one the inode ends.
  void forget(Inode& inode, std::uint64_t lookups);

 private:
  Mutex mu_;
  std::map<std::pair<dev_t, ino_t>, Inode> inodes_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::profiler
