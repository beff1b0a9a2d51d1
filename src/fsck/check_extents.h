// One inode's extents and references; extents against bands and append logs.
#pragma once

#include "fsck/check_context.h"

namespace lazyfs::fsck {

struct ExtentTotals {
  std::uint64_t blocks = 0;
  std::uint64_t end = 0;  // the file block behind the last of them
  bool maps_first_block = false;
};

// begin(), then the inode's extents and references in the order of their file blocks, then end().
class ExtentPass {
 public:
  explicit ExtentPass(CheckContext& context) : c_(context) {}

  void begin(InodeNo inode) {
    inode_ = inode;
    totals_ = {};
  }
  void item(const meta::Item& item, const std::optional<InodeRecord>& record);
  ExtentTotals end() const { return totals_; }

 private:
  void reference(const ReferenceRecord& reference, std::uint8_t type);
  bool check_place(std::uint64_t file_block, const ExtentRecord& extent);
  void check_append_record(std::uint64_t file_block, const ExtentRecord& extent);
  const std::optional<AppendRecord>& append_record(BandAddress at);

  CheckContext& c_;
  InodeNo inode_;
  ExtentTotals totals_;
  // The append record that was looked up last: neighbours often share one.
  BandAddress cached_at_{BandId{~0u}, ~0u};
  std::optional<AppendRecord> cached_;
};

}  // namespace lazyfs::fsck
