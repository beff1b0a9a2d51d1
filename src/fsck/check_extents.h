// One inode's extents and references; extents against bands and append logs.
#pragma once

#include "fsck/extent_items.h"

namespace lazyfs::fsck {

class ExtentCheck final : public ExtentItems {
 public:
  explicit ExtentCheck(Context& context) : c_(context) {}

  void begin(InodeNo inode, const std::optional<InodeRecord>& record) override;
  void item(const meta::Item& item) override;
  ExtentTotals end() const override { return totals_; }

 private:
  void reference(const ReferenceRecord& reference);
  bool check_place(std::uint64_t file_block, const ExtentRecord& extent);
  void check_append_record(std::uint64_t file_block, const ExtentRecord& extent);
  const std::optional<AppendRecord>& append_record(BandAddress at);

  Context& c_;
  InodeNo inode_;
  std::uint8_t type_ = kRegularType;
  ExtentTotals totals_;
  // The append record that was looked up last: neighbours often share one.
  BandAddress cached_at_{BandId{~0u}, ~0u};
  std::optional<AppendRecord> cached_;
};

}  // namespace lazyfs::fsck
