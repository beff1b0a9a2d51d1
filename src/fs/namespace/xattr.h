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
  // Setting "system.posix_acl_access" also sets the mode; the list is not stored if the mode holds
  // all of it. Errors: kInvalid, kBufferTooSmall (the name is too long), kAttributeTooBig,
  // kNoSpace, kNotPermitted, kStale, those of `mode`, and those of Store::try_apply().
  Result<> set(InodeNo inode, std::string_view name, std::string_view value,
               XattrMode mode);
  // Removing an access control list that the inode lacks succeeds: the mode counts as a list.
  // Error: kNoAttribute, otherwise as for set().
  Result<> remove(InodeNo inode, std::string_view name);
  Result<std::vector<std::string>> list(InodeNo inode);

  // For callers that hold the inode's lock. kNoAttribute: the inode has no attribute of that name.
  Result<std::string> get_locked(const Inode& inode, std::string_view name)
      REQUIRES_SHARED(inode.mu);
  // Puts the items that setting or removing changes into the batch, except the inode's own item.
  // Updates `record`, which the caller puts.
  Result<> put_into(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                    std::string_view name, std::string_view value, XattrMode mode);
  Result<> remove_in(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                     std::string_view name);
  // Puts the inode's access control list, changed to fit the mode of `record`, into the batch.
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

// Puts an attribute of a new inode. `id`: from 1, another one for each attribute.
void put_xattr(meta::Batch& batch, InodeNo inode, std::uint64_t id, std::string_view name,
               std::string_view value);

}  // namespace lazyfs::fs
