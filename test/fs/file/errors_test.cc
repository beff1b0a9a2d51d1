// A failing device: which files report it, what continues, which data is moved to safety, and when
// the volume gives up.
#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <thread>

#include "fs/volume/open_file.h"
#include "test/fsck/node_images.h"
#include "test/support/seed.h"
#include "test/fs/volume_fixture.h"
#include "test/support/stats.h"

namespace lazyfs::fs {
namespace {

using device::Call;
using device::CallInfo;
using device::Fault;
using Perhaps = std::optional<Fault>;

// The system's clock, put forward.
class ForwardClock final : public Clock {
 public:
  Timestamp now() override { return system_clock().now(); }
  std::chrono::nanoseconds monotonic() override { return system_clock().monotonic() + ahead; }
  std::chrono::nanoseconds ahead{0};
};

class ErrorsTest : public VolumeTest {
 protected:
  explicit ErrorsTest(std::uint32_t bands = 64) : VolumeTest(bands) {}
  ~ErrorsTest() override { volume_.reset(); }  // before the clock that it uses
  void mount() override {
    auto volume = Volume::mount(faulty_, options_, clock_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  // A file of `blocks` blocks, each of a letter of its own, in the bands.
  InodeNo stored_file(std::string_view name, std::uint64_t blocks) {
    const InodeNo file = create(name);
    for (std::uint64_t i = 0; i < blocks; ++i) write(file, i * kBlockBytes, block(i));
    EXPECT_TRUE(volume_->sync());
    return file;
  }
  // A file of kDamagedBlocks blocks. Its map is in memory. What is not is the delete log of the
  // band that block 151 and each other odd block are in.
  static constexpr std::uint64_t kDamagedBlocks = 250;
  InodeNo file_with_log_on_disk(std::string_view name) {
    const InodeNo file = stored_file(name, kDamagedBlocks);
    const auto overwrite = [&](std::uint64_t i) {
      write(file, i * kBlockBytes, block(i));
      EXPECT_TRUE(volume_->sync());
    };
    for (std::uint64_t i = 0; i < kDamagedBlocks; i += 2) overwrite(i);  // each: a record of a log
    // Writes each leaf of the map again. Else, sometimes, one lies beside the delete log, and is
    // read together with it: the sizes of items vary with the time.
    for (std::uint64_t i = 0; i < kDamagedBlocks; i += 16) overwrite(i);
    remount();
    for (std::uint64_t i = 0; i < kDamagedBlocks; ++i) EXPECT_TRUE(read_block(file, i));
    return file;
  }
  static std::string block(std::uint64_t i) {
    return std::string(kBlockBytes, static_cast<char>('a' + i % 26));
  }
  Result<> read_block(InodeNo file, std::uint64_t i) {
    std::string text(kBlockBytes, '?');
    const auto n = volume_->read(file, i * kBlockBytes, std::as_writable_bytes(std::span(text)));
    if (!n) return fail(n.error());
    EXPECT_EQ(text, block(i)) << "block " << i;
    return ok();
  }
  // Where a block of a file lies on the device.
  BandAddress place_of(InodeNo file, std::uint64_t i) {
    BandAddress place;
    faulty_.fail_when([&](const CallInfo& info) -> Perhaps {
      if (info.call == Call::kRead) place = info.at;
      return std::nullopt;
    });
    EXPECT_TRUE(read_block(file, i));
    faulty_.mend();
    return place;
  }
  void break_block(BandAddress bad) {
    faulty_.fail_when([bad](const CallInfo& info) -> Perhaps {
      const bool hit = info.call == Call::kRead && info.at.band == bad.band &&
                       info.at.rba <= bad.rba && bad.rba < info.at.rba + info.blocks;
      return hit ? Perhaps(Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  // From now on nothing can be appended, but to the metadata log.
  void break_data_appends() {
    const auto store_bands = log_bands();
    faulty_.fail_when([store_bands](const CallInfo& info) -> Perhaps {
      const bool is_data = info.call == Call::kAppend && info.at.band.value > 1 &&
                           !std::ranges::count(store_bands, info.at.band);
      return is_data ? Perhaps(Fault{Errc::kDeviceWrite}) : std::nullopt;
    });
  }
  // From now on no metadata node can be read that is not in memory.
  void break_metadata_reads() {
    faulty_.fail_when([log = log_bands()](const CallInfo& info) -> Perhaps {
      const bool is_node = info.call == Call::kRead && std::ranges::count(log, info.at.band) > 0;
      return is_node ? Perhaps(Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  std::vector<BandId> log_bands() const {
    return meta::Store::open(*device_, {.background = false, .read_only = true})
        .value()
        ->log_bands();
  }
  // The leaf of the tree whose newest image has the text.
  BandAddress leaf_with(std::string_view text) {
    BandAddress found;
    std::string bytes(kBlockBytes, 0);
    for (const fsck::NodeImage& image : fsck::newest_images(*device_)) {
      device_->peek(image.at, std::as_writable_bytes(std::span(bytes)));
      if (image.level == 0 && bytes.find(text) != std::string::npos) found = image.at;
    }
    EXPECT_NE(found, BandAddress{});
    return found;
  }
  std::string state() const { return stats_of(*volume_)["state"].text(); }
  std::uint64_t bad_bands() const { return stat_of(*volume_, "data", "bad_bands"); }
  OpenFile* open(InodeNo file) {
    const auto opened = volume_->open(file);
    EXPECT_TRUE(opened);
    return opened.value_or(nullptr);
  }

  ForwardClock clock_;
};

// ---- Writing back -------------------------------------------------------------------------------

TEST_F(ErrorsTest, AFailedWriteBackReachesFsyncOfEachFileThatWasOpenOnce) {
  const InodeNo file = create("f");
  OpenFile* one = open(file);
  OpenFile* other = open(file);
  write(file, 0, block(0));
  break_data_appends();
  EXPECT_EQ(volume_->sync().error(), Errc::kDeviceWrite);
  faulty_.mend();
  OpenFile* later = open(file);
  EXPECT_EQ(volume_->fsync(file, one, false).error(), Errc::kDeviceWrite);
  EXPECT_TRUE(volume_->fsync(file, one, false));
  EXPECT_EQ(volume_->fsync(file, other, false).error(), Errc::kDeviceWrite);
  EXPECT_TRUE(volume_->fsync(file, other, false));
  EXPECT_TRUE(volume_->fsync(file, later, false));
  EXPECT_TRUE(volume_->fsync(file, nullptr, false));
  for (OpenFile* opened : {one, other, later}) volume_->release(opened);
  EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), 1u);
  lose_power();
  EXPECT_EQ(read(lookup("f")), block(0));
}

TEST_F(ErrorsTest, EachFileReportsItsOwnFailuresOnce) {
  const InodeNo file = create("f"), untouched = create("g");
  OpenFile* one = open(file);
  OpenFile* elsewhere = open(untouched);
  write(file, 0, block(0));
  break_data_appends();
  EXPECT_FALSE(volume_->sync());
  write(file, kBlockBytes, block(1));
  EXPECT_FALSE(volume_->sync());
  faulty_.mend();
  EXPECT_FALSE(volume_->fsync(file, one, false));
  EXPECT_TRUE(volume_->fsync(file, one, false));
  EXPECT_TRUE(volume_->fsync(untouched, elsewhere, false));
  volume_->release(one);
  volume_->release(elsewhere);
}

TEST_F(ErrorsTest, EveryFsyncFailsWhileDataCannotBeWrittenAndNoDataIsLost) {
  const InodeNo file = create("f");
  OpenFile* one = open(file);
  write(file, 0, block(0) + block(1));
  break_data_appends();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(volume_->fsync(file, one, false).error(), Errc::kDeviceWrite);
    EXPECT_EQ(volume_->fsync(file, nullptr, false).error(), Errc::kDeviceWrite);
    EXPECT_EQ(read(file), block(0) + block(1));
  }
  faulty_.mend();
  EXPECT_FALSE(volume_->fsync(file, one, false));  // of the failure after its last fsync
  EXPECT_TRUE(volume_->fsync(file, one, false));
  volume_->release(one);
  lose_power();
  EXPECT_EQ(read(lookup("f")), block(0) + block(1));
}

// Memory is full then: a writer that waited for it would wait for ever.
TEST_F(ErrorsTest, AWriteFailsWhenMemoryIsFullOfUnwritableData) {
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    options_.background = background;
    options_.dirty_bytes = 32 * kBlockBytes;
    remount();
    const InodeNo file = create(background ? "f" : "g");
    break_data_appends();
    Result<> written = ok();
    std::uint64_t blocks = 0;
    for (; blocks < 200 && written; ++blocks) {
      const std::string text = block(blocks);
      written = volume_->write(file, blocks * kBlockBytes, std::as_bytes(std::span(text)));
    }
    EXPECT_EQ(written.error(), Errc::kDeviceWrite);
    faulty_.mend();
    EXPECT_TRUE(volume_->sync());
    for (std::uint64_t i = 0; i + 1 < blocks; ++i) EXPECT_TRUE(read_block(file, i));
  }
}

TEST_F(ErrorsTest, CloseReportsAnErrorThatFsyncHasNotReported) {
  const InodeNo file = create("f");
  OpenFile* one = open(file);
  write(file, 0, block(0));
  break_data_appends();
  EXPECT_FALSE(volume_->sync());
  faulty_.mend();
  EXPECT_EQ(volume_->flush(one).error(), Errc::kDeviceWrite);  // of a duplicate, perhaps
  EXPECT_EQ(volume_->fsync(file, one, false).error(), Errc::kDeviceWrite);
  EXPECT_TRUE(volume_->flush(one));
  volume_->release(one);
}

TEST_F(ErrorsTest, AFileThatCannotBeRecordedKeepsNoOtherFromBeingWritten) {
  const InodeNo bad = file_with_log_on_disk("bad");
  std::vector<std::pair<InodeNo, OpenFile*>> healthy;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    healthy.emplace_back(stored_file(name, 8), nullptr);
    healthy.back().second = open(healthy.back().first);
  }
  OpenFile* const open_bad = open(bad);
  break_metadata_reads();
  for (std::uint64_t round = 1; round <= 3; ++round) {
    write(bad, 151 * kBlockBytes, block(151));
    for (const auto& [file, opened] : healthy) {
      write(file, (6 + 2 * round) * kBlockBytes, block(0) + block(1));
    }
    EXPECT_EQ(volume_->sync().error(), Errc::kDeviceRead);
    EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), round);
    for (const auto& [file, opened] : healthy) EXPECT_TRUE(opened->pending_error());
    EXPECT_FALSE(open_bad->pending_error());
    EXPECT_EQ(stat_of(*volume_, "data", "dirty_bytes"), std::uint64_t{kBlockBytes});
  }
  faulty_.mend();
  EXPECT_TRUE(volume_->sync());
  EXPECT_TRUE(read_block(bad, 151));
  for (const auto& [file, opened] : healthy) volume_->release(opened);
  volume_->release(open_bad);
}

// Another file's data fills the memory, and stays there.
TEST_F(ErrorsTest, AFileThatCannotBeRecordedKeepsNoOtherFromBeingWrittenTo) {
  constexpr std::uint64_t kInMemory = 32;
  for (const bool background : {false, true}) {
    SCOPED_TRACE(background);
    options_.background = background;
    options_.dirty_bytes = kInMemory * kBlockBytes;
    remount();
    const InodeNo bad = file_with_log_on_disk(background ? "bad" : "bad0");
    const InodeNo healthy = stored_file(background ? "f" : "f0", 8);
    break_metadata_reads();
    Result<> written = ok();
    for (std::uint64_t i = 0; i < kDamagedBlocks && written; ++i) {
      written = volume_->write(bad, i * kBlockBytes, bytes_of(block(i)));
    }
    EXPECT_EQ(written.error(), Errc::kDeviceRead);
    for (std::uint64_t i = 8; i < 50; ++i) write(healthy, i * kBlockBytes, block(i));
    EXPECT_LT(stat_of(*volume_, "data", "dirty_bytes"), 2 * kInMemory * kBlockBytes);
    EXPECT_TRUE(volume_->fsync(healthy, nullptr, false));
    faulty_.mend();
    EXPECT_TRUE(volume_->sync());
  }
}

// What it writes then needs no band.
TEST_F(ErrorsTest, AFileWhoseLastWriteBackWorkedIsWrittenToThoughAnEarlierOneFailed) {
  options_.dirty_bytes = 32 * kBlockBytes;
  remount();
  const InodeNo small = create("small"), punched = create("punched"), bad = create("bad");
  for (const InodeNo file : {small, punched}) write(file, 0, block(0));
  break_data_appends();
  EXPECT_EQ(volume_->sync().error(), Errc::kDeviceWrite);
  ASSERT_TRUE(volume_->set_attributes(small, {.size = 100}));  // a dirty part of a block remains
  ASSERT_TRUE(volume_->punch(punched, 0, kBlockBytes, {}));    // the inode's item remains
  EXPECT_TRUE(volume_->sync());
  Result<> written = ok();
  for (std::uint64_t i = 0; i < 200 && written; ++i) {
    written = volume_->write(bad, i * kBlockBytes, bytes_of(block(i)));
  }
  EXPECT_EQ(written.error(), Errc::kDeviceWrite);
  for (const InodeNo file : {small, punched}) write(file, 0, "x");
  faulty_.mend();
  EXPECT_TRUE(volume_->sync());
}

class LargeErrorsTest : public ErrorsTest {
 protected:
  LargeErrorsTest() : ErrorsTest(400) {}
};

// It shares its first group with the damaged file, and fills it.
TEST_F(LargeErrorsTest, ALargeFileBesideADamagedOneIsWrittenWhole) {
  const InodeNo bad = file_with_log_on_disk("bad");
  const InodeNo healthy = stored_file("healthy", 300);  // the last band's log is in memory
  break_metadata_reads();
  write(bad, 151 * kBlockBytes, block(151));
  for (std::uint64_t i = 0; i < 6000; ++i) write(healthy, i * kBlockBytes, block(i));
  ASSERT_EQ(stat_of(*volume_, "data", "write_back_errors"), 0u);
  EXPECT_EQ(volume_->sync().error(), Errc::kDeviceRead);
  EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), 1u);
  EXPECT_EQ(stat_of(*volume_, "data", "dirty_bytes"), std::uint64_t{kBlockBytes});
  faulty_.mend();
  EXPECT_TRUE(volume_->sync());
}

// The map's leaf cannot be read when the pages are gathered, to see what they replace.
TEST_F(ErrorsTest, AnErrorBeforeTheFirstAppendIsReportedLikeOthers) {
  const InodeNo file = create("f");
  for (std::uint64_t i = 300; i-- > 0;) {  // each block becomes an extent
    write(file, i * kBlockBytes, block(i));
    ASSERT_TRUE(volume_->sync());
  }
  remount();
  OpenFile* const opened = open(file);
  break_metadata_reads();
  write(file, 299 * kBlockBytes, block(299));
  EXPECT_EQ(volume_->sync().error(), Errc::kDeviceRead);
  EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), 1u);
  EXPECT_EQ(volume_->flush(opened).error(), Errc::kDeviceRead);
  faulty_.mend();
  EXPECT_TRUE(volume_->sync());
  volume_->release(opened);
}

// ---- Reading ------------------------------------------------------------------------------------

TEST_F(ErrorsTest, ABlockThatCannotBeReadLeavesItsNeighboursReadable) {
  const InodeNo file = stored_file("f", 300);
  const BandAddress bad = place_of(file, 130);
  break_block(bad);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto done = read_block(file, i);
    if (i == 130) {
      EXPECT_EQ(done.error(), Errc::kDeviceRead);
    } else {
      EXPECT_TRUE(done) << i;
    }
  }
  EXPECT_EQ(stat_of(*volume_, "data", "read_errors"), 1u);
  faulty_.mend();
}

TEST_F(ErrorsTest, ReadableBlocksLeaveABandWithUnreadableOnes) {
  const InodeNo file = stored_file("f", 300);
  const BandAddress bad = place_of(file, 130);
  break_block(bad);
  EXPECT_FALSE(read_block(file, 130));
  volume_->tick();
  EXPECT_EQ(bad_bands(), 1u);
  // Now all of the band may fail.
  faulty_.break_band(bad.band);
  for (std::uint64_t i = 0; i < 300; ++i) EXPECT_EQ(read_block(file, i).has_value(), i != 130) << i;
  // What is written over the block heals the file; the band holds nothing then.
  write(file, 130 * kBlockBytes, block(130));
  ASSERT_TRUE(volume_->sync());
  EXPECT_TRUE(read_block(file, 130));
  faulty_.mend();
  volume_->tick();
  EXPECT_EQ(bad_bands(), 0u);
  // It is a band like any other again: what dies in it is cleaned away.
  const InodeNo other = stored_file("g", 600);
  for (std::uint64_t i = 0; i < 600; i += 2) write(other, i * kBlockBytes, block(i));
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->collect_garbage());
  EXPECT_EQ(stat_of(*volume_, "space", "dead_blocks"), 0u);
}

TEST_F(ErrorsTest, ReadableBlocksLeaveABandAlthoughTheFirstAttemptFailed) {
  const InodeNo file = stored_file("f", 300);
  const BandAddress bad = place_of(file, 130);
  const auto of_log = log_bands();
  bool appends_fail = true;
  faulty_.fail_when([&](const CallInfo& info) -> Perhaps {
    const bool is_hit = info.call == Call::kRead && info.at.band == bad.band &&
                        info.at.rba <= bad.rba && bad.rba < info.at.rba + info.blocks;
    if (is_hit) return Fault{Errc::kDeviceRead};
    const bool fails = appends_fail && info.call == Call::kAppend && info.at.band.value > 1 &&
                       !std::ranges::count(of_log, info.at.band);
    return fails ? Perhaps(Fault{Errc::kDeviceWrite}) : std::nullopt;
  });
  EXPECT_FALSE(read_block(file, 130));
  volume_->tick();
  appends_fail = false;
  clock_.ahead += std::chrono::seconds(1);
  volume_->tick();
  EXPECT_EQ(bad_bands(), 1u);
  faulty_.break_band(bad.band);
  for (std::uint64_t i = 0; i < 300; ++i) EXPECT_EQ(read_block(file, i).has_value(), i != 130) << i;
  faulty_.mend();
}

TEST_F(ErrorsTest, AReadErrorThatPassesCostsNoBand) {
  const InodeNo file = stored_file("f", 300);
  faulty_.fail_nth(Call::kRead, 1, {Errc::kDeviceRead});
  EXPECT_FALSE(read_block(file, 7));
  volume_->tick();
  EXPECT_EQ(bad_bands(), 0u);
  for (std::uint64_t i = 0; i < 300; ++i) EXPECT_TRUE(read_block(file, i));
}

// ---- Bands --------------------------------------------------------------------------------------

TEST_F(ErrorsTest, ABandThatFailsWhileItIsWrittenIsEmptiedAndTriedAgain) {
  const InodeNo file = stored_file("f", 50);
  const BandId band = place_of(file, 0).band;
  faulty_.fail_when([band](const CallInfo& info) -> Perhaps {
    const bool hit = info.call == Call::kAppend && info.at.band == band;
    return hit ? Perhaps(Fault{Errc::kDeviceWrite, 1}) : std::nullopt;
  });
  const InodeNo other = stored_file("g", 50);  // goes to another band, and no error is reported
  EXPECT_EQ(bad_bands(), 1u);
  faulty_.mend();
  volume_->tick();
  EXPECT_EQ(bad_bands(), 0u);
  EXPECT_NE(place_of(file, 0).band, band);
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(read_block(file, i));
    EXPECT_TRUE(read_block(other, i));
  }
  lose_power();
  EXPECT_EQ(read(lookup("f")).size(), 50 * kBlockBytes);
}

TEST_F(ErrorsTest, ABandThatFailsAgainAndAgainIsGivenUp) {
  const InodeNo file = stored_file("f", 1);
  const BandId band = place_of(file, 0).band;
  faulty_.fail_when([band](const CallInfo& info) -> Perhaps {
    const bool hit = info.call == Call::kAppend && info.at.band == band;
    return hit ? Perhaps(Fault{Errc::kDeviceWrite}) : std::nullopt;
  });
  for (std::uint64_t i = 0; i < 60; ++i) {
    stored_file("g" + std::to_string(i), 100);
    volume_->tick();
  }
  EXPECT_EQ(bad_bands(), 1u);
  EXPECT_EQ(stat_of(*volume_, "data", "write_back_errors"), 0u);
  EXPECT_TRUE(read_block(file, 0));
  const std::uint64_t tried = faulty_.faults();
  EXPECT_EQ(tried, 3u);
  faulty_.mend();
  remount();  // it is tried again
  EXPECT_EQ(bad_bands(), 0u);
}

TEST_F(ErrorsTest, RemainingBlocksLeaveABandThatLostItsEnd) {
  const InodeNo file = stored_file("f", 50);
  const BandAddress lost = place_of(file, 40);
  ASSERT_EQ(place_of(file, 0).band, lost.band);
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  ASSERT_TRUE(device_->set_write_pointer(lost.band, lost.rba));
  mount();
  const InodeNo again = lookup("f");
  EXPECT_EQ(bad_bands(), 1u);
  volume_->tick();
  faulty_.break_band(lost.band);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(read_block(again, i).has_value(), i < 40) << i;
  faulty_.mend();
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  volume_->forget(again, 1);
  volume_->tick();
  remount();
  EXPECT_EQ(bad_bands(), 0u);
}

// Two files, a and b, with two blocks in each of six bands, whose other blocks are dead. The leaf
// that has a's inode cannot be read; with `blocks_too`, that leaf also has its extents.
class DamagedLeafTest : public ErrorsTest {
 protected:
  static constexpr std::uint64_t kBandsEach = 6, kBlocks = 2 * kBandsEach;

  void break_leaf(bool blocks_too) {
    fill_leaves("before");
    const InodeNo a = create("a");
    const std::string mark = "of a" + std::string(blocks_too ? 20 : 3000, '.');
    ASSERT_TRUE(volume_->set_xattr(a, "user.mark", mark, {}));
    fill_leaves("between");
    const InodeNo b = create("b");
    for (const InodeNo file : {a, b}) {
      for (std::uint64_t i = 0; i < kBlocks; i += 2) add_two_blocks(file, i);
    }
    remount();
    break_block(leaf_with("of a...."));
  }
  void expect_all_others_were_cleaned() {
    EXPECT_EQ(bad_bands(), kBandsEach);
    EXPECT_EQ(stat_of(*volume_, "space", "dead_blocks"), 0u);
    EXPECT_EQ(stat_of(*volume_, "data", "collector_blocks_written"), kBlocks);
    const InodeNo b = lookup("b");
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(read_block(b, i));
    faulty_.mend();
    const InodeNo a = lookup("a");
    for (std::uint64_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(read_block(a, i));
  }

 private:
  void fill_leaves(const std::string& name) {
    for (int i = 0; i < 60; ++i) create(name + std::to_string(i));
  }
  void add_two_blocks(InodeNo file, std::uint64_t at) {
    const InodeNo dead = stored_file("dead", 254);
    write(file, at * kBlockBytes, block(at) + block(at + 1));
    ASSERT_TRUE(volume_->sync());
    ASSERT_TRUE(volume_->unlink(kRootInode, "dead"));
    volume_->forget(dead, 1);
  }
};

TEST_F(DamagedLeafTest, BandsOfAFileWhoseExtentsCannotBeReadDoNotStopCleaning) {
  break_leaf(true);
  EXPECT_TRUE(volume_->collect_garbage());
  expect_all_others_were_cleaned();
}

TEST_F(DamagedLeafTest, BlocksOfAFileWhoseInodeCannotBeReadAreNotCopiedInVain) {
  break_leaf(false);
  EXPECT_TRUE(volume_->collect_garbage());
  expect_all_others_were_cleaned();
}

// ---- The end ------------------------------------------------------------------------------------

TEST_F(ErrorsTest, OnlyAMetadataLogThatCannotBeWrittenMakesTheVolumeReadOnly) {
  ASSERT_TRUE(volume_->unmount());
  int notified = 0;
  options_.on_read_only = [&] { ++notified; };
  mount();
  const InodeNo file = stored_file("f", 3);
  OpenFile* one = open(file);
  write(file, 0, block(9));
  faulty_.fail_nth(Call::kFlush, 1, {Errc::kDeviceFlush});
  EXPECT_EQ(volume_->fsync(file, one, false).error(), Errc::kLogFailed);
  volume_->tick();
  volume_->tick();
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(state(), "read-only after an error");
  EXPECT_EQ(volume_->fsync(file, one, false).error(), Errc::kLogFailed);
  EXPECT_EQ(volume_->write(file, 0, bytes_of("x")).error(), Errc::kReadOnly);
  EXPECT_EQ(volume_->unlink(kRootInode, "f").error(), Errc::kReadOnly);
  EXPECT_EQ(volume_->make_directory(kRootInode, "d", 0755, {}).error(), Errc::kReadOnly);
  EXPECT_TRUE(read_block(file, 1));
  EXPECT_EQ(read(file, 0, kBlockBytes), block(9));
  volume_->release(one);
  EXPECT_FALSE(volume_->unmount());
  volume_.reset();
  mount();
  EXPECT_EQ(state(), "writable");
  EXPECT_EQ(read(lookup("f"), kBlockBytes, kBlockBytes), block(1));
}

TEST_F(ErrorsTest, AFailedMetadataAppendReachesNoUser) {
  const InodeNo file = create("f");
  const auto of_log = log_bands();
  int failures = 0;
  faulty_.fail_when([&](const CallInfo& info) -> Perhaps {
    const bool hit = info.call == Call::kAppend && std::ranges::count(of_log, info.at.band) > 0;
    if (!hit || ++failures > 1) return std::nullopt;
    return Fault{Errc::kDeviceWrite, 1};
  });
  write(file, 0, block(3));
  EXPECT_TRUE(volume_->fsync(file, nullptr, false));
  EXPECT_GE(failures, 2);
  faulty_.mend();
  EXPECT_EQ(state(), "writable");
  lose_power();
  EXPECT_EQ(read(lookup("f")), block(3));
}

// ---- All at once --------------------------------------------------------------------------------

// Threads write, read and sync beside the volume's own threads, while now and then a call of the
// device fails. An operation that fails changes nothing; the files get all other changes.
TEST_F(ErrorsTest, WritersContinueWhileTheDeviceFailsNowAndThen) {
  constexpr std::uint64_t kFiles = 3, kBlocks = 200, kSteps = 500;
  ASSERT_TRUE(volume_->unmount());
  options_.background = true;
  options_.commit_interval = std::chrono::milliseconds(10);
  mount();
  SCOPED_TRACE(seed_trace());
  const std::uint64_t seed = test_seed();
  std::mt19937_64 lots(seed);  // the predicate's, which runs under the device's lock
  const auto of_log = log_bands();
  // Bands that the log takes later count as those of data; failures are some appends apart, so that
  // it always finds one that takes its transaction.
  constexpr int kApart = 12;
  int of_log_left = 3, appends_left = 40, reads_left = 20;
  int good_appends = 0;
  faulty_.fail_when([&](const CallInfo& info) -> Perhaps {
    const bool is_log = info.at.band.value < 2 || std::ranges::count(of_log, info.at.band) > 0;
    int& left = info.call == Call::kRead ? reads_left : is_log ? of_log_left : appends_left;
    const bool can_fail = info.call == Call::kRead || info.call == Call::kAppend;
    const bool is_append = info.call == Call::kAppend;
    const bool may_fail = can_fail && left > 0 && !(is_append && good_appends < kApart);
    const bool fails = may_fail && lots() % 20 == 0;
    if (is_append) good_appends = fails ? 0 : good_appends + 1;
    if (!fails) return std::nullopt;
    --left;
    return info.call == Call::kRead ? Fault{Errc::kDeviceRead}
                                    : Fault{Errc::kDeviceWrite, lots() % 3};
  });
  std::vector<std::vector<char>> models(kFiles, std::vector<char>(kBlocks, 'a'));
  std::vector<InodeNo> files;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(create("f" + std::to_string(i)));
    ASSERT_TRUE(volume_->write(files[i], 0, bytes_of(std::string(kBlocks * kBlockBytes, 'a'))));
  }
  std::atomic<std::uint64_t> wrong{0}, failed{0};
  const auto work = [&](std::uint64_t i) {
    std::mt19937_64 random(seed + i + 1);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const std::uint64_t block = random() % kBlocks;
      const std::uint64_t count = std::min(1 + random() % 8, kBlocks - block);
      const char letter = static_cast<char>('a' + random() % 26);
      const std::string text(count * kBlockBytes, letter);
      if (volume_->write(files[i], block * kBlockBytes, bytes_of(text))) {
        std::fill_n(models[i].begin() + static_cast<std::ptrdiff_t>(block), count, letter);
      } else {
        ++failed;
      }
      if (random() % 8 == 0) failed += !volume_->fsync(files[i], nullptr, false);
      std::string got(kBlockBytes, '?');
      const std::uint64_t other = random() % kBlocks;
      const auto n =
          volume_->read(files[i], other * kBlockBytes, std::as_writable_bytes(std::span(got)));
      failed += !n;
      wrong += n && got != std::string(kBlockBytes, models[i][other]);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kFiles; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(faulty_.faults(), 15u);
  std::cout << faulty_.faults() << " faults, " << failed << " operations failed of them\n";
  faulty_.mend();
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(state(), "writable");
  const auto compare = [&] {
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      const std::string got = read(lookup("f" + std::to_string(i)));
      for (std::uint64_t b = 0; b < kBlocks; ++b) {
        EXPECT_TRUE(got.substr(b * kBlockBytes, kBlockBytes) ==
                    std::string(kBlockBytes, models[i][b]))
            << "file " << i << " block " << b;
      }
    }
  };
  compare();
  faulty_.restore_power();  // a device that was restarted does not know which bands failed
  lose_power();
  compare();
}

}  // namespace
}  // namespace lazyfs::fs
