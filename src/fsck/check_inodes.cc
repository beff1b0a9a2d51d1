// The items that belong to inodes, in one pass in the order of their keys. Of each inode only a
// small state is held while its items go by.
#include <algorithm>
#include <map>
#include <set>

#include "fsck/check_extents.h"

namespace lazyfs::fsck {
namespace {

// Attributes that Linux can list: 64 KiB of names. A damaged inode with more is not held in memory.
constexpr std::size_t kMaxHeldXattrs = 65536;

class InodePass {
 public:
  explicit InodePass(CheckContext& context) : c_(context), extents_(context) {}

  void item(const meta::Item& item) {
    c_.report.items += 1;
    if (item.key.owner == 0 || item.key.owner > kMaxInode) {
      return c_.problem("Item (owner {:#x}, kind {}, offset {}) belongs to nothing.",
                        item.key.owner, item.key.kind, item.key.offset);
    }
    if (InodeNo{item.key.owner} != now_.no) begin(InodeNo{item.key.owner});
    dispatch(item);
  }
  void finish() {
    if (now_.no.value != 0) end();
    now_ = {};
  }

 private:
  struct Xattr {
    std::uint32_t value_bytes = 0;
    std::uint32_t found_bytes = 0;
  };
  // What has gone by of one inode.
  struct State {
    InodeNo no;
    std::optional<InodeRecord> record;
    bool damaged = false;  // the inode's own item is there, but cannot be decoded
    std::uint64_t names = 0, cookies = 0, subdirectories = 0, last_cookie = 0;
    std::uint64_t pieces = 0, target_bytes = 0;
    bool pieces_broken = false;
    std::map<std::uint64_t, Xattr> xattrs;  // by id
    std::set<std::string> xattr_names;
    std::uint64_t xattr_count = 0;
    std::optional<std::uint64_t> inline_bytes;
    std::uint64_t counted_to = 0;  // the block behind the last share count
  };

  void begin(InodeNo inode) {
    finish();
    now_.no = inode;
    extents_.begin(inode);
  }

  void dispatch(const meta::Item& item) {
    if (!now_.record && !now_.damaged && item.key.kind != static_cast<std::uint8_t>(Kind::kInode)) {
      c_.problem("Inode {} does not exist, but has items (the first is of kind {}).", now_.no.value,
                 item.key.kind);
      now_.damaged = true;  // said once
    }
    switch (static_cast<Kind>(item.key.kind)) {
      case Kind::kInode: return inode_item(item);
      case Kind::kDentryName: return name_item(item);
      case Kind::kDentrySeq: return cookie_item(item);
      case Kind::kSymlink: return symlink_item(item);
      case Kind::kXattrName: return xattr_name_item(item);
      case Kind::kXattrValue: return xattr_value_item(item);
      case Kind::kInline: return inline_item(item);
      case Kind::kExtent: return extents_.item(item, now_.record);
      case Kind::kShareCount: return share_count_item(item);
      default: return c_.bad_item(item.key);
    }
  }

  // Whether the inode's type allows such items; says so when not.
  bool must_be(std::uint8_t type, std::string_view what) {
    if (!now_.record) return true;
    const auto own = static_cast<std::uint8_t>(now_.record->mode >> 12);
    if (own == type) return true;
    c_.problem("Inode {} is a {}, but has {}.", now_.no.value, type_name(own), what);
    return false;
  }

  void inode_item(const meta::Item& item) {
    const auto record = decode_inode(item.value);
    if (!record || item.key.offset != 0) {
      now_.damaged = true;
      return c_.bad_item(item.key);
    }
    now_.record = *record;
    const auto type = static_cast<std::uint8_t>(record->mode >> 12);
    c_.report.inodes += 1;
    if (type == kDirectoryType) c_.report.directories += 1;
    if (type == kSharedType) c_.report.shared_inodes += 1;
    c_.inodes.push_back({now_.no, record->parent, record->links, type});
    if (c_.counters && now_.no.value >= c_.counters->next_inode) {
      c_.problem("Inode {} exists, but the next number to be given out is {}.", now_.no.value,
                 c_.counters->next_inode);
    }
  }

  void name_item(const meta::Item& item) {
    const auto entries = decode_dentries(item.value);
    if (!entries) return c_.bad_item(item.key);
    must_be(kDirectoryType, "names");
    for (auto entry = entries->begin(); entry != entries->end(); ++entry) {
      one_name(*entry, item.key.offset);
      const bool twice = std::any_of(entries->begin(), entry, [&](const DentryRecord& other) {
        return other.name == entry->name;
      });
      if (twice) c_.problem("Directory {} holds the name '{}' twice.", now_.no.value, entry->name);
    }
  }

  void one_name(const DentryRecord& entry, std::uint64_t hash) {
    now_.names += 1;
    c_.report.names += 1;
    if (entry.type == kDirectoryType) now_.subdirectories += 1;
    c_.names.push_back({entry.inode, now_.no, entry.type});
    if (name_hash(entry.name, c_.name_seed) != hash) {
      c_.problem("Directory {}: the name '{}' stands under the wrong hash {:#x}.", now_.no.value,
                 entry.name, hash);
    }
    if (now_.record && entry.cookie >= now_.record->next_cookie) {
      c_.problem("Directory {}: the name '{}' has cookie {}, but the next one is {}.",
                 now_.no.value, entry.name, entry.cookie, now_.record->next_cookie);
    }
    const auto twin = c_.get(key_of(now_.no, Kind::kDentrySeq, entry.cookie));
    const auto decoded = twin ? decode_dentry(*twin) : fail(Errc::kItemBad);
    if (!decoded || *decoded != entry) {
      c_.problem("Directory {}: the name '{}' has no equal entry under cookie {}.", now_.no.value,
                 entry.name, entry.cookie);
    }
  }

  void cookie_item(const meta::Item& item) {
    now_.cookies += 1;
    const auto entry = decode_dentry(item.value);
    if (!entry) return c_.bad_item(item.key);
    must_be(kDirectoryType, "names by cookie");
    if (entry->cookie != item.key.offset) {
      c_.problem("Directory {}: the entry '{}' under cookie {} calls itself {}.", now_.no.value,
                 entry->name, item.key.offset, entry->cookie);
    }
    const auto twin =
        c_.get(key_of(now_.no, Kind::kDentryName, name_hash(entry->name, c_.name_seed)));
    const auto decoded = twin ? decode_dentries(*twin) : fail(Errc::kItemBad);
    if (!decoded || std::ranges::find(*decoded, *entry) == decoded->end()) {
      c_.problem("Directory {}: the entry '{}' under cookie {} has no equal one under its name.",
                 now_.no.value, entry->name, item.key.offset);
    }
  }

  void symlink_item(const meta::Item& item) {
    must_be(kSymlinkType, "a target");
    // All pieces but the last are full: so a piece may follow only full ones.
    const bool full = now_.target_bytes == now_.pieces * meta::kMaxValueBytes;
    if (item.key.offset != now_.pieces || !full || item.value.empty()) now_.pieces_broken = true;
    now_.pieces += 1;
    now_.target_bytes += item.value.size();
  }

  void xattr_name_item(const meta::Item& item) {
    now_.xattr_count += 1;
    const auto record = decode_xattr(item.value);
    if (!record || item.key.offset >= kXattrIdEnd) return c_.bad_item(item.key);
    if (now_.xattrs.size() >= kMaxHeldXattrs) {
      return c_.problem("Inode {} has more attributes than can be.", now_.no.value);
    }
    now_.xattrs[item.key.offset] = {record->value_bytes, 0};
    if (!now_.xattr_names.insert(record->name).second) {
      c_.problem("Inode {} has the attribute '{}' twice.", now_.no.value, record->name);
    }
  }

  void xattr_value_item(const meta::Item& item) {
    const std::uint64_t id = item.key.offset >> 8, piece = item.key.offset & 255;
    const auto xattr = now_.xattrs.find(id);
    if (xattr == now_.xattrs.end()) {
      if (is_being_deleted()) return;
      return c_.problem("Inode {} has piece {} of the value of attribute {}, which has no name.",
                        now_.no.value, piece, id);
    }
    Xattr& x = xattr->second;
    const std::uint64_t due =
        std::min<std::uint64_t>(x.value_bytes - x.found_bytes, meta::kMaxValueBytes);
    if (x.found_bytes != piece * meta::kMaxValueBytes || item.value.size() != due || due == 0) {
      c_.problem("Inode {}: piece {} of the value of attribute {} is of the wrong length or place.",
                 now_.no.value, piece, id);
    }
    x.found_bytes += static_cast<std::uint32_t>(
        std::min<std::uint64_t>(item.value.size(), x.value_bytes - x.found_bytes));
  }

  void inline_item(const meta::Item& item) {
    if (item.key.offset != 0 || item.value.empty()) return c_.bad_item(item.key);
    must_be(kRegularType, "inline data");
    now_.inline_bytes = item.value.size();
  }

  void share_count_item(const meta::Item& item) {
    const auto record = decode_share_count(item.value);
    const std::uint64_t block = item.key.offset;
    if (!record || block > blocks_for(kMaxFileBytes) - record->blocks) {
      return c_.bad_item(item.key);
    }
    must_be(kSharedType, "share counts");
    if (block < now_.counted_to) {
      c_.problem("Inode {}: the share count at block {} overlaps the one before it.", now_.no.value,
                 block);
    }
    now_.counted_to = std::max(now_.counted_to, block + record->blocks);
  }

  // ---- when all items of an inode have gone by ----

  void end() {
    const ExtentTotals extents = extents_.end();
    if (!now_.record) return;
    const InodeRecord& record = *now_.record;
    const auto type = static_cast<std::uint8_t>(record.mode >> 12);
    if (type == kDirectoryType) end_directory(record);
    if (type == kSymlinkType && !is_being_deleted()) end_symlink(record);
    if (!is_being_deleted()) end_xattrs(record);
    end_contents(record, extents);
    if (type == kSharedType) end_shared(record, extents);
  }

  // Large inodes go in several batches, their own item with the last: a crash in between leaves it
  // with less than it says.
  bool is_being_deleted() const { return c_.orphan_work(now_.no) == OrphanRecord::Work::kDelete; }

  void end_directory(const InodeRecord& record) {
    if (record.entries != now_.names) {
      c_.problem("Directory {} counts {} entries, but has {} names.", now_.no.value, record.entries,
                 now_.names);
    }
    if (now_.cookies != now_.names) {
      c_.problem("Directory {} has {} names, but {} entries by cookie.", now_.no.value, now_.names,
                 now_.cookies);
    }
    // An orphaned directory has no links left, and nothing in it.
    const std::uint64_t links = record.links == 0 && now_.names == 0 ? 0 : 2 + now_.subdirectories;
    if (record.links != links) {
      c_.problem("Directory {} has link count {}, but it should be {} for {} subdirectories.",
                 now_.no.value, record.links, links, now_.subdirectories);
    }
    if (record.size != 0) {
      c_.problem("Directory {} has size {} where 0 is due.", now_.no.value, record.size);
    }
  }

  void end_symlink(const InodeRecord& record) {
    if (now_.pieces_broken || now_.target_bytes != record.size || record.size == 0) {
      c_.problem(
          "Symbolic link {} of {} bytes has a target of {} bytes in {} pieces that do not fit.",
          now_.no.value, record.size, now_.target_bytes, now_.pieces);
    }
  }

  void end_xattrs(const InodeRecord& record) {
    if (record.xattrs != now_.xattr_count) {
      c_.problem("Inode {} counts {} attributes, but has {}.", now_.no.value, record.xattrs,
                 now_.xattr_count);
    }
    for (const auto& [id, x] : now_.xattrs) {
      if (x.found_bytes != x.value_bytes) {
        c_.problem("Inode {}: attribute {} has {} bytes, but {} of them are there.", now_.no.value,
                   id, x.value_bytes, x.found_bytes);
      }
    }
  }

  void end_contents(const InodeRecord& record, const ExtentTotals& extents) {
    const bool may_be_fewer = is_being_deleted() && record.blocks > extents.blocks;
    if (record.blocks != extents.blocks && !may_be_fewer) {
      c_.problem("Inode {} counts {} blocks, but its extents map {}.", now_.no.value, record.blocks,
                 extents.blocks);
    }
    if (now_.inline_bytes && extents.maps_first_block) {
      c_.problem("Inode {} has both inline data and an extent for its first block.", now_.no.value);
    }
    const auto work = c_.orphan_work(now_.no);
    if (work || record.mode == kSharedMode) return;  // what lies behind the end is to be freed
    if (now_.inline_bytes && *now_.inline_bytes > record.size) {
      c_.problem("Inode {} has {} bytes, but {} bytes of inline data.", now_.no.value, record.size,
                 *now_.inline_bytes);
    }
    if (extents.end > blocks_for(record.size)) {
      c_.problem("Inode {} has {} bytes, but an extent reaches to block {}.", now_.no.value,
                 record.size, extents.end);
    }
  }

  void end_shared(const InodeRecord& record, const ExtentTotals& extents) {
    if (now_.xattr_count > 0) {
      c_.problem("Inode {} is a shared inode, but has attributes.", now_.no.value);
    }
    if (extents.blocks == 0) c_.problem("Shared inode {} has no blocks.", now_.no.value);
    if (record.size < extents.end * kBlockBytes) {
      c_.problem("Shared inode {} has {} bytes, but its last block ends at {}.", now_.no.value,
                 record.size, extents.end * kBlockBytes);
    }
  }

  CheckContext& c_;
  ExtentPass extents_;
  State now_;
};

}  // namespace

void check_inodes(CheckContext& c) {
  InodePass pass(c);
  c.visit(kFirstKey, {kVolumeOwner - 1, 255, meta::kMaxOffset}, "inodes",
          [&](const meta::Item& item) { pass.item(item); });
  pass.finish();
}

}  // namespace lazyfs::fsck
