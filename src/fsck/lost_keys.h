// Where items of the tree may be lost.
#pragma once

#include <optional>
#include <vector>

#include "meta/store/store.h"

namespace lazyfs::fsck {

// Ranges of keys, sorted and merged. Constant after construction.
class LostKeys {
 public:
  explicit LostKeys(std::vector<meta::KeyRange> ranges);

  // Returns the first key from `first` to `last` that is in a range.
  std::optional<meta::Key> first_in(const meta::Key& first, const meta::Key& last) const;
  // Whether any key from `first` to `last` is in a range.
  bool overlap(const meta::Key& first, const meta::Key& last) const {
    return first_in(first, last).has_value();
  }

 private:
  std::vector<meta::KeyRange> ranges_;
};

}  // namespace lazyfs::fsck
