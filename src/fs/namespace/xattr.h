// Extended attributes: names with values of up to kMaxXattrBytes, kept in pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "fs/inode/inode.h"
#include "fs/item/attributes.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

// Thread-safe. An inode without attributes (InodeRecord::xattrs == 0) is answered from memory.
class Xattrs {
 public:
  Xattrs(meta::Store& store, InodeTable& inodes, Clock& clock)
      : store_(store), inodes_(inodes), clock_(clock) {}

  Result<std::string> get(InodeNo inode, std::string_view name);
  // An access control list changes the mode with it, and is not kept when the mode says it all.
  Result<> set(InodeNo inode, std::string_view name, std::string_view value,
               XattrMode mode);
  // Removing an access control list that the inode lacks succeeds, for the mode is a list, too.
  Result<> remove(InodeNo inode, std::string_view name);
  Result<std::vector<std::string>> list(InodeNo inode);

  // For callers that hold the inode's lock. kNoAttribute: the inode has no attribute of that name.
  Result<std::string> get_locked(const Inode& inode, std::string_view name)
      REQUIRES_SHARED(inode.mu);
  // Puts what setting or removing takes into the batch, but for the inode's item; `record` is
  // changed to what that shall be.
  Result<> put_into(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                    std::string_view name, std::string_view value, XattrMode mode);
  Result<> remove_in(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                     std::string_view name);
  // The access control list follows a change of the mode.
  Result<> follow_mode(meta::Batch& batch, const Inode& inode, InodeRecord& record)
      REQUIRES_SHARED(inode.mu);

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

// The attribute of number `id` of a new inode.
void put_xattr(meta::Batch& batch, InodeNo inode, std::uint64_t id, std::string_view name,
               std::string_view value);

}  // namespace lazyfs::fs
