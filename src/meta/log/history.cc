#include "meta/log/history.h"

namespace lazyfs::meta {

void History::record(const LogPlan& plan, const PartPlace& previous,
                     std::span<const LogImage> images,
                     std::span<const DescriptorEntry> annotations) {
  const PartPlan& part = plan.parts.front();
  const bool has_checkpoint = !images.empty() && images.back().kind == EntryKind::kCheckpoint;
  if (plan.parts.size() > 1 || part.descriptors > 1 || has_checkpoint) return forget();
  std::vector<DescriptorEntry> entries;
  entries.reserve(images.size() + annotations.size());
  for (const LogImage& image : images) entries.push_back({image.number, image.crc, image.kind});
  for (const DescriptorEntry& entry : annotations) {
    if (entry.kind != EntryKind::kData) entries.push_back(entry);  // H3
  }
  add({{part.room.slot, part.room.rba, plan.seq}, part.room.blocks}, previous, entries);
}

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
  std::vector<DescriptorEntry> entries;
  const bool follows = !transactions_.empty() && transactions_.front().address.slot == slot &&
                       transactions_.front().address.seq.value + 1 == seq.value;
  if (!follows) return entries;
  for (const Transaction& transaction : transactions_) {
    if (entries.size() + transaction.entries.size() > room) break;
    entries.insert(entries.end(), transaction.entries.begin(), transaction.entries.end());
  }
  return entries;
}

}  // namespace lazyfs::meta
