// Finds the parts of an inode that were lost with nodes of the tree, by the counters of its record.
#pragma once

#include <string>
#include <string_view>

#include "fsck/context.h"
#include "fsck/lost_keys.h"

namespace lazyfs::fsck {

// Reports losses only where keys of the inode are in Context::lost, and those of records that the
// repair has made. REQUIRES: everything that can be recovered is.
class LostParts {
 public:
  explicit LostParts(Context& context)
      : c_(context), lost_(context.lost), lost_before_(context.lost_before) {}

  // `was`: the inode's record before the repair corrects what it counts; `is`: afterwards.
  void report(InodeNo inode, const InodeRecord& was, const InodeRecord& is);

 private:
  // Blocks within the file that nothing maps.
  struct Unmapped {
    std::uint64_t blocks = 0;
    std::uint64_t perhaps_lost = 0;  // of these: where an extent may be lost
    std::uint64_t first_lost = 0;
  };

  // ---- of the inode no_ ----
  bool may_be_rebuilt(const InodeRecord& was, const InodeRecord& is) const;
  void record(std::uint8_t type, bool is_certain);
  void contents(const InodeRecord& was, std::uint64_t mapped);
  Unmapped unmapped(std::uint64_t file_blocks);
  bool is_inline_data_lost(std::uint64_t file_bytes);
  void names(std::uint64_t was, std::uint64_t is);
  bool may_be_lost(Kind first, Kind last) const {
    return lost_.overlap(key_of(no_, first), key_of(no_, last, meta::kMaxOffset));
  }
  // A repair restores a name that remains in one of its two places.
  bool may_names_be_lost() const {
    return may_be_lost(Kind::kDentryName, Kind::kDentryName) &&
           may_be_lost(Kind::kDentrySeq, Kind::kDentrySeq);
  }
  void add(std::string_view words);

  Context& c_;
  const LostKeys lost_;
  const LostKeys lost_before_;  // in repairs that were interrupted
  InodeNo no_;
  std::string other_;  // Loss::other
};

}  // namespace lazyfs::fsck
