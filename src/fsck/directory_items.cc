#include "fsck/directory_items.h"

namespace lazyfs::fsck {

void DirectoryItems::begin(InodeNo directory, const std::optional<InodeRecord>& record) {
  no_ = directory;
  seed_ = c_.seed_of_names(record);
  chain_last_.reset();
  next_cookie_ = record ? std::optional(record->next_cookie) : std::nullopt;
  names_ = subdirectories_ = 0;
  moved_.clear();
}

bool DirectoryItems::is_in_reach(const DentryRecord& entry, std::uint64_t offset) const {
  const std::uint64_t hash = directory().hash(entry.name);
  return hash >= chain_first_ && hash <= offset && offset - hash < kMaxChainItems;
}

void DirectoryItems::names(const meta::Item& item) {
  const auto entries = decode_dentries(item.value);
  if (!entries) return c_.bad_item(item.key);
  if (!chain_last_ || item.key.offset != *chain_last_ + 1) {
    chain_first_ = item.key.offset;
    chain_names_.clear();
  }
  std::vector<DentryRecord> keep, misplaced;
  for (const DentryRecord& entry : *entries) {
    if (!is_in_reach(entry, item.key.offset)) {
      c_.finding(Action::kMove, "Directory {}: the name '{}' stands under the wrong hash {:#x}",
                 no_.value, entry.name, item.key.offset);
      misplaced.push_back(entry);
    } else if (chain_names_.insert(entry.name).second) {
      keep.push_back(entry);
    } else {
      c_.finding(Action::kRemove, "Directory {} holds the name '{}' twice", no_.value, entry.name);
    }
  }
  if (!keep.empty()) chain_last_ = item.key.offset;
  if (c_.repairs() && keep.size() != entries->size()) rewrite(item, keep);
  for (const DentryRecord& entry : misplaced) move(entry);
  for (const DentryRecord& entry : keep) {
    if (!moved_.contains(entry.name)) one_name(entry);
  }
}

void DirectoryItems::rewrite(const meta::Item& item, const std::vector<DentryRecord>& entries) {
  if (entries.empty()) return c_.erase(item.key);
  c_.put(item.key, encode(entries));
}

// The scan may or may not meet the name again under its own hash, depending on what has been read
// ahead. So the name is handled here, and skipped there.
void DirectoryItems::move(const DentryRecord& entry) {
  if (find(entry.name)) return;
  if (c_.repairs()) put_name(c_, directory(), entry);
  moved_.emplace(entry.name, entry);
  one_name(entry);
}

// A check does not move a name, but its findings are those of a repair, which does.
std::optional<DentryRecord> DirectoryItems::find(const std::string& name) {
  auto found = find_name(c_, directory(), name);
  const auto moved = moved_.find(name);
  if (!found && moved != moved_.end()) found = moved->second;
  return found;
}

void DirectoryItems::count(const DentryRecord& entry) {
  c_.names.push_back({entry.inode, no_, entry.type});
  c_.report.names += 1;
  names_ += 1;
  if (entry.type == kDirectoryType) subdirectories_ += 1;
}

void DirectoryItems::one_name(DentryRecord entry) {
  count(entry);
  if (next_cookie_ && entry.cookie >= *next_cookie_) {
    c_.finding(Action::kCorrect,
               "Directory {}: the name '{}' has cookie {}, but the next one is {}", no_.value,
               entry.name, entry.cookie, *next_cookie_);
  }
  const auto value = c_.get(key_of(no_, Kind::kDentrySeq, entry.cookie));
  const auto twin = value ? decode_dentry(*value) : fail(Errc::kItemBad);
  const bool has_twin = twin && *twin == entry;
  if (has_twin && entry.cookie <= kMaxCookie) return;
  const bool repairs =
      has_twin ? c_.finding(Action::kCorrect,
                            "Directory {}: the name '{}' has cookie {}, which is too high",
                            no_.value, entry.name, entry.cookie)
               : c_.finding(Action::kCorrect,
                            "Directory {}: the name '{}' has no equal entry under cookie {}",
                            no_.value, entry.name, entry.cookie);
  if (!repairs) return;
  const auto other =
      twin && twin->name != entry.name ? find_name(c_, directory(), twin->name) : std::nullopt;
  add_twin(std::move(entry), other && other->cookie == entry.cookie);
}

void DirectoryItems::add_twin(DentryRecord entry, bool is_cookie_taken) {
  if (is_cookie_taken || entry.cookie > kMaxCookie) {
    if (!is_cookie_taken) c_.erase(key_of(no_, Kind::kDentrySeq, entry.cookie));
    entry.cookie = free_cookie(c_, no_, next_cookie_.value_or(0));
  }
  put_entry(c_, no_, entry);
}

void DirectoryItems::by_cookie(const meta::Item& item) {
  auto entry = decode_dentry(item.value);
  if (!entry || item.key.offset == 0) return c_.bad_item(item.key);
  const auto named = find(entry->name);
  const bool is_in_place = entry->cookie == item.key.offset;
  if (named && *named == *entry && is_in_place) return;
  if (named && named->cookie == item.key.offset) return;  // a finding of the name
  const Action action = named ? Action::kRemove : Action::kCorrect;
  const bool repairs =
      is_in_place
          ? c_.finding(action,
                       "Directory {}: the entry '{}' under cookie {} has no equal one under its "
                       "name",
                       no_.value, entry->name, item.key.offset)
          : c_.finding(action, "Directory {}: the entry '{}' under cookie {} calls itself {}",
                       no_.value, entry->name, item.key.offset, entry->cookie);
  if (named) {  // the name's other item is elsewhere
    if (repairs) c_.erase(item.key);
    return;
  }
  count(*entry);
  if (!repairs) return;
  entry->cookie = item.key.offset;
  add_twin(std::move(*entry), false);
}

void DirectoryItems::end(const InodeRecord& record) {
  if (record.entries != names_) {
    c_.finding(Action::kCorrect, "Directory {} counts {} entries, but has {} names", no_.value,
               record.entries, names_);
  }
  // An orphaned directory has no links left, and nothing in it.
  const std::uint64_t links = record.links == 0 && names_ == 0 ? 0 : 2 + subdirectories_;
  if (record.links != links) {
    c_.finding(Action::kCorrect,
               "Directory {} has link count {}, but it should be {} for {} subdirectories",
               no_.value, record.links, links, subdirectories_);
  }
  if (record.size != 0) {
    c_.finding(Action::kCorrect, "Directory {} has size {} where 0 is due", no_.value,
               record.size);
  }
}

}  // namespace lazyfs::fsck
