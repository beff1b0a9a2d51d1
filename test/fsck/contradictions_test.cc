// Volumes whose items contradict each other, as a defect may leave them, mounted for writing
// without a check: each operation fails or is done, and the process continues.
#include <gtest/gtest.h>

#include "fs/namespace/inode_numbers.h"
#include "fs/volume/volume.h"
#include "test/fsck/counting_store.h"
#include "test/fsck/sample_volume.h"

namespace lazyfs::fsck {
namespace {

class ContradictionsTest : public testing::Test {
 protected:
  void mount() {
    sample_.commit();
    ASSERT_TRUE(sample_.store->close());
    sample_.store.reset();
    auto volume = Volume::mount(*sample_.device, {.background = false}, clock_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  Result<InodeNo> create(std::string_view name) {
    const auto made = volume_->create(kRootInode, name, 0644, {});
    if (!made) return fail(made.error());
    volume_->release(made->file);
    return made->attributes.inode;
  }
  InodeNo lookup(std::string_view name) {
    const auto found = volume_->lookup(kRootInode, name);
    EXPECT_TRUE(found) << name << ": " << describe(found.error());
    return found ? found->inode : InodeNo{};
  }
  // Removes a file, and all that waits for that.
  void remove(std::string_view name) {
    const InodeNo inode = lookup(name);
    ASSERT_TRUE(volume_->unlink(kRootInode, name));
    volume_->forget(inode, 1);
    volume_->tick();
    ignore_error(volume_->sync(), "the volume is damaged");
  }

  FixedClock clock_;
  SampleVolume sample_;
  std::unique_ptr<Volume> volume_;
};

TEST_F(ContradictionsTest, InodeNumbersInUseAreNotGivenOutAgain) {
  CounterRecord counters;
  counters.next_inode = 2;
  sample_.put(key_of(kVolumeOwner, Kind::kCounters), encode(counters));
  InodeRecord far = *decode_inode(sample_.value_of(key_of(InodeNo{2}, Kind::kInode)));
  sample_.put(key_of(InodeNo{4000}, Kind::kInode), encode(far));
  mount();
  ASSERT_EQ(lookup("file"), InodeNo{2});
  const auto made = create("new");
  ASSERT_TRUE(made) << describe(made.error());
  EXPECT_GT(*made, InodeNo{4000});
  char byte = '?';
  EXPECT_TRUE(volume_->read(InodeNo{2}, 0, std::as_writable_bytes(std::span(&byte, 1))));
  EXPECT_TRUE(volume_->unmount());
}

// Each chunk of numbers has one in use.
TEST_F(ContradictionsTest, ManyInodeNumbersInUseDoNotHoldUpTheNext) {
  constexpr std::uint64_t kInUse = 1000;
  const InodeRecord far = *decode_inode(sample_.value_of(key_of(InodeNo{2}, Kind::kInode)));
  for (std::uint64_t i = 1; i <= kInUse; ++i) {
    sample_.put(key_of(InodeNo{i * InodeNumbers::kChunk}, Kind::kInode), encode(far));
    if (i % 100 == 0) sample_.commit();
  }
  CountingStore store(*sample_.store);
  InodeNumbers numbers(store, 2);
  const auto taken = numbers.take();
  ASSERT_TRUE(taken) << describe(taken.error());
  EXPECT_GT(*taken, InodeNo{kInUse * InodeNumbers::kChunk});
  EXPECT_LT(store.looked_up(), 60u);
}

TEST_F(ContradictionsTest, TheLastInodeNumberInUseLeavesNoneToGiveOut) {
  CounterRecord counters;
  counters.next_inode = kMaxInode - 10;
  sample_.put(key_of(kVolumeOwner, Kind::kCounters), encode(counters));
  mount();
  const auto made = create("new");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), Errc::kNoSpace);
  EXPECT_TRUE(volume_->unmount());
}

// The summary counts fewer live blocks than files have in the band.
TEST_F(ContradictionsTest, MoreBlocksDieThanABandCounts) {
  sample_.change_summary(SampleVolume::kB1, [](BandSummaryRecord& band) { band.live = 1; });
  mount();
  remove("big");
  EXPECT_TRUE(create("new"));
  ignore_error(volume_->unmount(), "the volume is damaged");
}

TEST_F(ContradictionsTest, MoreBlocksDieThanAnInodeCounts) {
  sample_.change_inode(6, [](InodeRecord& big) { big.blocks = 1; });
  mount();
  ASSERT_EQ(lookup("big"), InodeNo{6});
  ASSERT_TRUE(volume_->punch(InodeNo{6}, 0, 3 * kBlockBytes, {.keep_size = true}));
  EXPECT_EQ(volume_->get_attributes(InodeNo{6})->blocks_512, 0u);
  ignore_error(volume_->unmount(), "the volume is damaged");
}

TEST_F(ContradictionsTest, BlocksOfABandThatTheDeviceDoesNotHaveDie) {
  sample_.change_extent(6, 0, [](ExtentRecord& extent) { extent.at.band.value = 99'999; });
  mount();
  remove("big");
  EXPECT_TRUE(create("new"));
  ignore_error(volume_->unmount(), "the volume is damaged");
}

// Whole scans of records (with the four of the band itself), the last of them where the next scan
// would begin again at 0.
TEST_F(ContradictionsTest, CleaningABandEndsThatHasAppendRecordsBehindItsEnd) {
  const std::uint32_t rest = 64 - 13;  // the band is to be full, and nearly all of it dead
  sample_.append(SampleVolume::kB1, rest);
  sample_.put(key_of(SampleVolume::kB1, Kind::kAppendRecord, 13),
              encode(AppendRecord{InodeNo{0}, 0, rest, 0}));
  sample_.change_summary(SampleVolume::kB1, [&](BandSummaryRecord& band) {
    band.appended += rest;
    ++band.append_records;
  });
  for (std::uint32_t i = 0; i < 1024 - 4; ++i) {
    sample_.put(key_of(SampleVolume::kB1, Kind::kAppendRecord, 0xFFFFFFFF - i),
                encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
    if (i % 200 == 0) sample_.commit();
  }
  mount();
  ignore_error(volume_->collect_garbage(), "the volume is damaged");
  EXPECT_TRUE(create("new"));
  ignore_error(volume_->unmount(), "the volume is damaged");
}

// The file's own record is damaged, so that what it refers to cannot be looked up.
TEST_F(ContradictionsTest, ScrubbingNamesAFileWithADamagedRecordAndContinues) {
  sample_.put_text(key_of(InodeNo{8}, Kind::kInode), "no record");
  mount();
  const auto step = volume_->scrub({}, 1000);
  ASSERT_TRUE(step) << describe(step.error());
  EXPECT_FALSE(step->next);
  ASSERT_EQ(step->damaged.size(), 1u);
  EXPECT_EQ(step->damaged.front().inode, InodeNo{8});
  EXPECT_EQ(step->damaged.front().why, Errc::kItemBad);
  EXPECT_EQ(step->blocks, 3u + 8 + 2 + 2);  // of inodes 4, 6, 9 and 7, whose deletion waits
  EXPECT_TRUE(volume_->unmount());
}

// /left refers to itself: a thread that followed the reference would wait for a lock that it holds.
TEST_F(ContradictionsTest, AFileThatSharesItsOwnBlocksIsAnErrorForEveryOperation) {
  sample_.change_reference(8, 0, [](ReferenceRecord& r) { r.shared = InodeNo{8}; });
  mount();
  const InodeNo left = lookup("left");
  ASSERT_EQ(left, InodeNo{8});
  std::vector<std::byte> bytes(4 * kBlockBytes);
  EXPECT_FALSE(volume_->read(left, 0, bytes));
  EXPECT_FALSE(volume_->punch(left, kBlockBytes, kBlockBytes, {.keep_size = true}));
  EXPECT_FALSE(volume_->copy_range(left, 0, left, 1 << 20, 4 * kBlockBytes, false));
  EXPECT_TRUE(volume_->set_attributes(left, {.size = 0}));  // its blocks are not freed
  EXPECT_FALSE(volume_->write(left, kBlockBytes, std::span(bytes).first(kBlockBytes), {}));
  EXPECT_FALSE(volume_->sync());
  const auto step = volume_->scrub({}, 1000);
  ASSERT_TRUE(step);
  EXPECT_FALSE(step->damaged.empty());
  remove("left");
  ignore_error(volume_->unmount(), "the volume is damaged");
}

TEST_F(ContradictionsTest, ASymbolicLinkWhosePiecesAreMisnumberedIsNotRead) {
  const meta::Key second = key_of(InodeNo{5}, Kind::kSymlink, 1);
  sample_.put(key_of(InodeNo{5}, Kind::kSymlink, 2), sample_.value_of(second));
  sample_.erase(second);
  mount();
  const auto target = volume_->read_link(lookup("sym"));
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error(), Errc::kItemBad);
  EXPECT_TRUE(volume_->unmount());
}

}  // namespace
}  // namespace lazyfs::fsck
