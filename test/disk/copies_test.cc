// What is stored twice on a plain block device.
#include "disk/copies.h"

#include <gtest/gtest.h>

#include "disk/open.h"
#include "test/plain/plain_file.h"
#include "test/support/result_printer.h"
#include "test/support/units.h"

namespace lazyfs::disk {
namespace {

constexpr std::uint64_t kBytes = 16 * kMiB;

class CopiesTest : public testing::Test {
 protected:
  CopiesTest() { EXPECT_EQ(plain::create(file_.path(), *plain::plan_volume(kBytes, kMiB)), ok()); }
  std::vector<std::string> damaged() const {
    const auto copies = damaged_copies(**open(file_.path()));
    EXPECT_TRUE(copies && copies->often_written.empty());
    return copies ? copies->never_written : std::vector<std::string>{};
  }
  std::vector<std::string> mend() const {
    return mend_copies(**open(file_.path())).value_or(std::vector<std::string>{"failed"});
  }
  std::string block(std::uint64_t at) const { return file_.bytes(at, kBlockBytes); }

  plain::PlainFile file_{kBytes};
  const std::uint64_t copy_at_ = plain::copy_at(kBytes);
};

TEST_F(CopiesTest, EitherIdentificationBlockIsMendedFromTheOther) {
  const std::string intact = block(plain::kIdentityAt);
  for (const std::uint64_t at : {plain::kIdentityAt, copy_at_}) {
    file_.overwrite(at, 100, '?');
    const auto found = damaged();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].contains("byte " + std::to_string(at) + " "));
    EXPECT_EQ(mend().size(), 1u);
    EXPECT_TRUE(damaged().empty());
    EXPECT_TRUE(block(plain::kIdentityAt) == intact);
    EXPECT_TRUE(block(copy_at_) == intact);
  }
}

TEST_F(CopiesTest, IntactOnesAreLeft) {
  EXPECT_TRUE(damaged().empty());
  EXPECT_TRUE(mend().empty());
}

TEST_F(CopiesTest, ADiskThatCannotBeReadIsAnErrorAndNoDamage) {
  const auto loop = LoopDevice::make(kBytes, true);
  if (!loop) GTEST_SKIP() << "no loop device";
  ASSERT_EQ(plain::create(loop->path(), *plain::plan_volume(kBytes, kMiB)), ok());
  const auto device = *open(loop->path());
  ASSERT_TRUE(loop->cut_file(0));
  const auto copies = damaged_copies(*device);
  EXPECT_TRUE(!copies && copies.error() == Errc::kDeviceRead);
  const auto mended = mend_copies(*device);
  EXPECT_TRUE(!mended && mended.error() == Errc::kDeviceRead);
}

}  // namespace
}  // namespace lazyfs::disk
