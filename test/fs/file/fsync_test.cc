// What an fsync costs the device.
#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class FsyncTest : public VolumeTest {
 protected:
  using Call = device::Call;
  struct Calls {
    std::uint64_t appends = 0, flushes = 0;
    friend bool operator==(const Calls&, const Calls&) = default;
  };
  Calls calls() const { return {faulty_.calls(Call::kAppend), faulty_.calls(Call::kFlush)}; }
  Calls calls_since(const Calls& before) const {
    const Calls now = calls();
    return {now.appends - before.appends, now.flushes - before.flushes};
  }
  void fsync(InodeNo file) { ASSERT_TRUE(volume_->fsync(file, nullptr, false)); }
  static std::string text(std::size_t length, char c = 'a') { return std::string(length, c); }
};

TEST_F(FsyncTest, FsyncOfANewFileIsTwoAppendsAndOneFlush) {
  for (int i = 0; i < 20; ++i) {
    const InodeNo file = create("f" + std::to_string(i));
    write(file, 0, text(8192));
    const Calls before = calls();
    fsync(file);
    EXPECT_EQ(calls_since(before), (Calls{2, 1})) << i;
  }
}

TEST_F(FsyncTest, FsyncAfterAnOverwriteIsTwoAppendsAndOneFlush) {
  const InodeNo file = create("f");
  write(file, 0, text(16384));
  fsync(file);
  for (int i = 0; i < 20; ++i) {
    write(file, 4096 * (i % 4), text(4096, 'b'));
    const Calls before = calls();
    fsync(file);
    EXPECT_EQ(calls_since(before), (Calls{2, 1})) << i;
  }
}

// A copy writes the file's data back. The blocks that are overwritten die in the transaction that
// brought them, and their band may be reset once it is durable: they cannot be named.
TEST_F(FsyncTest, DataThatDiesInItsOwnTransactionCostsAFlush) {
  const InodeNo file = create("f"), other = create("g");
  write(file, 0, text(32768));
  ASSERT_TRUE(volume_->copy_range(file, 16384, other, 0, 16384, false));
  write(file, 0, text(8192, 'b'));
  const Calls before = calls();
  fsync(file);
  EXPECT_EQ(calls_since(before), (Calls{2, 2}));
}

TEST_F(FsyncTest, FsyncOfAFileWithNothingNewIsOneFlush) {
  const InodeNo file = create("f");
  fsync(file);
  const Calls before = calls();
  fsync(file);
  EXPECT_EQ(calls_since(before), (Calls{0, 1}));
}

}  // namespace
}  // namespace lazyfs::fs
