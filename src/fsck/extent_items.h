// Checks one inode's extents and references, and the extents against the bands that they lie in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "fs/file/extent_map.h"
#include "fsck/context.h"
#include "fsck/lost_keys.h"

namespace lazyfs::fsck {

// Totals of an inode's map, before a repair has changed anything.
struct ExtentTotals {
  std::uint64_t blocks = 0;
  std::uint64_t end = 0;  // the file block after the last of them
};

// begin(), then the inode's extents and references in the order of their file blocks, then end();
// finish() after the last inode.
//
// Blocks that extents claim are added to BandFacts::live. No two extents keep the same block: an
// extent that its append record confirms gets its blocks at once; finish() gives the remaining
// blocks to the others. An extent of which another extent has blocks goes to
// Context::claimed_twice.
class ExtentItems {
 public:
  explicit ExtentItems(Context& context) : c_(context), lost_(context.lost) {}

  void begin(InodeNo inode, const std::optional<InodeRecord>& record);
  void item(const meta::Item& item);
  ExtentTotals end() const { return totals_; }
  void finish();

 private:
  struct Doubtful {
    InodeNo inode;
    std::uint64_t file_block = 0;
    std::uint32_t blocks = 0;
  };

  // A check counts the references during this pass; a repair counts them after its changes of
  // references.
  bool counts_references() const { return type_ == kRegularType && !c_.repairs(); }
  bool has_place(std::uint64_t file_block, const ExtentRecord& extent);
  void remove(std::uint64_t file_block, const ExtentRecord& extent);
  void end_last_at(std::uint64_t file_block, std::string_view what);
  void cut_last();
  void place(std::uint64_t file_block, const ExtentRecord& extent);
  bool is_confirmed(std::uint64_t file_block, const ExtentRecord& extent);
  const std::optional<AppendRecord>& append_record(BandAddress at);
  std::optional<std::uint32_t> first_taken(const ExtentRecord& extent) const;
  void settle(const Doubtful& doubtful);

  Context& c_;
  const LostKeys lost_;
  InodeNo inode_;
  std::uint8_t type_ = kRegularType;
  std::uint64_t limit_ = 0;  // blocks that a repair lets the file map
  ExtentTotals totals_;
  std::uint64_t mapped_to_ = 0;  // the file block after last_
  std::uint64_t last_block_ = 0;
  MapRecord last_;  // the last item that has a place; it begins at last_block_
  // The append record that was looked up last: neighbours often share one.
  BandAddress cached_at_{BandId{~0u}, ~0u};
  std::optional<AppendRecord> cached_;
  std::vector<Doubtful> doubtful_;  // no append record confirms them, or a block is taken
};

}  // namespace lazyfs::fsck
