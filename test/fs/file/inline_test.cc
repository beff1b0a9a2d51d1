// The last blocks of files in the metadata log (fs/file/inline_block.h): what an fsync costs, where
// the contents go, and that nothing that changes files forgets them.
#include <algorithm>
#include <array>
#include <random>

#include "device/faulty.h"
#include "fs/item/schema.h"
#include "fs/volume/open_file.h"
#include "meta/store/store.h"
#include "test/fs/volume_fixture.h"
#include "test/support/seed.h"
#include "test/support/units.h"

namespace lazyfs::fs {
namespace {

class InlineTest : public VolumeTest {
 protected:
  struct Appends {
    std::uint64_t log = 0, data = 0;
    friend bool operator==(const Appends&, const Appends&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Appends& a) {
      return out << a.log << " to the log, " << a.data << " to data bands";
    }
  };

  void SetUp() override {
    VolumeTest::SetUp();
    const auto store = meta::Store::open(*device_, {.background = false, .read_only = true});
    ASSERT_TRUE(store);
    log_bands_ = (*store)->log_bands();
    faulty_.fail_when([this](const device::CallInfo& call) -> std::optional<device::Fault> {
      if (call.call != device::Call::kAppend) return std::nullopt;
      // Without write pointers the superblock is written after each checkpoint, too.
      const auto& super_bands = device_->geometry().super_bands;
      if (std::ranges::count(super_bands, call.at.band) > 0) return std::nullopt;
      const bool is_log = std::ranges::count(log_bands_, call.at.band) > 0;
      (is_log ? appends_.log : appends_.data) += 1;
      return std::nullopt;
    });
  }
  Appends appends_of(const std::function<void()>& work) {
    appends_ = {};
    work();
    return appends_;
  }
  void fsync(InodeNo inode) { ASSERT_TRUE(volume_->fsync(inode, nullptr, false)); }
  // Appends to the file and makes it durable.
  Appends add(InodeNo inode, std::size_t bytes, char letter) {
    return appends_of([&] {
      write(inode, volume_->get_attributes(inode)->size, std::string(bytes, letter));
      fsync(inode);
    });
  }
  // The numbers of its pieces in the tree. Unmounts and mounts.
  std::vector<std::uint64_t> pieces_of(InodeNo inode) {
    EXPECT_TRUE(volume_->unmount());
    volume_.reset();
    std::vector<std::uint64_t> pieces;
    {
      const auto store = meta::Store::open(*device_, {.background = false, .read_only = true});
      const auto items = (*store)->scan(key_of(inode, Kind::kInline),
                                        key_of(inode, Kind::kInline, meta::kMaxOffset), 100);
      for (const meta::Item& item : *items) pieces.push_back(item.key.offset);
    }
    fsck::expect_clean(*device_);
    mount();
    return pieces;
  }
  std::uint64_t sectors_of(InodeNo inode) { return volume_->get_attributes(inode)->blocks_512; }

  std::vector<BandId> log_bands_;
  Appends appends_;
};

using Pieces = std::vector<std::uint64_t>;

// ---- What an fsync costs ------------------------------------------------------------------------

TEST_F(InlineTest, FsyncOfANewFileOfUpToABlockIsOneAppend) {
  for (const std::size_t bytes : {1, 1024, 1025, 2048, 4095, 4096}) {
    const auto appends = appends_of([&] {
      const InodeNo file = create(std::to_string(bytes));
      write(file, 0, std::string(bytes, 'x'));
      fsync(file);
    });
    EXPECT_EQ(appends, (Appends{.log = 1, .data = 0})) << bytes;
  }
  lose_power();
  EXPECT_EQ(read(lookup("4096")), std::string(4096, 'x'));
  EXPECT_EQ(read(lookup("1025")), std::string(1025, 'x'));
}

TEST_F(InlineTest, FsyncOfALargerNewFileIsTwoAppends) {
  const auto appends = appends_of([&] {
    const InodeNo file = create("f");
    write(file, 0, std::string(kB + 1, 'x'));
    fsync(file);
  });
  EXPECT_EQ(appends, (Appends{.log = 1, .data = 1}));
  EXPECT_EQ(pieces_of(lookup("f")), Pieces{});
}

TEST_F(InlineTest, FsyncOfAnOverwrittenBlockIsTwoAppends) {
  const InodeNo file = create("f");
  write(file, 0, std::string(20 * kB, 'x'));
  fsync(file);
  const auto appends = appends_of([&] {
    write(file, 7 * kB, std::string(kB, 'y'));
    fsync(file);
  });
  EXPECT_EQ(appends, (Appends{.log = 1, .data = 1}));
}

TEST_F(InlineTest, AFileThatGrowsByAppendsNeedsABandOnceABlock) {
  const InodeNo file = create("journal");
  std::string expected;
  Appends sum;
  for (int i = 0; i < 100; ++i) {
    const char letter = static_cast<char>('a' + i % 26);
    const auto appends = add(file, 200, letter);
    sum.log += appends.log;
    sum.data += appends.data;
    expected += std::string(200, letter);
  }
  EXPECT_EQ(sum.data, 100u * 200 / kB);
  EXPECT_LE(sum.log, 100u + 4);  // where a transaction crosses into another band
  EXPECT_EQ(read(file), expected);
  lose_power();
  EXPECT_EQ(read(lookup("journal")), expected);
}

TEST_F(InlineTest, WriteBackThatNobodyWaitsForUsesBands) {
  const InodeNo file = create("f");
  write(file, 0, std::string(1025, 'x'));
  ASSERT_TRUE(volume_->sync());
  EXPECT_EQ(pieces_of(file), Pieces{});
}

// ---- Where the contents are ---------------------------------------------------------------------

TEST_F(InlineTest, PiecesOfZerosAreNotStored) {
  const InodeNo file = create("f");
  const std::string contents = std::string(10, 'x') + std::string(2500, '\0') + std::string(9, 'y');
  write(file, 0, contents);
  fsync(file);
  EXPECT_EQ(pieces_of(file), (Pieces{0, 2}));
  EXPECT_EQ(read(file), contents);
  write(file, 2510, std::string(9, '\0'));
  fsync(file);
  EXPECT_EQ(pieces_of(file), Pieces{0});
  EXPECT_EQ(read(file), std::string(10, 'x') + std::string(2509, '\0'));
}

TEST_F(InlineTest, ABlockOfZerosIsData) {
  const InodeNo file = create("f");
  write(file, 0, std::string(3000, '\0'));
  fsync(file);
  EXPECT_EQ(volume_->find_data(file, 0), 0u);
  remount();
  EXPECT_EQ(volume_->find_data(lookup("f"), 5), 5u);
}

TEST_F(InlineTest, TheLastPartOfALargeFileIsInline) {
  const InodeNo file = create("f");
  write(file, 0, std::string(3 * kB, 'a'));
  fsync(file);
  EXPECT_EQ(add(file, 1500, 'b'), (Appends{.log = 1, .data = 0}));
  EXPECT_EQ(sectors_of(file), 3 * 8 + 3u);
  EXPECT_EQ(pieces_of(file), (Pieces{12, 13}));
  EXPECT_EQ(sectors_of(file), 3 * 8 + 3u);
  EXPECT_EQ(read(file), std::string(3 * kB, 'a') + std::string(1500, 'b'));
  EXPECT_EQ(read(file, 3 * kB + 1000, 100), std::string(100, 'b'));
}

TEST_F(InlineTest, ABlockThatTheFileHasGrownPastMovesToABand) {
  const InodeNo file = create("f");
  add(file, 3000, 'a');
  EXPECT_EQ(pieces_of(file), (Pieces{0, 1, 2}));
  write(file, 2 * kB, "b");  // block 0 is not touched
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(pieces_of(file), Pieces{});
  const std::string expected = std::string(3000, 'a') + std::string(2 * kB - 3000, '\0') + "b";
  EXPECT_EQ(read(file), expected);
  EXPECT_EQ(sectors_of(file), 16u);
}

TEST_F(InlineTest, OnlyOneBlockOfAFileIsInline) {
  const InodeNo file = create("f");
  add(file, kB, 'a');
  EXPECT_EQ(add(file, kB - 1, 'b'), (Appends{.log = 1, .data = 1}));
  EXPECT_EQ(pieces_of(file), (Pieces{4, 5, 6, 7}));
  EXPECT_EQ(read(file), std::string(kB, 'a') + std::string(kB - 1, 'b'));
}

// Else each of them would be written twice.
TEST_F(InlineTest, OfBlocksThatAreAppendedOneByOneTwoShareAnAppend) {
  const InodeNo file = create("f");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(add(file, kB, 'a').data, i % 2 == 0 ? 0u : 1u) << i;
  EXPECT_EQ(pieces_of(file), Pieces{});
}

TEST_F(InlineTest, AnOverwrittenInlineBlockGoesWhereItsWriteBackSays) {
  const InodeNo file = create("f");
  add(file, 3000, 'a');
  const auto appends = appends_of([&] {
    write(file, 100, "b");
    fsync(file);
  });
  EXPECT_EQ(appends, (Appends{.log = 1, .data = 0}));
  write(file, 200, "c");
  EXPECT_TRUE(volume_->sync());
  EXPECT_EQ(pieces_of(file), Pieces{});
  std::string expected(3000, 'a');
  expected[100] = 'b';
  expected[200] = 'c';
  EXPECT_EQ(read(file), expected);
}

// ---- Moving out ---------------------------------------------------------------------------------

TEST_F(InlineTest, TheOldestOfManyInlineBlocksMoveToBandsTogether) {
  std::vector<InodeNo> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(create(std::to_string(i)));
    write(files.back(), 0, std::string(kB, static_cast<char>('a' + i % 26)));
    fsync(files.back());
  }
  const auto appends = appends_of([&] { volume_->tick(); });
  EXPECT_EQ(appends, (Appends{.log = 0, .data = 1}));
  EXPECT_EQ(pieces_of(files.front()), Pieces{});
  EXPECT_EQ(pieces_of(files.back()), (Pieces{0, 1, 2, 3}));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(read(lookup(std::to_string(i))), std::string(kB, static_cast<char>('a' + i % 26)));
  }
}

class LaterClock final : public Clock {
 public:
  Timestamp now() override { return system_clock().now(); }
  std::chrono::nanoseconds monotonic() override { return system_clock().monotonic() + ahead; }
  std::chrono::nanoseconds ahead{0};
};

class InlineAgeTest : public InlineTest {
 protected:
  static constexpr std::chrono::seconds kAge{30};

  InlineAgeTest() { options_.cache_bytes = 0; }  // the least
  void mount() override {
    auto volume = Volume::mount(faulty_, options_, clock_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void TearDown() override {
    InlineTest::TearDown();
    volume_.reset();  // before the clock that it uses
  }
  // Ticks after the time that an inline block waits.
  void tick_later() {
    clock_.ahead += kAge;
    volume_->tick();
  }
  // From now on the nodes of files that were made so far cannot be read.
  void break_metadata_reads() {
    const InodeNo large = create("large");
    const std::string value(kMaxXattrBytes, 'v');
    ASSERT_TRUE(volume_->set_xattr(large, "user.large", value, XattrMode::kAny));
    ASSERT_TRUE(volume_->sync());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(volume_->get_xattr(large, "user.large"), value);
    faulty_.fail_when([this](const device::CallInfo& call) -> std::optional<device::Fault> {
      const bool is_node =
          call.call == device::Call::kRead && std::ranges::count(log_bands_, call.at.band) > 0;
      return is_node ? std::optional(device::Fault{Errc::kDeviceRead}) : std::nullopt;
    });
  }
  // Nothing must have been moved so far.
  void expect_to_move(InodeNo file, std::uint64_t sectors) {
    const std::string contents = read(file);
    EXPECT_EQ(sectors_of(file), sectors);
    volume_->tick();
    EXPECT_EQ(sectors_of(file), (sectors + 7) / 8 * 8);
    EXPECT_EQ(read(file), contents);
  }

  LaterClock clock_;
};

TEST_F(InlineAgeTest, AnInlineBlockThatIsNotWrittenAnyMoreMovesToABand) {
  const InodeNo old = create("old"), busy = create("busy"), small = create("small");
  const InodeNo deleted = create("deleted");
  for (const InodeNo file : {old, busy, deleted}) add(file, 2000, 'a');
  add(small, 1000, 'a');
  volume_->forget(deleted, 1);
  ASSERT_TRUE(volume_->unlink(kRootInode, "deleted"));
  clock_.ahead += std::chrono::seconds(20);
  add(busy, 1, 'b');
  clock_.ahead += std::chrono::seconds(20);
  volume_->tick();
  EXPECT_EQ(sectors_of(old), 8u);
  EXPECT_EQ(sectors_of(busy), 4u);
  EXPECT_EQ(sectors_of(small), 2u);
  EXPECT_EQ(read(old), std::string(2000, 'a'));
  EXPECT_EQ(read(busy), std::string(2000, 'a') + 'b');
  remount();
  EXPECT_EQ(read(lookup("old")), std::string(2000, 'a'));
}

TEST_F(InlineAgeTest, AnInlineBlockWhoseInodeCannotBeReadMovesLater) {
  const InodeNo file = create("f");
  add(file, 2000, 'a');
  volume_->forget(file, 1);
  break_metadata_reads();
  tick_later();
  faulty_.mend();
  clock_.ahead += kAge;
  expect_to_move(lookup("f"), 4);
}

TEST_F(InlineAgeTest, AnInlineBlockThatCannotBeReadMovesLaterAndIsNotTriedAtEachPass) {
  const InodeNo file = create("f");
  add(file, 2000, 'a');
  break_metadata_reads();
  const auto opened = volume_->open(file);
  ASSERT_TRUE(opened);
  tick_later();
  EXPECT_EQ((*opened)->take_error().error(), Errc::kDeviceRead);
  volume_->tick();
  EXPECT_TRUE((*opened)->take_error());
  volume_->release(*opened);
  faulty_.mend();
  clock_.ahead += kAge;
  expect_to_move(file, 4);
}

TEST_F(InlineAgeTest, AnInlineBlockThatFindsNoSpaceMovesOnceThereIsSome) {
  const InodeNo file = create("f"), all = create("all");
  std::uint64_t end = 0;
  const auto fill = [&](std::uint64_t blocks_left) {
    for (; volume_->space()->available_blocks > blocks_left; end += kB) {
      write(all, end, std::string(kB, 'x'));
    }
    ASSERT_TRUE(volume_->sync());
  };
  fill(8);
  add(file, 2000, 'a');
  fill(0);
  tick_later();
  EXPECT_EQ(sectors_of(file), 4u);
  volume_->forget(all, 1);
  ASSERT_TRUE(volume_->unlink(kRootInode, "all"));
  for (int i = 0; i < 2; ++i) volume_->tick();  // the first may delete the file at its end
  EXPECT_EQ(sectors_of(file), 8u);
  EXPECT_EQ(read(file), std::string(2000, 'a'));
}

TEST_F(InlineTest, AsManyFilesFitOnTheDiskAsWithoutFsync) {
  const auto fill = [&](bool syncs_each) {
    const InodeNo folder = volume_->make_directory(kRootInode, "d", 0755, {})->inode;
    int count = 0;
    for (bool is_full = false; !is_full; ++count) {
      const auto made = volume_->create(folder, std::to_string(count), 0644, {});
      if (!made) break;
      volume_->release(made->file);
      const InodeNo file = made->attributes.inode;
      is_full = !volume_->write(file, 0, bytes_of(std::string(kB, 'x')));
      if (syncs_each) is_full |= !volume_->fsync(file, nullptr, false);
      if (!syncs_each && count % 16 == 0) is_full |= !volume_->sync();
      if (count % 16 == 0) volume_->tick();
      volume_->forget(file, 1);
    }
    for (int i = 0; i <= count; ++i) {
      ignore_error(volume_->unlink(folder, std::to_string(i)), "the last one may not exist");
    }
    EXPECT_TRUE(volume_->remove_directory(kRootInode, "d"));
    volume_->forget(folder, 1);
    EXPECT_TRUE(volume_->collect_garbage());
    return count;
  };
  const std::uint64_t available = volume_->space()->available_blocks;
  const int without = fill(false);
  const int with = fill(true);
  EXPECT_GE(with, without * 95 / 100) << "of " << without;
  // A log without write pointers may keep a band more than before: its rescue band has moved.
  const std::uint64_t kept = test_device_is_plain() ? device_->geometry().blocks_of(BandId{2}) : 0;
  EXPECT_GE(volume_->space()->available_blocks + kept, available * 99 / 100);
}

// ---- Changing files with an inline block --------------------------------------------------------

TEST_F(InlineTest, TruncatingCutsThePieces) {
  const InodeNo file = create("f");
  write(file, 0, std::string(2 * kB, 'a'));
  fsync(file);
  add(file, 3000, 'b');
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 2 * kB + 1100}));
  EXPECT_EQ(pieces_of(file), (Pieces{8, 9}));
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 2 * kB + 1024}));
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 5 * kB}));
  EXPECT_EQ(pieces_of(file), Pieces{8});
  EXPECT_EQ(read(file),
            std::string(2 * kB, 'a') + std::string(1024, 'b') + std::string(3 * kB - 1024, '\0'));
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 2 * kB}));
  EXPECT_EQ(pieces_of(file), Pieces{});
  ASSERT_TRUE(volume_->set_attributes(file, {.size = 3 * kB}));
  EXPECT_EQ(read(file), std::string(2 * kB, 'a') + std::string(kB, '\0'));
}

TEST_F(InlineTest, PunchedPartsReadAsZerosAndAPunchedBlockIsAHole) {
  const InodeNo file = create("f");
  write(file, 0, std::string(2 * kB, 'a'));
  fsync(file);
  add(file, 3000, 'b');
  remount();
  ASSERT_TRUE(volume_->punch(file, 2 * kB + 1000, 1000, {}));
  std::string expected = std::string(2 * kB, 'a') + std::string(1000, 'b') +
                         std::string(1000, '\0') + std::string(1000, 'b');
  EXPECT_EQ(read(file), expected);
  fsync(file);
  EXPECT_EQ(pieces_of(file), (Pieces{8, 9, 10}));
  EXPECT_EQ(read(file), expected);
  EXPECT_EQ(volume_->find_data(file, 2 * kB + 7), 2 * kB + 7);
  ASSERT_TRUE(volume_->punch(file, 2 * kB, kB, {}));
  EXPECT_EQ(volume_->find_data(file, 2 * kB).error(), Errc::kNoSuchRange);
  EXPECT_EQ(volume_->find_hole(file, 0), 2 * kB);
  EXPECT_EQ(pieces_of(file), Pieces{});
}

TEST_F(InlineTest, AnInlineBlockAfterAHoleIsFound) {
  const InodeNo file = create("f");
  write(file, 50 * kB, std::string(2000, 'x'));
  fsync(file);
  remount();
  EXPECT_EQ(volume_->find_data(file, 3 * kB), 50 * kB);
  EXPECT_EQ(volume_->find_hole(file, 50 * kB), 50 * kB + 2000);
  EXPECT_EQ(sectors_of(file), 4u);
  EXPECT_EQ(pieces_of(file), (Pieces{200, 201}));
}

TEST_F(InlineTest, ACopySharesTheBlocksAndMovesTheInlineOneToABand) {
  const InodeNo from = create("from");
  write(from, 0, std::string(3 * kB, 'a'));
  fsync(from);
  add(from, 1500, 'b');
  const InodeNo to = create("to");
  add(to, 2000, 'c');
  ASSERT_EQ(volume_->copy_range(from, 0, to, 0, 4 * kB, false), 3 * kB + 1500);
  const std::string expected = std::string(3 * kB, 'a') + std::string(1500, 'b');
  EXPECT_EQ(read(to), expected);
  EXPECT_EQ(pieces_of(to), Pieces{});
  EXPECT_EQ(pieces_of(from), Pieces{});
  EXPECT_EQ(read(to), expected);
  EXPECT_EQ(read(from), expected);
  EXPECT_EQ(volume_->get_attributes(to)->blocks_512, 32u);
}

TEST_F(InlineTest, ACopyIsDurableThoughItMovedABlockThatWasNotDirty) {
  const InodeNo from = create("from");
  write(from, 0, std::string(kB, 'a'));
  fsync(from);
  add(from, 1500, 'b');
  remount();
  const InodeNo to = create("to");
  ASSERT_TRUE(volume_->copy_range(from, 0, to, 0, 2 * kB, false));
  EXPECT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(read(lookup("to")), std::string(kB, 'a') + std::string(1500, 'b'));
  EXPECT_EQ(read(lookup("from")), std::string(kB, 'a') + std::string(1500, 'b'));
}

TEST_F(InlineTest, DeletingTheFileRemovesItsPieces) {
  const InodeNo file = create("f");
  add(file, kB, 'a');
  ASSERT_TRUE(volume_->unlink(kRootInode, "f"));
  remount();
  volume_->tick();
  EXPECT_EQ(pieces_of(file), Pieces{});
}

TEST_F(InlineTest, AFileWithoutANameKeepsItsBlockWhenItGetsOne) {
  const auto made = volume_->create_unnamed(kRootInode, 0600, {});
  ASSERT_TRUE(made);
  const InodeNo file = made->attributes.inode;
  write(file, 0, std::string(2000, 'x'));
  fsync(file);
  ASSERT_TRUE(volume_->link(file, kRootInode, "f"));
  volume_->release(made->file);
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(read(lookup("f")), std::string(2000, 'x'));
}

// ---- At random, against a model -----------------------------------------------------------------

class InlineModelTest : public InlineTest {
 protected:
  struct File {
    InodeNo inode;
    std::string contents, durable;
    bool is_durable = true;
  };

  std::uint64_t upto(std::uint64_t n) { return random_() % n; }
  // Near the edges of pieces and blocks.
  std::uint64_t place() {
    constexpr std::array<std::uint64_t, 9> kPlaces{0, 1, 1023, 1024, 2048, 3072, 4095, 4096, 700};
    return upto(4) * kB + kPlaces[upto(kPlaces.size())] + upto(3) * upto(50);
  }
  void step(File& f, File& other) {
    switch (upto(12)) {
      case 0:
      case 1: return overwrite(f, place(), 1 + upto(5000));
      case 2:
      case 3:
      case 4: return overwrite(f, f.contents.size(), 1 + upto(1500));
      case 5:
      case 6: return make_durable(f);
      case 7: return truncate(f, place());
      case 8: return clear(f, place(), 1 + upto(6000));
      case 9: return copy(f, other);
      case 10: ASSERT_TRUE(volume_->sync()); break;
      default: return upto(4) == 0 ? remount() : volume_->tick();
    }
  }
  void overwrite(File& f, std::uint64_t at, std::uint64_t bytes) {
    const std::string text(bytes, static_cast<char>('a' + upto(26)));
    write(f.inode, at, text);
    if (f.contents.size() < at + bytes) f.contents.resize(at + bytes, '\0');
    f.contents.replace(at, bytes, text);
  }
  void make_durable(File& f) {
    fsync(f.inode);
    if (upto(8) > 0) return;
    lose_power();
    EXPECT_EQ(read(f.inode), f.contents);
    after_crash_ = true;
  }
  void truncate(File& f, std::uint64_t size) {
    ASSERT_TRUE(volume_->set_attributes(f.inode, {.size = size}));
    f.contents.resize(size, '\0');
  }
  void clear(File& f, std::uint64_t at, std::uint64_t bytes) {
    const bool zeroes = upto(2) == 0;
    ASSERT_TRUE(zeroes ? volume_->zero(f.inode, at, bytes, {})
                       : volume_->punch(f.inode, at, bytes, {}));
    if (zeroes && f.contents.size() < at + bytes) f.contents.resize(at + bytes, '\0');
    if (at >= f.contents.size()) return;
    bytes = std::min(bytes, f.contents.size() - at);
    f.contents.replace(at, bytes, std::string(bytes, '\0'));
  }
  void copy(File& from, File& to) {
    const std::uint64_t at = upto(4) * kB, to_at = upto(4) * kB, bytes = 1 + upto(4 * kB);
    const auto copied = volume_->copy_range(from.inode, at, to.inode, to_at, bytes, false);
    ASSERT_TRUE(copied) << describe(copied.error());
    const std::string text = from.contents.substr(std::min(at, from.contents.size()), bytes);
    ASSERT_EQ(*copied, text.size());
    if (text.empty()) return;
    to.contents.resize(std::max(to.contents.size(), to_at + text.size()), '\0');
    to.contents.replace(to_at, text.size(), text);
  }
  void expect_same(const File& f) {
    ASSERT_EQ(volume_->get_attributes(f.inode)->size, f.contents.size());
    ASSERT_TRUE(read(f.inode) == f.contents);
    const std::uint64_t at = upto(f.contents.size() + 1), bytes = 1 + upto(3000);
    ASSERT_TRUE(read(f.inode, at, bytes) == f.contents.substr(at, bytes));
    expect_holes_are_zeros(f);
  }
  void expect_holes_are_zeros(const File& f) {
    for (std::uint64_t at = 0; at < f.contents.size();) {
      const std::uint64_t data = volume_->find_data(f.inode, at).value_or(f.contents.size());
      ASSERT_EQ(f.contents.substr(at, data - at), std::string(data - at, '\0'));
      if (data >= f.contents.size()) return;
      const auto hole = volume_->find_hole(f.inode, data);
      ASSERT_TRUE(hole);
      ASSERT_GT(*hole, data);
      at = *hole;
    }
  }

  std::mt19937_64 random_{test_seed()};
  bool after_crash_ = false;
};

TEST_F(InlineModelTest, AnySequenceOfChangesReadsAsTheModelSays) {
  std::array<File, 2> files{File{create("a"), "", "", true}, File{create("b"), "", "", true}};
  ASSERT_TRUE(volume_->sync());
  for (int i = 0; i < 1500 && !HasFailure(); ++i) {
    const std::size_t n = upto(2);
    step(files[n], files[1 - n]);
    if (std::exchange(after_crash_, false)) {  // of the other file anything may be lost
      files[1 - n].contents = read(files[1 - n].inode);
    }
    for (const File& f : files) expect_same(f);
  }
}

}  // namespace
}  // namespace lazyfs::fs
