#include "fs/space/visit_items.h"

#include <vector>

namespace lazyfs::fs {
namespace {

constexpr std::size_t kItemsAScan = 1024;

}  // namespace

Result<> visit_items(meta::Store& store, meta::Key first, meta::Key last, const VisitItem& visit) {
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<meta::Item> items, store.scan(first, last, kItemsAScan));
    for (const meta::Item& item : items) TRY(visit(item));
    if (items.size() < kItemsAScan) return ok();
    first = items.back().key;
    if (++first.offset == 0) ++first.kind;
  }
}

}  // namespace lazyfs::fs
