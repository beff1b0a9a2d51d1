// Reads a range of the tree's items, many at a time.
#pragma once

#include <functional>

#include "base/result.h"
#include "meta/store/store.h"

namespace lazyfs::fs {

using VisitItem = std::function<Result<>(const meta::Item&)>;

// Calls `visit` for each item from `first` to `last`, in the order of the keys, until `visit`
// fails. Errors: those of `visit`, and of reading the tree.
Result<> visit_items(meta::Store& store, meta::Key first, meta::Key last, const VisitItem& visit);

}  // namespace lazyfs::fs
