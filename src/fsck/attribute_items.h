// Checks the extended attributes of one inode: each name occurs once, and each value is whole.
#pragma once

#include <map>
#include <set>
#include <string>

#include "fsck/context.h"

namespace lazyfs::fsck {

// begin(), then the inode's items in the order of their keys, then end().
class AttributeItems {
 public:
  explicit AttributeItems(Context& context) : c_(context) {}

  // `may_lack_names`: the inode is being deleted. A deletion erases names of attributes before
  // their values.
  void begin(InodeNo inode, bool may_lack_names);
  void name(const meta::Item& item);   // kXattrName
  void value(const meta::Item& item);  // kXattrValue
  // Compares the counters of `record`, unless it is null.
  void end(const InodeRecord* record);
  // Erases all attributes, because a repair removes the inode.
  void erase_all();
  std::uint64_t count() const { return count_; }

 private:
  struct Attribute {
    std::uint32_t value_bytes = 0;
    std::uint32_t found_bytes = 0;  // of the pieces up to the first that is missing or wrong
  };
  void erase(std::uint64_t id);

  Context& c_;
  InodeNo no_;
  bool may_lack_names_ = false;
  std::uint64_t count_ = 0;
  std::map<std::uint64_t, Attribute> attributes_;  // by id
  std::set<std::string> names_;
};

}  // namespace lazyfs::fsck
