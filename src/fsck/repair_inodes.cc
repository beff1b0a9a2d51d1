// Each inode's items by themselves: what cannot be is removed, what stands in two places is made
// the same in both, a record that is missing is made anew from the items that are there. Names and
// extents that stay are collected for the steps behind.
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "fsck/repair_extents.h"

namespace lazyfs::fsck {
namespace {

class InodeRepair {
 public:
  explicit InodeRepair(RepairContext& context) : c_(context), extents_(context) {}

  void item(const meta::Item& item) {
    if (item.key.owner == 0 || item.key.owner > kMaxInode) {
      c_.tell("Item (owner {:#x}, kind {}, offset {}) belonged to nothing: removed.",
              item.key.owner, item.key.kind, item.key.offset);
      return c_.erase(item.key);
    }
    if (InodeNo{item.key.owner} != now_.no) begin(InodeNo{item.key.owner}, item);
    dispatch(item);
  }
  void finish() {
    if (now_.no.value != 0) end();
    now_ = {};
    if (!has_root_) make_root();
    extents_.finish();
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  }

 private:
  struct Xattr {
    std::uint32_t value_bytes = 0;
    std::uint32_t found_bytes = 0;
    bool broken = false;
    std::string name;
  };
  struct State {
    InodeNo no;
    InodeRecord record;
    bool changed = false;
    std::uint64_t target_bytes = 0, pieces = 0;
    bool pieces_broken = false;
    std::map<std::uint64_t, Xattr> xattrs;  // by id
    std::set<std::string> xattr_names;
    std::uint64_t inline_bytes = 0;
    std::set<std::string> moved;  // names that stood under wrong hashes
    bool has_share_counts = false;
  };

  std::uint8_t type() const { return static_cast<std::uint8_t>(now_.record.mode >> 12); }

  void begin(InodeNo no, const meta::Item& first) {
    if (now_.no.value != 0) end();
    now_ = {};
    now_.no = no;
    c_.last_inode = std::max(c_.last_inode, no.value);
    const bool is_record = first.key.kind == static_cast<std::uint8_t>(Kind::kInode);
    const auto record = is_record ? decode_inode(first.value) : fail(Errc::kItemBad);
    if (record && first.key.offset == 0) {
      now_.record = *record;
      settle_type();
    } else {
      make_record();
    }
    if (no == kRootInode) check_root();
    extents_.begin(no, now_.record);
  }

  bool has_items(Kind first, Kind last) {
    const auto found =
        c_.store.last_in(key_of(now_.no, first), key_of(now_.no, last, meta::kMaxOffset));
    if (!found) c_.fail_with(found.error());
    return found && found->has_value();
  }

  // What the inode was shows in what it has.
  void make_record() {
    InodeRecord& r = now_.record;
    r.mode = mode_by_items();
    r.links = 1;
    r.access = r.modification = r.change = r.birth = c_.now;
    if (S_ISREG(r.mode) || r.mode == kSharedMode) r.size = size_by_items();
    now_.changed = true;
    c_.tell("Inode {}: its record was lost, and is made anew: a {} of {} bytes.", now_.no.value,
            type_name(type()), r.size);
  }

  std::uint32_t mode_by_items() {
    if (has_items(Kind::kDentryName, Kind::kDentrySeq)) return S_IFDIR | 0700;
    if (has_items(Kind::kSymlink, Kind::kSymlink)) return S_IFLNK | 0777;
    const bool is_shared = c_.is_target(now_.no) || has_items(Kind::kShareCount, Kind::kShareCount);
    return is_shared ? kSharedMode : S_IFREG | 0600;
  }

  // One that calls itself shared and shows that it is a directory or a link, or the other way
  // round. Of what has blocks repair_shares() says whether it is shared or a file.
  void settle_type() {
    InodeRecord& r = now_.record;
    if (type() == kRegularType || now_.no == kRootInode) return;
    if (r.mode != kSharedMode && !has_items(Kind::kExtent, Kind::kExtent)) return;
    const std::uint32_t mode = mode_by_items();
    const bool has_blocks = S_ISREG(mode) || mode == kSharedMode;
    if (r.mode == kSharedMode ? has_blocks : mode != kSharedMode) return;
    c_.tell("Inode {} called itself a {}, but is a {}: set right.", now_.no.value,
            type_name(type()), type_name(static_cast<std::uint8_t>(mode >> 12)));
    r.mode = mode;
    now_.changed = true;
  }

  std::uint64_t size_by_items() {
    const auto last = c_.store.last_in(key_of(now_.no, Kind::kExtent),
                                       key_of(now_.no, Kind::kExtent, blocks_for(kMaxFileBytes)));
    if (last && *last) {
      const auto record = decode_map_record((**last).value);
      if (record) return ((**last).key.offset + blocks_of(*record)) * kBlockBytes;
    }
    const auto inline_data = c_.get(key_of(now_.no, Kind::kInline));
    return inline_data ? inline_data->size() : 0;
  }

  void check_root() {
    has_root_ = true;
    InodeRecord& r = now_.record;
    if (!S_ISDIR(r.mode)) {
      c_.tell("The root (inode 1) was a {}: made a directory.", type_name(type()));
      r = root_record();
      now_.changed = true;
    }
    if (r.parent != kRootInode) {
      if (!now_.changed) c_.tell("The root's parent was inode {}: set right.", r.parent.value);
      r.parent = kRootInode;
      now_.changed = true;
    }
  }
  InodeRecord root_record() const {
    InodeRecord r;
    r.mode = S_IFDIR | 0755;
    r.links = 2;
    r.parent = kRootInode;
    r.access = r.modification = r.change = r.birth = c_.now;
    return r;
  }
  void make_root() {
    c_.tell("The root directory (inode 1) was missing: made anew.");
    c_.put_inode(kRootInode, root_record());
    c_.inodes.push_back({kRootInode, kRootInode, 2, kDirectoryType});
    has_root_ = true;
  }

  void dispatch(const meta::Item& item) {
    switch (static_cast<Kind>(item.key.kind)) {
      case Kind::kInode:
        if (item.key.offset != 0) bad_item(item.key);
        return;
      case Kind::kDentryName: return may_have(kDirectoryType, item.key) ? name_item(item) : void();
      case Kind::kDentrySeq: return may_have(kDirectoryType, item.key) ? cookie_item(item) : void();
      case Kind::kSymlink: return may_have(kSymlinkType, item.key) ? symlink_item(item) : void();
      case Kind::kXattrName: return xattr_name_item(item);
      case Kind::kXattrValue: return xattr_value_item(item);
      case Kind::kInline: return may_have(kRegularType, item.key) ? inline_item(item) : void();
      case Kind::kExtent: return may_have(kRegularType, item.key) ? extents_.item(item) : void();
      case Kind::kShareCount:
        return may_have(kRegularType, item.key) ? share_count_item(item) : void();
      default: return bad_item(item.key);
    }
  }

  void bad_item(const meta::Key& key) {
    c_.tell("Item (owner {:#x}, kind {}, offset {}) held impossible values: removed.", key.owner,
            key.kind, key.offset);
    c_.erase(key);
  }

  // Only inodes of that type have such items; others lose it. Files and shared inodes are told
  // apart later.
  bool may_have(std::uint8_t wanted, const meta::Key& key) {
    if (type() == wanted || (type() == kSharedType && wanted == kRegularType)) return true;
    c_.tell("Inode {} is a {}, but had an item of a {} (kind {}, offset {}): removed.",
            now_.no.value, type_name(type()), type_name(wanted), key.kind, key.offset);
    c_.erase(key);
    return false;
  }

  // ---- directories ----

  void name_item(const meta::Item& item) {
    const auto entries = decode_dentries(item.value);
    if (!entries) return bad_item(item.key);
    std::vector<DentryRecord> keep, elsewhere;
    for (const DentryRecord& entry : *entries) {
      if (name_hash(entry.name, c_.name_seed) != item.key.offset) {
        elsewhere.push_back(entry);
      } else if (std::ranges::find(keep, entry.name, &DentryRecord::name) == keep.end()) {
        keep.push_back(entry);
      } else {
        c_.tell("Directory {} held the name '{}' twice: one is left.", now_.no.value, entry.name);
      }
    }
    if (keep.size() != entries->size()) {
      if (keep.empty()) {
        c_.erase(item.key);
      } else {
        c_.put(item.key, encode(keep));
      }
    }
    for (const DentryRecord& entry : elsewhere) move_name(entry);
    for (const DentryRecord& entry : keep) {
      if (!now_.moved.contains(entry.name)) keep_name(entry);
    }
  }

  // A name under a wrong hash. Whether it is met once more under its own depends on what has been
  // read ahead, so it is taken note of here, and not there.
  void move_name(const DentryRecord& entry) {
    c_.tell("Directory {}: the name '{}' stood under a wrong hash: moved.", now_.no.value,
            entry.name);
    if (find_name(c_, now_.no, entry.name)) return;
    const meta::Key key = key_of(now_.no, Kind::kDentryName, name_hash(entry.name, c_.name_seed));
    std::vector<DentryRecord> entries;
    if (const auto value = c_.get(key)) {
      if (auto others = decode_dentries(*value)) entries = std::move(*others);
    }
    entries.push_back(entry);
    c_.put(key, encode(entries));
    now_.moved.insert(entry.name);
    keep_name(entry);
  }

  // Makes sure that the name has its twin by cookie.
  void keep_name(DentryRecord entry) {
    c_.names.push_back({entry.inode, now_.no, entry.type});
    const meta::Key twin_key = key_of(now_.no, Kind::kDentrySeq, entry.cookie);
    const auto value = c_.get(twin_key);
    const auto twin = value ? decode_dentry(*value) : fail(Errc::kItemBad);
    if (twin && *twin == entry && entry.cookie <= kMaxCookie) return;
    const auto other =
        twin && twin->name != entry.name ? find_name(c_, now_.no, twin->name) : std::nullopt;
    const bool taken = other && other->cookie == entry.cookie;
    c_.tell("Directory {}: the name '{}' had no equal entry under cookie {}: set right.",
            now_.no.value, entry.name, entry.cookie);
    if (taken || entry.cookie > kMaxCookie) {
      entry.cookie = free_cookie(c_, now_.no, now_.record.next_cookie);
    }
    put_entry(c_, now_.no, entry);
  }

  void cookie_item(const meta::Item& item) {
    auto entry = decode_dentry(item.value);
    if (!entry || item.key.offset == 0) return bad_item(item.key);
    const auto named = find_name(c_, now_.no, entry->name);
    if (named && *named == *entry && entry->cookie == item.key.offset) return;
    if (named) {  // it has its twin elsewhere
      c_.tell("Directory {}: the entry '{}' under cookie {} was one too many: removed.",
              now_.no.value, entry->name, item.key.offset);
      return c_.erase(item.key);
    }
    c_.tell("Directory {}: the entry '{}' under cookie {} had no name: set right.", now_.no.value,
            entry->name, item.key.offset);
    entry->cookie = item.key.offset;
    if (entry->cookie > kMaxCookie) {
      c_.erase(item.key);
      entry->cookie = free_cookie(c_, now_.no, now_.record.next_cookie);
    }
    put_entry(c_, now_.no, *entry);
    c_.names.push_back({entry->inode, now_.no, entry->type});
  }

  // ---- symbolic links, attributes, inline data ----

  void symlink_item(const meta::Item& item) {
    const bool full = now_.target_bytes == now_.pieces * meta::kMaxValueBytes;
    if (item.key.offset != now_.pieces || !full || item.value.empty()) now_.pieces_broken = true;
    if (now_.pieces_broken) {
      c_.tell("Symbolic link {}: piece {} of its target does not fit: removed.", now_.no.value,
              item.key.offset);
      return c_.erase(item.key);
    }
    now_.pieces += 1;
    now_.target_bytes += item.value.size();
  }

  void xattr_name_item(const meta::Item& item) {
    const auto record = decode_xattr(item.value);
    if (!record || item.key.offset >= kXattrIdEnd) return bad_item(item.key);
    if (!now_.xattr_names.insert(record->name).second) {
      c_.tell("Inode {} had the attribute '{}' twice: one is left.", now_.no.value, record->name);
      return c_.erase(item.key);
    }
    now_.xattrs[item.key.offset] = {record->value_bytes, 0, false, record->name};
  }

  void xattr_value_item(const meta::Item& item) {
    const std::uint64_t id = item.key.offset >> 8, piece = item.key.offset & 255;
    const auto xattr = now_.xattrs.find(id);
    if (xattr == now_.xattrs.end()) {
      c_.tell("Inode {} had piece {} of an attribute without a name: removed.", now_.no.value,
              piece);
      return c_.erase(item.key);
    }
    Xattr& x = xattr->second;
    const std::uint64_t due =
        std::min<std::uint64_t>(x.value_bytes - x.found_bytes, meta::kMaxValueBytes);
    const bool fits = x.found_bytes == piece * meta::kMaxValueBytes && item.value.size() == due;
    if (due == 0) {
      c_.tell(
          "Inode {} had piece {} of the value of attribute '{}', which ends before it: removed.",
          now_.no.value, piece, x.name);
      c_.erase(item.key);
    } else if (!fits) {
      x.broken = true;
    } else {
      x.found_bytes += static_cast<std::uint32_t>(due);
    }
  }

  void inline_item(const meta::Item& item) {
    if (item.key.offset != 0 || item.value.empty()) return bad_item(item.key);
    now_.inline_bytes = item.value.size();
  }

  void share_count_item(const meta::Item& item) {
    const auto record = decode_share_count(item.value);
    now_.has_share_counts = true;
    if (!record || item.key.offset > blocks_for(kMaxFileBytes) - record->blocks) {
      bad_item(item.key);
    }
  }

  // ---- when all items of an inode have gone by ----

  void end() {
    if (type() == kSymlinkType && !end_symlink()) return;
    end_xattrs();
    end_contents();
    if (now_.changed) c_.put_inode(now_.no, now_.record);
    c_.inodes.push_back({now_.no, now_.record.parent, now_.record.links, type()});
    if (now_.has_share_counts) c_.counted.push_back(now_.no);
  }

  // False: the link is gone, for nothing of its target is left.
  bool end_symlink() {
    if (now_.target_bytes == now_.record.size && now_.target_bytes > 0) return true;
    if (now_.target_bytes > 0) {
      c_.tell("Symbolic link {} of {} bytes: {} bytes of its target are left.", now_.no.value,
              now_.record.size, now_.target_bytes);
      now_.record.size = now_.target_bytes;
      now_.changed = true;
      return true;
    }
    c_.tell("Symbolic link {}: nothing of its target is left: removed.", now_.no.value);
    c_.erase(key_of(now_.no, Kind::kInode));
    for (const auto& [id, x] : now_.xattrs) erase_xattr(id);
    return false;
  }

  void end_xattrs() {
    for (const auto& [id, x] : now_.xattrs) {
      if (!x.broken && x.found_bytes == x.value_bytes) continue;
      c_.tell("Inode {}: the value of attribute '{}' is not whole: removed.", now_.no.value,
              x.name);
      erase_xattr(id);
    }
  }

  void erase_xattr(std::uint64_t id) {
    meta::Batch batch;
    batch.erase(key_of(now_.no, Kind::kXattrName, id));
    for (std::uint64_t piece = 0; piece < 256; ++piece) {
      batch.erase(key_of(now_.no, Kind::kXattrValue, id << 8 | piece));
    }
    c_.apply(batch);
  }

  // An extent is what readers see where there is inline data too.
  void end_contents() {
    const bool has_extent = extents_.end();
    if (now_.inline_bytes == 0) return;
    const meta::Key key = key_of(now_.no, Kind::kInline);
    if (has_extent) {
      c_.tell("Inode {} had inline data beside an extent for its first block: removed.",
              now_.no.value);
      return c_.erase(key);
    }
    const std::uint64_t size = now_.record.size;
    if (now_.inline_bytes <= size) return;
    c_.tell("Inode {} has {} bytes, but had {} bytes of inline data: cut off.", now_.no.value, size,
            now_.inline_bytes);
    const auto value = c_.get(key);
    if (!value || size == 0) return c_.erase(key);
    c_.put(key, meta::bytes_of(*value).first(size));
  }

  RepairContext& c_;
  ExtentRepair extents_;
  State now_;
  bool has_root_ = false;
};

}  // namespace

void repair_inodes(RepairContext& c) {
  InodeRepair repair(c);
  c.visit(kFirstKey, {kVolumeOwner - 1, 255, meta::kMaxOffset}, "inodes",
          [&](const meta::Item& item) { repair.item(item); });
  repair.finish();
}

}  // namespace lazyfs::fsck
