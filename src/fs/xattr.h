// Extended attributes: names with values of up to kMaxXattrBytes, kept in pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/inode.h"
#include "fs/schema.h"
#include "fs/volume.h"
#include "meta/store.h"

namespace lazyfs::fs {

// Thread-safe. An inode without attributes (InodeRecord::xattrs == 0) is answered from memory.
class Xattrs {
 public:
  Xattrs(meta::Store& store, InodeTable& inodes, Clock& clock)
      : store_(store), inodes_(inodes), clock_(clock) {}

  Result<std::string> get(InodeNo inode, std::string_view name);
  Result<> set(InodeNo inode, std::string_view name, std::string_view value,
               Volume::XattrMode mode);
  Result<> remove(InodeNo inode, std::string_view name);
  Result<std::vector<std::string>> list(InodeNo inode);

 private:
  struct Named {
    std::uint64_t id = 0;
    XattrRecord record;
  };
  Result<std::vector<Named>> names_of(InodeNo inode);

  meta::Store& store_;
  InodeTable& inodes_;
  Clock& clock_;
};

}  // namespace lazyfs::fs
