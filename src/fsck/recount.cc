// The counters of inodes: entries, links, cookies, blocks, attributes. Everything else is right by
// now, so a repair counts again: findings and its own actions may have changed the numbers.
#include <algorithm>

#include "fsck/directory_entries.h"
#include "fsck/lost_parts.h"
#include "fsck/passes.h"

namespace lazyfs::fsck {
namespace {

class Recount {
 public:
  explicit Recount(Context& context) : c_(context), lost_(context) {}

  void item(const meta::Item& item) {
    if (InodeNo{item.key.owner} != no_) begin(InodeNo{item.key.owner});
    switch (static_cast<Kind>(item.key.kind)) {
      case Kind::kDentryName: return count_names(item);
      case Kind::kDentrySeq: last_cookie_ = item.key.offset; return;
      case Kind::kXattrName: ++xattrs_; return;
      case Kind::kExtent: return count_blocks(item);
      default: return;
    }
  }
  void finish() {
    if (no_.value != 0) end();
    no_ = {};
  }

 private:
  void begin(InodeNo no) {
    finish();
    no_ = no;
    names_ = subdirectories_ = last_cookie_ = blocks_ = end_ = 0;
    xattrs_ = 0;
  }

  void count_names(const meta::Item& item) {
    const auto entries = decode_dentries(item.value);
    if (!entries) return;
    names_ += entries->size();
    for (const DentryRecord& entry : *entries) subdirectories_ += entry.type == kDirectoryType;
  }
  void count_blocks(const meta::Item& item) {
    const auto record = decode_map_record(item.value);
    if (!record) return;
    blocks_ += blocks_of(*record);
    end_ = item.key.offset + blocks_of(*record);
  }

  void end() {
    const auto record = c_.inode(no_);
    if (!record) return;
    InodeRecord right = *record;
    const bool deleted = c_.orphan_work(no_) == OrphanRecord::Work::kDelete;
    const bool is_directory = record->mode >> 12 == kDirectoryType;
    right.links = static_cast<std::uint32_t>(c_.names_of(no_).size());
    if (is_directory) {
      right.links = static_cast<std::uint32_t>(2 + subdirectories_);
      right.entries = names_;
      right.size = 0;
      const bool is_sane = record->next_cookie <= kMaxCookie;
      right.next_cookie = std::max(is_sane ? record->next_cookie : 0, last_cookie_ + 1);
    }
    if (deleted) right.links = 0;
    if (record->mode == kSharedMode) {
      right.links = 1;
      right.size = std::max(right.size, end_ * kBlockBytes);
    }
    right.blocks = blocks_;
    right.xattrs = xattrs_;
    lost_.report(no_, *record, right);
    if (right == *record) return;
    c_.repaired(
        "Inode {}: it counts {} links (was {}), {} entries ({}), {} blocks ({}), "
        "{} bytes ({}), {} attributes ({})", no_.value, right.links, record->links, right.entries,
        record->entries, right.blocks, record->blocks, right.size, record->size, right.xattrs,
        record->xattrs);
    c_.put_inode(no_, right);
  }

  Context& c_;
  LostParts lost_;
  InodeNo no_;
  std::uint64_t names_ = 0, subdirectories_ = 0, last_cookie_ = 0, blocks_ = 0;
  std::uint64_t end_ = 0;  // the block after the last one that is mapped
  std::uint32_t xattrs_ = 0;
};

}  // namespace

void recount(Context& c) {
  Recount count(c);
  c.visit(kFirstKey, kLastInodeKey, "counts", [&](const meta::Item& item) { count.item(item); });
  count.finish();
}

}  // namespace lazyfs::fsck
