// A store that counts its lookups of last items, and the items that scans return: for tests of how
// far walks go.
#pragma once

#include <vector>

#include "test/meta/forwarding_store.h"

namespace lazyfs::fsck {

class CountingStore final : public meta::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  std::uint64_t scanned_items() const { return scanned_items_; }
  std::uint64_t looked_up() const { return looked_up_; }

  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    auto items = ForwardingStore::scan(first, last, max_items);
    if (items) scanned_items_ += items->size();
    return items;
  }
  Result<std::optional<meta::Item>> last_in(meta::Key first, meta::Key last) override {
    ++looked_up_;
    return ForwardingStore::last_in(first, last);
  }

 private:
  std::uint64_t scanned_items_ = 0;
  std::uint64_t looked_up_ = 0;
};

}  // namespace lazyfs::fsck
