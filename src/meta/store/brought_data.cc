#include "meta/store/brought_data.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "base/test_hook.h"

namespace lazyfs::meta {

void BroughtData::add(const Batch& batch) try {
  if (!can_be_named_) return;
  if (batch.flushes_first()) return give_up();
  batch.visit_brought([this](const Batch::Blocks& brought) { add_run(brought); });
  const bool is_dead = std::ranges::any_of(
      batch.dropped(), [this](const Batch::Blocks& dropped) { return has_any(dropped); });
  const bool is_too_much = blocks_ > kMaxUnprovenBlocks || runs_.size() > kMaxUnprovenRuns;  // B3
  if (is_too_much || (is_dead && !rule_is_disabled(Rule::kProveLiveDataOnly))) give_up();  // B2
} catch (const std::bad_alloc&) {
  give_up();
}

void BroughtData::add_run(const Batch::Blocks& brought) {
  auto run = runs_.upper_bound(brought.at);
  const bool continues = run != runs_.begin() && std::prev(run)->first.band == brought.at.band &&
                         std::prev(run)->first.rba + std::prev(run)->second.blocks ==
                             brought.at.rba;
  run = continues ? std::prev(run) : runs_.try_emplace(brought.at).first;
  for (const std::uint32_t crc : brought.crcs) {
    run->second.crc = add_block_crc(run->second.crc, crc);
  }
  run->second.blocks += brought.blocks;
  blocks_ += brought.blocks;
}

bool BroughtData::has_any(const Batch::Blocks& dropped) const {
  const BandAddress end{dropped.at.band, dropped.at.rba + dropped.blocks};
  const auto next = runs_.lower_bound(end);
  if (next == runs_.begin()) return false;
  const auto& [at, run] = *std::prev(next);
  return at.band == dropped.at.band && at.rba + run.blocks > dropped.at.rba;
}

void BroughtData::give_up() {
  can_be_named_ = false;
  runs_.clear();
}

std::vector<DescriptorEntry> BroughtData::entries() const {
  std::vector<DescriptorEntry> entries;
  for (const auto& [at, run] : runs_) {
    entries.push_back({at.packed(), run.crc, EntryKind::kData, run.blocks});
  }
  return entries;
}

}  // namespace lazyfs::meta
