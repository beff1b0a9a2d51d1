#include "meta/log/history.h"

namespace lazyfs::meta {

void History::add(const PartPlace& part, const PartPlace& previous,
                  std::span<const DescriptorEntry> entries) {
  const PartAddress& at = part.address;
  const bool in_one_band = previous.address.slot == at.slot;
  if (!in_one_band || entries.size() >= kEntriesPerDescriptor) return forget();
  const bool follows = !transactions_.empty() && transactions_.front().address.slot == at.slot &&
                       transactions_.front().address.seq.value + 1 == at.seq.value;
  if (!follows) forget();
  Transaction& added = transactions_.emplace_front();
  added.address = at;
  const std::uint64_t place = std::uint64_t{previous.blocks} << 32 | previous.address.rba;
  added.entries.reserve(entries.size() + 1);
  added.entries.push_back({place, at.rba, EntryKind::kEarlier});
  added.entries.insert(added.entries.end(), entries.begin(), entries.end());
  for (entries_ += added.entries.size(); entries_ > kEntriesPerDescriptor;) {  // H2
    entries_ -= transactions_.back().entries.size();
    transactions_.pop_back();
  }
}

void History::forget() {
  transactions_.clear();
  entries_ = 0;
}

std::vector<DescriptorEntry> History::before(Seq seq, std::uint64_t slot, std::size_t room) const {
  std::vector<DescriptorEntry> told;
  const bool follows = !transactions_.empty() && transactions_.front().address.slot == slot &&
                       transactions_.front().address.seq.value + 1 == seq.value;
  if (!follows) return told;
  for (const Transaction& transaction : transactions_) {
    if (told.size() + transaction.entries.size() > room) break;
    told.insert(told.end(), transaction.entries.begin(), transaction.entries.end());
  }
  return told;
}

}  // namespace lazyfs::meta
