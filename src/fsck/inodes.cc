// The items that belong to inodes, in one pass in the order of their keys. Of each inode only a
// small state is held while its items pass by. A repair removes what cannot be, corrects what is in
// two places, and rebuilds a lost record from the inode's items; what inodes count is corrected
// later, and extents have a walker each for checks and repairs.
#include <algorithm>
#include <memory>

#include "fsck/attribute_items.h"
#include "fsck/check_extents.h"
#include "fsck/directory_items.h"
#include "fsck/lost_record.h"
#include "fsck/passes.h"
#include "fsck/repair_extents.h"

namespace lazyfs::fsck {
namespace {

std::unique_ptr<ExtentItems> extent_items(Context& c) {
  if (c.repairs()) return std::make_unique<ExtentRepair>(c);
  return std::make_unique<ExtentCheck>(c);
}

class InodePass {
 public:
  explicit InodePass(Context& context)
      : c_(context), directory_(context), attributes_(context), extents_(extent_items(context)) {}

  void item(const meta::Item& item) {
    c_.report.items += 1;
    if (item.key.owner == 0 || item.key.owner > kMaxInode) return c_.stray_item(item.key);
    if (InodeNo{item.key.owner} != now_.no) begin(InodeNo{item.key.owner}, item);
    dispatch(item);
  }
  void finish() {
    end();
    if (!has_root_ && c_.report.complete) missing_root();
    extents_->finish();
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  }

 private:
  // What has passed by of one inode.
  struct State {
    InodeNo no;
    std::optional<InodeRecord> record;  // a repair always has one
    bool is_changed = false;
    std::uint64_t pieces = 0, target_bytes = 0;
    bool has_misfit_piece = false;
    std::optional<std::uint64_t> inline_bytes;
    bool has_reference_counts = false;
    std::uint64_t counted_to = 0;  // the block after the last reference count
  };

  // ---- the inode's own item ----

  void begin(InodeNo no, const meta::Item& first) {
    end();
    now_.no = no;
    c_.last_inode = std::max(c_.last_inode, no.value);
    const bool is_record =
        first.key.kind == static_cast<std::uint8_t>(Kind::kInode) && first.key.offset == 0;
    const auto record = is_record ? decode_inode(first.value) : fail(Errc::kItemBad);
    if (record) {
      now_.record = *record;
      if (c_.repairs()) correct_mode();
    } else {
      missing_record(first, is_record);
    }
    if (no == kRootInode && now_.record) check_root();
    if (now_.record) count_inode();
    directory_.begin(no, now_.record);
    attributes_.begin(no, may_be_deleted_in_part());
    extents_->begin(no, now_.record);
  }

  void count_inode() {
    c_.report.inodes += 1;
    if (type() == kDirectoryType) c_.report.directories += 1;
    if (type() == kSharedType) c_.report.shared_inodes += 1;
  }

  void missing_record(const meta::Item& first, bool is_damaged) {
    if (!c_.repairs()) {
      if (is_damaged) return c_.bad_item(first.key);
      return c_.problem("Inode {} does not exist, but has items (the first is of kind {})",
                        now_.no.value, first.key.kind);
    }
    now_.record = LostRecord(c_, now_.no).rebuilt();
    now_.is_changed = true;
    c_.repaired("Inode {}: its record was lost, and is rebuilt: a {} of {} bytes", now_.no.value,
                type_name(type()), now_.record->size);
  }

  void correct_mode() {
    const std::uint32_t mode = LostRecord(c_, now_.no).mode_beside(*now_.record);
    if (mode == now_.record->mode) return;
    c_.repaired("Inode {} called itself a {}, but is a {}: corrected", now_.no.value,
                type_name(type()), type_name(static_cast<std::uint8_t>(mode >> 12)));
    now_.record->mode = mode;
    now_.is_changed = true;
  }

  void check_root() {
    has_root_ = true;
    InodeRecord& r = *now_.record;
    if (type() != kDirectoryType &&
        c_.finding(Action::kRebuild, "The root (inode {}) is no directory", now_.no.value)) {
      r = new_root(c_);
      now_.is_changed = true;
    }
    if (r.parent != kRootInode &&
        c_.finding(Action::kCorrect, "The root's parent is inode {} instead of itself",
                   r.parent.value)) {
      r.parent = kRootInode;
      now_.is_changed = true;
    }
  }

  void missing_root() {
    has_root_ = true;
    if (!c_.finding(Action::kRebuild, "The root directory (inode {}) does not exist",
                    kRootInode.value)) {
      return;
    }
    c_.put_inode(kRootInode, new_root(c_));
    c_.inodes.push_back({kRootInode, kRootInode, 2, kDirectoryType});
  }

  // ---- the other items ----

  std::uint8_t type() const { return type_of(*now_.record); }

  void dispatch(const meta::Item& item) {
    switch (static_cast<Kind>(item.key.kind)) {
      case Kind::kInode:
        if (item.key.offset != 0) c_.bad_item(item.key);
        return;
      case Kind::kDentryName:
        if (may_have(kDirectoryType, "names", item.key)) directory_.names(item);
        return;
      case Kind::kDentrySeq:
        if (may_have(kDirectoryType, "names by cookie", item.key)) directory_.by_cookie(item);
        return;
      case Kind::kSymlink:
        if (may_have(kSymlinkType, "a target", item.key)) symlink_item(item);
        return;
      case Kind::kXattrName: return attributes_.name(item);
      case Kind::kXattrValue: return attributes_.value(item);
      case Kind::kInline:
        if (may_have(kRegularType, "inline data", item.key)) inline_item(item);
        return;
      case Kind::kExtent:
        if (may_map_blocks(item)) extents_->item(item);
        return;
      case Kind::kReferenceCount:
        if (may_have(kSharedType, "reference counts", item.key)) reference_count_item(item);
        return;
      default: return c_.bad_item(item.key);
    }
  }

  // False: the inode's type has no such items, and a repair has erased it.
  bool may_have(std::uint8_t wanted, std::string_view what, const meta::Key& key) {
    if (!now_.record || type() == wanted) return true;
    const auto is_file = [](std::uint8_t t) { return t == kRegularType || t == kSharedType; };
    if (c_.repairs() && is_file(type()) && is_file(wanted)) return true;  // decided later
    if (!c_.finding(Action::kRemove, "Inode {} is a {}, but has {}", now_.no.value,
                    type_name(type()), what)) {
      return true;
    }
    c_.erase(key);
    return false;
  }
  bool may_map_blocks(const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    const bool is_reference = record && std::holds_alternative<ReferenceRecord>(*record);
    if (!is_reference && now_.record && type() == kSharedType) return true;
    return may_have(kRegularType, is_reference ? "a reference" : "an extent", item.key);
  }

  // All pieces but the last are full: so a piece may follow only full ones.
  void symlink_item(const meta::Item& item) {
    const bool is_full = now_.target_bytes == now_.pieces * meta::kMaxValueBytes;
    if (item.key.offset != now_.pieces || !is_full || item.value.empty()) {
      now_.has_misfit_piece = true;
    }
    if (now_.has_misfit_piece && c_.repairs()) {
      c_.repaired("Symbolic link {}: piece {} of its target does not fit: removed", now_.no.value,
                  item.key.offset);
      return c_.erase(item.key);
    }
    now_.pieces += 1;
    now_.target_bytes += item.value.size();
  }

  void inline_item(const meta::Item& item) {
    if (item.key.offset != 0 || item.value.empty()) return c_.bad_item(item.key);
    now_.inline_bytes = item.value.size();
  }

  void reference_count_item(const meta::Item& item) {
    now_.has_reference_counts = true;
    const auto record = decode_reference_count(item.value);
    const std::uint64_t block = item.key.offset;
    if (!record || block > blocks_for(kMaxFileBytes) - record->blocks) {
      return c_.bad_item(item.key);
    }
    if (block < now_.counted_to) {
      c_.problem("Inode {}: the reference count at block {} overlaps the one before it",
                 now_.no.value, block);
    }
    now_.counted_to = std::max(now_.counted_to, block + record->blocks);
  }

  // ---- when all items of an inode have passed by ----

  void end() {
    const bool stays = now_.no.value != 0 && now_.record && end_record(extents_->end());
    if (stays) c_.inodes.push_back({now_.no, now_.record->parent, now_.record->links, type()});
    now_ = {};
  }

  // Large inodes are deleted in several transactions, their own item in the last one: a crash in
  // between leaves an inode with less than it says. A repair does not rely on it: whether the inode
  // is to be deleted shows when all names are known.
  bool may_be_deleted_in_part() const {
    return !c_.repairs() && c_.orphan_work(now_.no) == OrphanRecord::Work::kDelete;
  }

  // False when the inode is removed.
  bool end_record(const ExtentTotals& extents) {
    if (type() == kDirectoryType) directory_.end(*now_.record);
    if (type() == kSymlinkType && !may_be_deleted_in_part() && !end_symlink()) return false;
    if (!may_be_deleted_in_part()) attributes_.end(*now_.record);
    end_contents(extents);
    if (type() == kSharedType) end_shared(extents);
    if (now_.is_changed) c_.put_inode(now_.no, *now_.record);
    if (now_.has_reference_counts) c_.counted.push_back(now_.no);
    return true;
  }

  bool end_symlink() {
    InodeRecord& r = *now_.record;
    const bool is_whole = now_.target_bytes == r.size && r.size > 0;
    if (is_whole && (c_.repairs() || !now_.has_misfit_piece)) return true;
    const Action action = now_.target_bytes > 0 ? Action::kTruncate : Action::kRemove;
    if (!c_.finding(action,
                    "Symbolic link {} of {} bytes has a target of {} bytes in {} pieces that do "
                    "not fit",
                    now_.no.value, r.size, now_.target_bytes, now_.pieces)) {
      return true;
    }
    if (now_.target_bytes > 0) {
      r.size = now_.target_bytes;
      now_.is_changed = true;
      return true;
    }
    attributes_.erase_all();
    c_.erase(key_of(now_.no, Kind::kInode));
    return false;
  }

  void end_contents(const ExtentTotals& extents) {
    const InodeRecord& r = *now_.record;
    if (r.blocks != extents.blocks && !(may_be_deleted_in_part() && r.blocks > extents.blocks)) {
      c_.problem("Inode {} counts {} blocks, but its extents map {}", now_.no.value, r.blocks,
                 extents.blocks);
    }
    // Readers see the extent.
    if (now_.inline_bytes && extents.maps_first_block &&
        c_.finding(Action::kRemove,
                   "Inode {} has both inline data and an extent for its first block",
                   now_.no.value)) {
      c_.erase(key_of(now_.no, Kind::kInline));
      now_.inline_bytes.reset();
    }
    // What lies past the end of an orphan is to be freed.
    if (!c_.repairs() && (c_.orphan_work(now_.no) || r.mode == kSharedMode)) return;
    if (now_.inline_bytes && *now_.inline_bytes > r.size &&
        c_.finding(Action::kTruncate, "Inode {} has {} bytes, but {} bytes of inline data",
                   now_.no.value, r.size, *now_.inline_bytes)) {
      truncate_inline(r.size);
    }
    if (extents.end > blocks_for(r.size)) {
      c_.problem("Inode {} has {} bytes, but an extent reaches to block {}", now_.no.value, r.size,
                 extents.end);
    }
  }

  void truncate_inline(std::uint64_t size) {
    const meta::Key key = key_of(now_.no, Kind::kInline);
    const auto value = c_.get(key);
    if (!value || size == 0) return c_.erase(key);
    c_.put(key, meta::bytes_of(*value).first(size));
  }

  void end_shared(const ExtentTotals& extents) {
    if (attributes_.count() > 0) {
      c_.problem("Inode {} is a shared-extent inode, but has attributes", now_.no.value);
    }
    if (extents.blocks == 0) c_.problem("Shared-extent inode {} has no blocks", now_.no.value);
    if (now_.record->size < extents.end * kBlockBytes) {
      c_.problem("Shared-extent inode {} has {} bytes, but its last block ends at {}",
                 now_.no.value,
                 now_.record->size, extents.end * kBlockBytes);
    }
  }

  Context& c_;
  DirectoryItems directory_;
  AttributeItems attributes_;
  std::unique_ptr<ExtentItems> extents_;
  State now_;
  bool has_root_ = false;
};

}  // namespace

void inodes_pass(Context& c) {
  InodePass pass(c);
  c.visit(kFirstKey, kLastInodeKey, "inodes", [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
}

}  // namespace lazyfs::fsck
