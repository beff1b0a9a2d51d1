// The items that belong to inodes, in one pass in the order of their keys. Only a small state is
// held of each inode while its items are read. A repair removes impossible items, corrects facts
// that are stored twice, and rebuilds a lost record from the inode's items. It corrects the inodes'
// counters later: recount.cc.
#include <algorithm>

#include "fsck/attribute_items.h"
#include "fsck/directory_items.h"
#include "fsck/extent_items.h"
#include "fsck/inline_items.h"
#include "fsck/lost_record.h"
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

constexpr const char kNoRoot[] = "The root directory (inode {}) does not exist";

class InodePass {
 public:
  explicit InodePass(Context& context)
      : c_(context),
        directory_(context),
        attributes_(context),
        inline_(context),
        extents_(context) {}

  void item(const meta::Item& item) {
    c_.report.items += 1;
    if (item.key.owner == 0 || item.key.owner > kMaxInode) return c_.stray_item(item.key);
    if (InodeNo{item.key.owner} != now_.no) begin(InodeNo{item.key.owner}, item);
    dispatch(item);
  }
  void finish() {
    end();
    if (!has_root_ && c_.report.complete) missing_root();
    extents_.finish();
    std::ranges::sort(c_.inodes, {}, &InodeFacts::inode);
  }

 private:
  // What was read of one inode so far.
  struct State {
    InodeNo no;
    InodeRecord record;
    bool is_mended = false;   // InodeFacts::is_mended
    bool is_rebuilt = false;  // `record` is made from the items, and counts nothing
    bool is_changed = false;
    bool is_misfit = false;   // Context::misfits
    std::uint64_t pieces = 0, target_bytes = 0;
    std::uint64_t fitting_bytes = 0;  // of the pieces up to the first that does not fit
    bool has_misfit_piece = false;
    std::uint64_t counted_to = 0;  // the block after the last reference count
  };

  // ---- the inode's own item ----

  void begin(InodeNo no, const meta::Item& first) {
    end();
    now_.no = no;
    c_.highest_inode = no.value;
    c_.last_inode = std::max(c_.last_inode, no.value);
    const bool is_record =
        first.key.kind == static_cast<std::uint8_t>(Kind::kInode) && first.key.offset == 0;
    const auto record = is_record ? decode_inode(first.value) : fail(Errc::kItemBad);
    if (record) {
      now_.record = *record;
      correct_mode();
      correct_flags();
    } else {
      rebuild_record(first, is_record);
    }
    if (no == kRootInode) check_root();
    count_inode();
    directory_.begin(no, now_.is_rebuilt ? std::nullopt : std::optional(now_.record));
    attributes_.begin(no, may_be_deleted_in_part());
    inline_.begin(no);
    extents_.begin(no, now_.record);
  }

  void count_inode() {
    c_.report.inodes += 1;
    if (type() == kDirectoryType) c_.report.directories += 1;
    if (type() == kSharedType) c_.report.shared_inodes += 1;
    c_.progress("inodes", c_.inode_progress());
  }

  void rebuild_record(const meta::Item& first, bool is_damaged) {
    const bool is_root = now_.no == kRootInode;
    now_.record = is_root ? new_root(c_) : LostRecord(c_, now_.no).rebuilt();
    now_.is_mended = now_.is_rebuilt = true;
    now_.is_changed = c_.repairs();
    if (is_damaged) {
      c_.bad_item_finding(Action::kRebuild, first.key);
    } else if (is_root) {
      c_.finding(Action::kRebuild, kNoRoot, now_.no.value);
    } else {
      c_.finding(Action::kRebuild,
                 "Inode {} does not exist, but has items (the first is of kind {})", now_.no.value,
                 first.key.kind);
    }
    if (!c_.repairs()) return;
    c_.repaired("Inode {}: it is a {} of {} bytes, by its items", now_.no.value, type_name(type()),
                now_.record.size);
  }

  void correct_mode() {
    const std::uint32_t mode = LostRecord(c_, now_.no).mode_beside(now_.record);
    if (mode == now_.record.mode) return;
    c_.finding(Action::kCorrect, "Inode {} calls itself a {}, but its items are not those of one",
               now_.no.value, type_name(type()));
    now_.record.mode = mode;
    now_.is_mended = true;
    now_.is_changed = c_.repairs();
  }

  // Clears flags that the inode cannot have. No program could clear them, because it cannot open
  // such an inode.
  void correct_flags() {
    constexpr std::uint32_t kOfFiles = fs::kImmutable | fs::kAppendOnly;
    if (type() == kRegularType || type() == kDirectoryType) return;
    if ((now_.record.flags & kOfFiles) == 0) return;
    c_.finding(Action::kCorrect, "Inode {} is a {}, but immutable or append-only", now_.no.value,
               type_name(type()));
    now_.record.flags &= ~kOfFiles;
    now_.is_changed |= c_.repairs();
  }

  void check_root() {
    has_root_ = true;
    InodeRecord& r = now_.record;
    if (type() != kDirectoryType) {
      c_.finding(Action::kRebuild, "The root (inode {}) is no directory", now_.no.value);
      r = new_root(c_);
      now_.is_mended = now_.is_rebuilt = true;
      now_.is_changed = c_.repairs();
    }
    if (r.parent != kRootInode) {
      c_.finding(Action::kCorrect, "The root's parent is inode {} instead of itself",
                 r.parent.value);
      r.parent = kRootInode;
      now_.is_changed = c_.repairs();
    }
  }

  void missing_root() {
    has_root_ = true;
    if (c_.finding(Action::kRebuild, kNoRoot, kRootInode.value)) {
      c_.put_inode(kRootInode, new_root(c_));
    }
    c_.inodes.push_back({kRootInode, kRootInode, 2, kDirectoryType, true, true});
  }

  // ---- the other items ----

  std::uint8_t type() const { return type_of(now_.record); }

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
        if (may_have(kRegularType, "inline data", item.key)) inline_.item(item);
        return;
      case Kind::kExtent:
        inline_.extent(item);
        if (may_map_blocks(item)) extents_.item(item);
        return;
      case Kind::kReferenceCount:
        if (may_have(kSharedType, "reference counts", item.key)) reference_count_item(item);
        return;
      default: return c_.bad_item(item.key);
    }
  }

  // False: the inode's type has no such items, and a repair has erased it.
  bool may_have(std::uint8_t wanted, std::string_view what, const meta::Key& key) {
    if (type() == wanted) return true;
    const auto is_file = [](std::uint8_t t) { return t == kRegularType || t == kSharedType; };
    if (is_file(type()) && is_file(wanted)) {  // decided later: shared_inodes.cc
      now_.is_misfit = true;
      return true;
    }
    if (c_.finding(Action::kRemove, "Inode {} is a {}, but has {}", now_.no.value,
                   type_name(type()), what)) {
      c_.erase(key);
    }
    return false;
  }
  bool may_map_blocks(const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    const bool is_reference = record && std::holds_alternative<ReferenceRecord>(*record);
    if (!is_reference && type() == kSharedType) return true;
    return may_have(kRegularType, is_reference ? "a reference" : "an extent", item.key);
  }

  // All pieces but the last are full: so a piece may follow only full ones.
  void symlink_item(const meta::Item& item) {
    const bool is_full = now_.target_bytes == now_.pieces * meta::kMaxValueBytes;
    if (item.key.offset != now_.pieces || !is_full || item.value.empty()) {
      now_.has_misfit_piece = true;
    }
    now_.pieces += 1;
    now_.target_bytes += item.value.size();
    if (!now_.has_misfit_piece) {
      now_.fitting_bytes += item.value.size();
    } else if (c_.repairs()) {
      c_.erase(item.key);
    }
  }

  void reference_count_item(const meta::Item& item) {
    const auto record = decode_reference_count(item.value);
    const std::uint64_t block = item.key.offset;
    if (!record || block > blocks_for(kMaxFileBytes) - record->blocks) {
      return c_.bad_item(item.key);
    }
    if (block < now_.counted_to) {
      c_.finding(Action::kCorrect,
                 "Inode {}: the reference count at block {} overlaps the one before it",
                 now_.no.value, block);
    }
    now_.counted_to = std::max(now_.counted_to, block + record->blocks);
  }

  // ---- when all items of an inode have passed by ----

  void end() {
    if (now_.no.value != 0 && end_record(extents_.end())) {
      const InodeRecord& r = now_.record;
      c_.inodes.push_back(
          {now_.no, r.parent, r.links, type(), now_.is_mended, now_.is_rebuilt});
      if (now_.is_misfit) c_.misfits.push_back(now_.no);
    }
    now_ = {};
  }

  // Large inodes are deleted in several transactions, and their own item in the last one. So a
  // crash may leave an inode with fewer items than its record counts. A repair does not assume
  // this: only when all names are known it is clear whether the inode is to be deleted.
  bool may_be_deleted_in_part() const {
    return !c_.repairs() && c_.orphan_work(now_.no) == OrphanRecord::Work::kDelete;
  }

  // False when the inode is removed.
  bool end_record(const ExtentTotals& extents) {
    const bool is_counted = !now_.is_rebuilt;
    if (type() == kDirectoryType && is_counted) directory_.end(now_.record);
    if (type() == kSymlinkType && !may_be_deleted_in_part() && !end_symlink()) return false;
    if (!may_be_deleted_in_part()) attributes_.end(is_counted ? &now_.record : nullptr);
    if (is_counted) compare_blocks(extents);
    if (type() != kSharedType) end_contents(extents);
    now_.is_misfit |= type() == kSharedType && attributes_.count() > 0;
    if (now_.is_changed) c_.put_inode(now_.no, now_.record);
    return true;
  }

  bool end_symlink() {
    InodeRecord& r = now_.record;
    const bool is_whole =
        now_.target_bytes == r.size || (now_.is_rebuilt && now_.target_bytes > 0);
    const bool is_right = is_whole && now_.target_bytes > 0 && !now_.has_misfit_piece;
    const Action action = now_.fitting_bytes > 0 ? Action::kTruncate : Action::kRemove;
    if (!is_right) {
      c_.finding(action,
                 "Symbolic link {} of {} bytes has a target of {} bytes in {} pieces that do not "
                 "fit",
                 now_.no.value, r.size, now_.target_bytes, now_.pieces);
    }
    if (now_.fitting_bytes > 0) {
      if (!is_right && c_.repairs() && now_.fitting_bytes < r.size) {
        c_.lost_other(now_.no, "perhaps the end of its target");
      }
      now_.is_changed |= c_.repairs() && r.size != now_.fitting_bytes;
      r.size = now_.fitting_bytes;
      return true;
    }
    if (c_.repairs()) {
      attributes_.erase_all();
      c_.erase(key_of(now_.no, Kind::kInode));
    }
    return false;
  }

  void compare_blocks(const ExtentTotals& extents) {
    const InodeRecord& r = now_.record;
    if (r.blocks == extents.blocks) return;
    if (may_be_deleted_in_part() && r.blocks > extents.blocks) return;
    c_.finding(Action::kCorrect, "Inode {} counts {} blocks, but its extents map {}",
               now_.no.value, r.blocks, extents.blocks);
  }

  void end_contents(const ExtentTotals& extents) {
    const InodeRecord& r = now_.record;
    inline_.end_place();
    // What lies past the end of an orphan is to be freed.
    const bool is_orphan = c_.orphan_work(now_.no).has_value();
    if (is_orphan && !c_.repairs()) return;
    inline_.end_size(r.size);
    // A file that others refer to may turn out to be a shared-extent inode: shared_inodes.cc.
    if (is_orphan || c_.is_target(now_.no) || extents.end <= blocks_for(r.size)) return;
    c_.finding(Action::kTruncate, "Inode {} has {} bytes, but an extent reaches to block {}",
               now_.no.value, r.size, extents.end);
  }

  Context& c_;
  DirectoryItems directory_;
  AttributeItems attributes_;
  InlineItems inline_;
  ExtentItems extents_;
  State now_;
  bool has_root_ = false;
};

}  // namespace

void inodes_pass(Context& c) {
  InodePass pass(c);
  c.progress_now("inodes", c.inode_progress());
  c.visit(kFirstKey, kLastInodeKey, "", [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
  c.progress_now("inodes", c.inode_progress());
}

}  // namespace lazyfs::fsck
