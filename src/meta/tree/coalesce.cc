// Combines the entries of a batch into one change for each key (meta/tree/tree.h).
#include <algorithm>
#include <numeric>

#include "base/endian.h"
#include "meta/tree/tree.h"

namespace lazyfs::meta {
namespace {

// Adds an addition of `deltas` to what `change` already does.
Result<> coalesce_addition(Change& change, std::span<const std::byte> deltas) {
  if (change.kind == Batch::Change::kErase) {
    change.kind = Batch::Change::kPut;
    change.bytes = deltas;
    return ok();
  }
  const auto value = change.operand();
  if (value.size() != deltas.size()) return fail(Errc::kItemBad);
  if (!change.own) change.own.emplace(value.begin(), value.end());
  add_counters(*change.own, deltas);
  return ok();
}

}  // namespace

void add_counters(Value& value, std::span<const std::byte> deltas) {
  const std::span<std::byte> to(value.data(), value.size());
  for (std::size_t at = 0; at < to.size(); at += 8) {
    store_le_at(to, at, load_le_at<std::uint64_t>(to, at) + load_le_at<std::uint64_t>(deltas, at));
  }
}

Result<std::vector<Change>> coalesce(const Batch& batch) {
  const auto entries = batch.entries();
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(entries[i].key, i); });
  std::vector<Change> changes;
  changes.reserve(entries.size());
  for (const std::uint32_t i : order) {
    const Batch::Entry& entry = entries[i];
    const auto value = batch.value_of(entry);
    if (value.size() > kMaxValueBytes) return fail(Errc::kValueTooLarge);
    const bool same_key = !changes.empty() && changes.back().key == entry.key;
    if (same_key && entry.change == Batch::Change::kAdd) {
      TRY(coalesce_addition(changes.back(), value));
      continue;
    }
    if (same_key) changes.pop_back();
    changes.push_back({entry.key, entry.change, value, std::nullopt, std::nullopt});
  }
  return changes;
}

}  // namespace lazyfs::meta
