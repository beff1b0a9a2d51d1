// A small volume made item by item, without the code that mounts one: every kind of item is in it,
// and all of it agrees. Tests then damage one thing.
//
//   /                  inode 1
//   /file, /again      inode 2: 100 bytes inline, two names
//   /dir               inode 3
//   /dir/inner         inode 4: 3 blocks, band B2
//   /sym               inode 5: a target of 1500 bytes, in two pieces
//   /big               inode 6: 9 blocks of which one is a hole, band B1; attributes "user.long"
//                      (1500 bytes) and "user.empty"
//   no name            inode 7: 2 blocks, band B2; to be deleted
//   /left              inode 8: 4 blocks, all of them of inode 10, blocks 0 to 3
//   /right             inode 9: 3 blocks: a hole, and blocks 0 and 1 of inode 10
//   shared             inode 10: 4 blocks, band B3
//
//   B1 = band 2: append record 0 (8 blocks of inode 6 from block 0; block 3 of them died), append
//        record 8 (1 block of inode 6, block 8), append record 9 (4 lost blocks)
//   B2 = band 3: append record 0 (3 blocks of inode 4), append record 3 (2 blocks of inode 7)
//   B3 = band 5: append record 0 (5 blocks of inode 10; block 4 of them died)
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "device/memory.h"
#include "fsck/check.h"
#include "mkfs/mkfs.h"
#include "fs/item/schema.h"
#include "meta/store/store.h"

namespace lazyfs::fsck {

using namespace fs;

class FixedClock final : public Clock {
 public:
  Timestamp now() override { return {1'700'000'000, 5}; }
  std::chrono::nanoseconds monotonic() override { return {}; }
};

inline meta::Uuid sample_uuid() {
  meta::Uuid uuid;
  for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::uint8_t>(17 * i + 3);
  return uuid;
}

class SampleVolume {
 public:
  static constexpr BandId kB1{2}, kB2{3}, kUnused{4}, kB3{5};

  explicit SampleVolume(device::Capabilities capabilities = {.set_write_pointer = true})
      : device(device::MemoryDevice::uniform(24, 64, capabilities)) {
    FixedClock clock;
    const auto made =
        mkfs::make_filesystem(*device, {.label = "sample", .uuid = sample_uuid()}, clock);
    EXPECT_TRUE(made) << describe(made.error());
    log_band = made->layout.log_bands.front();
    open();
    if (!capabilities.keeps_write_pointers) {
      for (const BandId band : {kB1, kB2, kB3}) EXPECT_TRUE(device->reset(band));
    }
    add_names();
    add_files();
    commit();
  }

  // ---- changing ----
  void open() {
    auto opened = meta::Store::open(*device, {.background = false});
    ASSERT_TRUE(opened) << describe(opened.error());
    store = std::move(*opened);
  }
  void put(meta::Key key, std::span<const std::byte> value) { batch_.put(key, value); }
  void put_text(meta::Key key, std::string_view text) { put(key, std::as_bytes(std::span(text))); }
  void erase(meta::Key key) { batch_.erase(key); }
  void commit() {
    ASSERT_TRUE(store->apply(batch_));
    ASSERT_TRUE(store->commit());
    batch_.clear();
  }
  meta::Value value_of(meta::Key key) {
    const auto value = store->get(key);
    EXPECT_TRUE(value && *value);
    return **value;
  }

  // Items as they are in the tree; one that is not there, or not of that kind, stays as it is.
  template <class Change>
  void change_inode(std::uint64_t inode, Change change) {
    change_item(key_of(InodeNo{inode}, Kind::kInode), decode_inode, change);
  }
  template <class Change>
  void change_extent(std::uint64_t inode, std::uint64_t file_block, Change change) {
    change_item(key_of(InodeNo{inode}, Kind::kExtent, file_block), decode_extent, change);
  }
  template <class Change>
  void change_reference(std::uint64_t inode, std::uint64_t file_block, Change change) {
    const auto decode = [](std::span<const std::byte> bytes) -> Result<ReferenceRecord> {
      ASSIGN_OR_RETURN(const MapRecord record, decode_map_record(bytes));
      const auto* reference = std::get_if<ReferenceRecord>(&record);
      return reference ? Result<ReferenceRecord>(*reference) : fail(Errc::kItemBad);
    };
    change_item(key_of(InodeNo{inode}, Kind::kExtent, file_block), decode, change);
  }
  void put_reference(std::uint64_t inode, std::uint64_t file_block, std::uint64_t shared,
                     std::uint64_t block, std::uint32_t count) {
    put(key_of(InodeNo{inode}, Kind::kExtent, file_block),
        encode(ReferenceRecord{InodeNo{shared}, block, count}));
  }
  void put_share_count(std::uint64_t shared, std::uint64_t block, std::uint32_t blocks,
                       std::uint32_t references) {
    put(key_of(InodeNo{shared}, Kind::kReferenceCount, block),
        encode(ReferenceCountRecord{blocks, references}));
  }
  template <class Change>
  void change_append(BandId band, std::uint32_t rba, Change change) {
    change_item(key_of(band, Kind::kAppendRecord, rba), decode_append_record, change);
  }
  template <class Change>
  void change_delete(BandId band, std::uint32_t rba, Change change) {
    change_item(key_of(band, Kind::kDeleteRecord, rba), decode_delete_record, change);
  }
  template <class Change>
  void change_summary(BandId band, Change change) {
    change_item(key_of(kVolumeOwner, Kind::kBandSummary, band.value), decode_band_summary, change);
  }
  // An entry in both its places. The directory's counters stay.
  void put_entry(std::uint64_t directory, const DentryRecord& entry) {
    put(name_key(directory, entry.name), encode(entry));
    put(key_of(InodeNo{directory}, Kind::kDentrySeq, entry.cookie), encode(entry));
  }
  void erase_entry(std::uint64_t directory, std::string_view name, std::uint64_t cookie) {
    erase(name_key(directory, name));
    erase(key_of(InodeNo{directory}, Kind::kDentrySeq, cookie));
  }
  // A directory that has no name itself, with these entries.
  void put_directory(std::uint64_t number, std::uint64_t parent,
                     const std::vector<DentryRecord>& entries) {
    InodeRecord record = inode(S_IFDIR | 0755, 2, 0);
    record.parent = InodeNo{parent};
    for (const DentryRecord& entry : entries) {
      put_entry(number, entry);
      record.entries += 1;
      record.links += entry.type == S_IFDIR >> 12;
      record.next_cookie = std::max(record.next_cookie, entry.cookie + 1);
    }
    put(key_of(InodeNo{number}, Kind::kInode), encode(record));
  }
  meta::Key name_key(std::uint64_t directory, std::string_view name) const {
    return key_of(InodeNo{directory}, Kind::kDentryName, name_hash(name, seed_of(sample_uuid())));
  }

  // ---- checking ----
  std::vector<std::string> problems(CheckOptions options = {}) {
    std::vector<std::string> found;
    const auto checked =
        check(*store, *device, options, [&](const std::string& text) { found.push_back(text); });
    EXPECT_TRUE(checked) << describe(checked.error());
    report = *checked;
    EXPECT_EQ(report.problems, found.size());
    return found;
  }

  // Appends `blocks` blocks, each filled with its own byte, and returns their checksums.
  std::vector<std::uint32_t> append(BandId band, std::uint32_t blocks) {
    std::vector<std::uint32_t> crcs;
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t i = 0; i < blocks; ++i) {
      std::ranges::fill(block.span(), static_cast<std::byte>(++fill_));
      EXPECT_TRUE(device->append({band, *device->write_pointer(band)}, block.span()));
      crcs.push_back(crc32c(block.span()));
    }
    return crcs;
  }

  std::unique_ptr<device::MemoryDevice> device;
  std::unique_ptr<meta::Store> store;
  BandId log_band;
  CheckReport report;  // of the last problems()

 private:
  template <class Decode, class Change>
  void change_item(meta::Key key, Decode decode, Change change) {
    const auto value = store->get(key);
    ASSERT_TRUE(value);
    if (!*value) return;
    auto record = decode(meta::bytes_of(**value));
    if (!record) return;
    change(*record);
    put(key, encode(*record));
  }
  static InodeRecord inode(std::uint32_t mode, std::uint32_t links, std::uint64_t size) {
    InodeRecord record;
    record.mode = mode;
    record.links = links;
    record.size = size;
    return record;
  }

  void add_names() {
    put_entry(1, {InodeNo{2}, 1, 8, "file"});
    put_entry(1, {InodeNo{3}, 2, 4, "dir"});
    put_entry(1, {InodeNo{5}, 4, 10, "sym"});  // cookie 3 was removed
    put_entry(1, {InodeNo{6}, 5, 8, "big"});
    put_entry(1, {InodeNo{2}, 6, 8, "again"});
    put_entry(1, {InodeNo{8}, 7, 8, "left"});
    put_entry(1, {InodeNo{9}, 8, 8, "right"});
    put_entry(3, {InodeNo{4}, 1, 8, "inner"});
    change_inode(1, [](InodeRecord& root) {
      root.links = 3;
      root.entries = 7;
      root.next_cookie = 9;
    });
    InodeRecord directory = inode(S_IFDIR | 0755, 2, 0);
    directory.parent = kRootInode;
    directory.entries = 1;
    directory.next_cookie = 2;
    put(key_of(InodeNo{3}, Kind::kInode), encode(directory));
    put(key_of(kVolumeOwner, Kind::kCounters),
        encode(CounterRecord{
            .next_inode = 11, .user_blocks = 19, .collector_blocks = 7, .inodes = 9}));
  }

  void put_extent(std::uint64_t owner, std::uint64_t file_block, BandAddress at,
                  std::uint32_t record, std::vector<std::uint32_t> crcs) {
    put(key_of(InodeNo{owner}, Kind::kExtent, file_block),
        encode(ExtentRecord{at, record, std::move(crcs)}));
  }
  void put_append(BandAddress at, std::uint64_t owner, std::uint64_t file_block,
                  std::span<const std::uint32_t> crcs) {
    const AppendRecord record{InodeNo{owner}, file_block, static_cast<std::uint32_t>(crcs.size()),
                              owner == 0 ? 0 : checksum_of(crcs)};
    put(key_of(at.band, Kind::kAppendRecord, at.rba), encode(record));
  }
  void put_summary(BandId band, const BandSummaryRecord& summary) {
    put(key_of(kVolumeOwner, Kind::kBandSummary, band.value), encode(summary));
  }

  void add_files() {
    put(key_of(InodeNo{2}, Kind::kInode), encode(inode(S_IFREG | 0644, 2, 100)));
    put_text(key_of(InodeNo{2}, Kind::kInline), std::string(100, 'i'));
    put(key_of(InodeNo{5}, Kind::kInode), encode(inode(S_IFLNK | 0777, 1, 1500)));
    put_text(key_of(InodeNo{5}, Kind::kSymlink, 0), std::string(1024, 's'));
    put_text(key_of(InodeNo{5}, Kind::kSymlink, 1), std::string(476, 's'));
    add_big();
    add_second_band();
    add_shared();
  }

  void add_big() {
    InodeRecord big = inode(S_IFREG | 0600, 1, 9 * kBlockBytes - 5);
    big.blocks = 8;
    big.xattrs = 2;
    put(key_of(InodeNo{6}, Kind::kInode), encode(big));
    put(key_of(InodeNo{6}, Kind::kXattrName, 1), encode(XattrRecord{1500, "user.long"}));
    put(key_of(InodeNo{6}, Kind::kXattrName, 2), encode(XattrRecord{0, "user.empty"}));
    put_text(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8), std::string(1024, 'x'));
    put_text(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8 | 1), std::string(476, 'x'));

    const auto crcs = append(kB1, 8);
    put_append({kB1, 0}, 6, 0, crcs);
    put_extent(6, 0, {kB1, 0}, 0, {crcs.begin(), crcs.begin() + 3});
    put_extent(6, 4, {kB1, 4}, 0, {crcs.begin() + 4, crcs.end()});
    put(key_of(kB1, Kind::kDeleteRecord, 3), encode(DeleteRecord{InodeNo{6}, 3, 3, 1, 0}));
    const auto last = append(kB1, 1);
    put_append({kB1, 8}, 6, 8, last);
    put_extent(6, 8, {kB1, 8}, 8, last);
    put_append({kB1, 9}, 0, 0, append(kB1, 4));
    put_summary(kB1, {.appended = 13, .live = 8, .append_records = 3, .delete_records = 1});
  }

  void add_second_band() {
    InodeRecord inner = inode(S_IFREG | 0644, 1, 3 * kBlockBytes);
    inner.blocks = 3;
    put(key_of(InodeNo{4}, Kind::kInode), encode(inner));
    const auto crcs = append(kB2, 3);
    put_append({kB2, 0}, 4, 0, crcs);
    put_extent(4, 0, {kB2, 0}, 0, crcs);
    InodeRecord orphan = inode(S_IFREG | 0644, 0, 2 * kBlockBytes);
    orphan.blocks = 2;
    put(key_of(InodeNo{7}, Kind::kInode), encode(orphan));
    put(key_of(kVolumeOwner, Kind::kOrphan, 7), encode(OrphanRecord{OrphanRecord::Work::kDelete}));
    const auto more = append(kB2, 2);
    put_append({kB2, 3}, 7, 0, more);
    put_extent(7, 0, {kB2, 3}, 3, more);
    put_summary(kB2, {.appended = 5, .live = 5, .append_records = 2, .delete_records = 0});
  }

  void add_shared() {
    InodeRecord left = inode(S_IFREG | 0644, 1, 4 * kBlockBytes - 7);
    left.blocks = 4;
    put(key_of(InodeNo{8}, Kind::kInode), encode(left));
    put_reference(8, 0, 10, 0, 4);
    InodeRecord right = inode(S_IFREG | 0644, 1, 3 * kBlockBytes);
    right.blocks = 2;
    put(key_of(InodeNo{9}, Kind::kInode), encode(right));
    put_reference(9, 1, 10, 0, 2);
    InodeRecord shared = inode(kSharedMode, 1, 4 * kBlockBytes);
    shared.blocks = 4;
    put(key_of(InodeNo{10}, Kind::kInode), encode(shared));
    const auto crcs = append(kB3, 5);
    put_append({kB3, 0}, 10, 0, crcs);
    put_extent(10, 0, {kB3, 0}, 0, {crcs.begin(), crcs.begin() + 4});
    put_share_count(10, 0, 2, 2);
    put_share_count(10, 2, 2, 1);
    put(key_of(kB3, Kind::kDeleteRecord, 4), encode(DeleteRecord{InodeNo{10}, 4, 4, 1, 0}));
    put_summary(kB3, {.appended = 5, .live = 4, .append_records = 1, .delete_records = 1});
  }

  meta::Batch batch_;
  int fill_ = 0;
};

}  // namespace lazyfs::fsck
