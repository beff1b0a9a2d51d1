#include "fsck/repair.h"

#include <algorithm>

#include "fsck/repair_context.h"

namespace lazyfs::fsck {
namespace {

constexpr std::uint64_t kProgressStep = 65536;

Result<> learn_bands(RepairContext& c) {
  const device::Geometry& geometry = c.device.geometry();
  c.bands.resize(geometry.band_count());
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    c.bands[i].blocks = geometry.band_blocks[i];
    ASSIGN_OR_RETURN(c.bands[i].device, c.device.report(BandId{i}));
  }
  const auto mark = [&](BandId band, BandFacts::Use use) {
    if (BandFacts* facts = c.band(band)) facts->use = use;
  };
  for (const BandId band : c.store.superblock().super_bands) mark(band, BandFacts::Use::kSuper);
  for (const BandId band : c.store.log_bands()) mark(band, BandFacts::Use::kLog);
  return ok();
}

void bad_item(RepairContext& c, const meta::Key& key) {
  c.tell("Item (owner {:#x}, kind {}, offset {}) held impossible values: removed.", key.owner,
         key.kind, key.offset);
  c.erase(key);
}

void orphan_item(RepairContext& c, const meta::Item& item) {
  const auto orphan = decode_orphan(item.value);
  if (!orphan || item.key.offset == 0 || item.key.offset > kMaxInode) return bad_item(c, item.key);
  c.orphans.push_back({InodeNo{item.key.offset}, orphan->work});
}

void summary_item(RepairContext& c, const meta::Item& item) {
  const auto summary = decode_band_summary(item.value);
  if (!summary || item.key.offset >= c.bands.size()) return bad_item(c, item.key);
  BandFacts& band = c.bands[item.key.offset];
  const bool may_stay = band.use == BandFacts::Use::kLog && summary->live == 0;
  if (band.use != BandFacts::Use::kData && !may_stay) {
    c.tell("Band {} had a summary of file data, but holds {}: removed.", item.key.offset,
           band.use == BandFacts::Use::kLog ? "metadata" : "superblocks");
    return c.erase(item.key);
  }
  band.has_summary = true;
  band.summary = *summary;
}

void lost_range_item(RepairContext& c, const meta::Item& item) {
  const auto range = decode_lost_range(item.value);
  if (!range) return bad_item(c, item.key);
  c.lost.push_back({range->first, range->end});
}

void counters_item(RepairContext& c, const meta::Item& item) {
  const auto counters = decode_counters(item.value);
  if (!counters || item.key.offset != 0) return bad_item(c, item.key);
  c.last_inode = std::max(c.last_inode, counters->next_inode - 1);
}

}  // namespace

// ---- RepairContext ------------------------------------------------------------------------------

void RepairContext::progress(std::string_view stage, std::uint64_t done) {
  if (done < kProgressStep) next_progress_ = 0;
  if (!progress_ || stage.empty() || done < next_progress_) return;
  next_progress_ = done + kProgressStep;
  progress_(stage, done);
}

void RepairContext::put(meta::Key key, std::span<const std::byte> value) {
  meta::Batch batch;
  batch.put(key, value);
  apply(batch);
}

void RepairContext::erase(meta::Key key) {
  meta::Batch batch;
  batch.erase(key);
  apply(batch);
}

void RepairContext::apply(const meta::Batch& batch) {
  if (!good()) return;
  edits_ += 1;
  const auto applied = store.apply(batch, meta::Reserve::kDelete);
  if (!applied) fail_with(applied.error());
}

std::optional<meta::Value> RepairContext::get(meta::Key key) {
  auto value = store.get(key);
  if (value) return std::move(*value);
  fail_with(value.error());
  return std::nullopt;
}

std::optional<InodeRecord> RepairContext::inode(InodeNo no) {
  const auto value = get(key_of(no, Kind::kInode));
  if (!value) return std::nullopt;
  auto record = decode_inode(*value);
  return record ? std::optional(*record) : std::nullopt;
}

InodeFacts* RepairContext::find_inode(InodeNo inode) {
  const auto at = std::ranges::lower_bound(inodes, inode, {}, &InodeFacts::inode);
  return at != inodes.end() && at->inode == inode ? &*at : nullptr;
}

InodeNo RepairContext::new_inode() {
  const auto is_taken = [&](InodeNo no) {
    return find_inode(no) != nullptr || is_target(no) ||
           std::ranges::binary_search(names, no, {}, &NameFacts::inode) ||
           std::ranges::binary_search(orphans, no, {}, &OrphanFacts::inode);
  };
  InodeNo no;
  do {  // only a damaged volume has the highest number in use
    no = InodeNo{last_inode < kMaxInode ? ++last_inode : lowest_free_++};
  } while (is_taken(no));
  return no;
}

void RepairContext::put_inode(InodeNo no, const InodeRecord& record) {
  put(key_of(no, Kind::kInode), encode(record));
}

std::uint32_t RepairContext::readable_blocks(BandId id) const {
  if (id.value >= bands.size() || bands[id.value].use != BandFacts::Use::kData) return 0;
  const BandFacts& facts = bands[id.value];
  if (facts.device.condition == device::BandCondition::kOffline) {  // it may come back
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(facts.summary.appended, facts.blocks));
  }
  if (facts.device.kind == device::BandKind::kConventional) return facts.blocks;
  return facts.device.write_pointer;
}

// ---- Directory entries --------------------------------------------------------------------------

namespace {

meta::Key name_key(RepairContext& c, InodeNo directory, std::string_view name) {
  return key_of(directory, Kind::kDentryName, name_hash(name, c.name_seed));
}

std::vector<DentryRecord> entries_at(RepairContext& c, meta::Key key) {
  const auto value = c.get(key);
  if (!value) return {};
  auto entries = decode_dentries(*value);
  return entries ? std::move(*entries) : std::vector<DentryRecord>{};
}

}  // namespace

void put_entry(RepairContext& c, InodeNo directory, const DentryRecord& entry) {
  const meta::Key key = name_key(c, directory, entry.name);
  std::vector<DentryRecord> entries = entries_at(c, key);
  std::erase_if(entries, [&](const DentryRecord& other) { return other.name == entry.name; });
  entries.push_back(entry);
  meta::Batch batch;
  batch.put(key, encode(entries));
  batch.put(key_of(directory, Kind::kDentrySeq, entry.cookie), encode(entry));
  c.apply(batch);
}

void erase_entry(RepairContext& c, InodeNo directory, const DentryRecord& entry) {
  const meta::Key key = name_key(c, directory, entry.name);
  std::vector<DentryRecord> entries = entries_at(c, key);
  std::erase(entries, entry);
  meta::Batch batch;
  if (entries.empty()) {
    batch.erase(key);
  } else {
    batch.put(key, encode(entries));
  }
  const meta::Key twin = key_of(directory, Kind::kDentrySeq, entry.cookie);
  const auto value = c.get(twin);
  const auto decoded = value ? decode_dentry(*value) : fail(Errc::kItemBad);
  if (decoded && decoded->name == entry.name) batch.erase(twin);
  c.apply(batch);
}

std::optional<DentryRecord> find_name(RepairContext& c, InodeNo directory, std::string_view name) {
  for (DentryRecord& entry : entries_at(c, name_key(c, directory, name))) {
    if (entry.name == name) return std::move(entry);
  }
  return std::nullopt;
}

std::uint64_t free_cookie(RepairContext& c, InodeNo directory, std::uint64_t next) {
  const auto last = c.store.last_in(key_of(directory, Kind::kDentrySeq),
                                    key_of(directory, Kind::kDentrySeq, kMaxCookie));
  if (!last) c.fail_with(last.error());
  const std::uint64_t behind = last && *last ? (**last).key.offset + 1 : 1;
  return next <= kMaxCookie ? std::max(next, behind) : behind;
}

void add_name(RepairContext& c, InodeNo directory, std::string name, InodeNo inode,
              std::uint8_t type) {
  auto record = c.inode(directory);
  if (!record) return;
  const std::uint64_t cookie = free_cookie(c, directory, record->next_cookie);
  record->next_cookie = cookie + 1;
  c.put_inode(directory, *record);
  put_entry(c, directory, {inode, cookie, type, std::move(name)});
}

// ---- The steps ----------------------------------------------------------------------------------

void repair_volume_items(RepairContext& c) {
  c.visit({kVolumeOwner, 0, 0}, {kVolumeOwner, 255, meta::kMaxOffset}, "volume",
          [&](const meta::Item& item) {
            switch (static_cast<Kind>(item.key.kind)) {
              case Kind::kCounters: return counters_item(c, item);
              case Kind::kOrphan: return orphan_item(c, item);
              case Kind::kBandSummary: return summary_item(c, item);
              case Kind::kLostRange: return lost_range_item(c, item);
              default: return bad_item(c, item.key);
            }
          });
}

void repair_counters(RepairContext& c) {
  const meta::Key key = key_of(kVolumeOwner, Kind::kCounters);
  const auto value = c.get(key);
  const auto found = value ? decode_counters(*value) : fail(Errc::kItemBad);
  CounterRecord counters = found.value_or(CounterRecord{});
  if (!found) c.tell("The volume's counters were missing: made anew.");
  if (found && counters.next_inode > c.last_inode) return;
  if (found) {
    c.tell("Inode {} existed, but the next number to be given out was {}: set right.", c.last_inode,
           counters.next_inode);
  }
  counters.next_inode = c.last_inode + 1;
  c.put(key, encode(counters));
}

namespace {

void forget_lost_ranges(RepairContext& c) {
  c.visit(key_of(kVolumeOwner, Kind::kLostRange),
          key_of(kVolumeOwner, Kind::kLostRange, meta::kMaxOffset), "",
          [&](const meta::Item& item) { c.erase(item.key); });
}

}  // namespace

// What is lost is known only to the run that has found the tree damaged. Should it be interrupted,
// the next one finds it here: it is durable before, or together with, the tree without the damage.
Result<> note_lost_ranges(meta::Store& store, const std::vector<meta::KeyRange>& lost) {
  std::uint64_t number = 0;
  ASSIGN_OR_RETURN(const auto last,
                   store.last_in(key_of(kVolumeOwner, Kind::kLostRange),
                                 key_of(kVolumeOwner, Kind::kLostRange, meta::kMaxOffset)));
  if (last) number = last->key.offset + 1;
  for (const meta::KeyRange& range : lost) {
    meta::Batch batch;
    batch.put(key_of(kVolumeOwner, Kind::kLostRange, number++),
              encode(LostRangeRecord{range.first, range.end}));
    TRY(store.apply(batch, meta::Reserve::kDelete));
  }
  return ok();
}

Result<std::unique_ptr<meta::Store>> open_for_repair(device::Device& device,
                                                     const ProblemListener& told,
                                                     const meta::StoreOptions& options) {
  return meta::Store::repair(
      device, options, [&](const std::string& text) { told("Metadata: " + text + "."); },
      note_lost_ranges);
}

Result<RepairReport> repair(meta::Store& store, device::Device& device, Clock& clock,
                            const ProblemListener& told, const ProgressListener& progress) {
  RepairContext c(store, device, clock, told, progress);
  c.name_seed = seed_of(store.superblock().uuid);
  TRY(learn_bands(c));
  repair_volume_items(c);
  find_targets(c);
  repair_inodes(c);
  salvage_extents(c);
  repair_shares(c);
  repair_names(c);
  repair_counts(c);
  repair_bands(c);
  repair_counters(c);
  forget_lost_ranges(c);
  if (c.error()) return fail(*c.error());
  TRY(store.commit());
  return c.report;
}

}  // namespace lazyfs::fsck
