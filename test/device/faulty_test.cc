#include "device/faulty.h"

#include <gtest/gtest.h>

#include "device/memory.h"
#include "test/support/result_printer.h"

namespace lazyfs::device {
namespace {

class FaultyDeviceTest : public testing::Test {
 protected:
  static constexpr BandId kBand{1};

  Result<> append(std::uint32_t rba, std::uint32_t blocks = 1, BandId band = kBand) {
    return faulty_.append({band, rba},
                          Piece(bytes_.span()).first(std::size_t{blocks} * kBlockBytes));
  }
  Result<> read(std::uint32_t rba, BandId band = kBand) {
    AlignedBuffer one(kBlockBytes);
    return faulty_.read({band, rba}, one.span());
  }
  Result<std::uint32_t> pointer() { return faulty_.write_pointer(kBand); }

  std::unique_ptr<MemoryDevice> memory_ = MemoryDevice::uniform(4, 8);
  FaultyDevice faulty_{*memory_};
  AlignedBuffer bytes_ = AlignedBuffer::zeroed(4 * kBlockBytes);
};

TEST_F(FaultyDeviceTest, FailsTheNthCallOfAKindOnce) {
  faulty_.fail_nth(Call::kRead, 2, {.error = Errc::kDeviceRead});
  ASSERT_EQ(append(0), ok());
  EXPECT_EQ(read(0), ok());
  EXPECT_EQ(read(0), fail(Errc::kDeviceRead));
  EXPECT_EQ(read(0), ok());
  EXPECT_EQ(faulty_.calls(Call::kRead), 3u);
  EXPECT_EQ(faulty_.faults(), 1u);
}

TEST_F(FaultyDeviceTest, FailsEveryKindOfCall) {
  ASSERT_EQ(append(0), ok());
  for (const Call call : {Call::kRead, Call::kWritePointer, Call::kSetWritePointer, Call::kReset,
                          Call::kReport, Call::kFlush}) {
    faulty_.fail_nth(call, 1, {.error = Errc::kDeviceRead});
  }
  EXPECT_EQ(read(0), fail(Errc::kDeviceRead));
  EXPECT_EQ(pointer(), fail(Errc::kDeviceRead));
  EXPECT_EQ(faulty_.set_write_pointer(kBand, 0), fail(Errc::kDeviceRead));
  EXPECT_EQ(faulty_.reset(kBand), fail(Errc::kDeviceRead));
  EXPECT_EQ(faulty_.report(kBand), fail(Errc::kDeviceRead));
  EXPECT_EQ(faulty_.flush(), fail(Errc::kDeviceRead));
  EXPECT_EQ(pointer(), 1u);  // none of the calls reached the inner device
}

TEST_F(FaultyDeviceTest, TearsAnAppendAndRefusesTheBandUntilItIsReset) {
  ASSERT_EQ(append(0, 2), ok());
  faulty_.fail_nth(Call::kAppend, 1, {.error = Errc::kDeviceWrite, .blocks_done = 1});
  EXPECT_EQ(append(2, 3), fail(Errc::kDeviceWrite));
  EXPECT_EQ(pointer(), 3u);
  EXPECT_EQ(append(3), fail(Errc::kBandFailed));
  EXPECT_EQ(append(0, 1, BandId{2}), ok());
  EXPECT_EQ(read(2), ok());
  ASSERT_EQ(faulty_.reset(kBand), ok());
  EXPECT_EQ(append(0), ok());
}

TEST_F(FaultyDeviceTest, SettingTheWritePointerMakesAFailedBandUsable) {
  faulty_.fail_nth(Call::kAppend, 1, {.error = Errc::kDeviceNoSpace, .blocks_done = 2});
  EXPECT_EQ(append(0, 3), fail(Errc::kDeviceNoSpace));
  ASSERT_EQ(faulty_.set_write_pointer(kBand, 1), ok());
  EXPECT_EQ(append(1), ok());
}

TEST_F(FaultyDeviceTest, AnInvalidAppendFailsWithItsOwnError) {
  faulty_.fail_nth(Call::kAppend, 1, {.error = Errc::kDeviceWrite, .blocks_done = 1});
  EXPECT_EQ(append(5), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(pointer(), 0u);
  EXPECT_EQ(append(0), ok());
}

TEST_F(FaultyDeviceTest, FailsTheCallsThatAPredicatePicks) {
  faulty_.fail_when([](const CallInfo& info) -> std::optional<Fault> {
    if (info.call != Call::kRead || info.at.rba != 1) return {};
    return Fault{.error = Errc::kDeviceRead};
  });
  ASSERT_EQ(append(0, 3), ok());
  EXPECT_EQ(read(0), ok());
  EXPECT_EQ(read(1), fail(Errc::kDeviceRead));
  EXPECT_EQ(read(1), fail(Errc::kDeviceRead));
  faulty_.mend();
  EXPECT_EQ(read(1), ok());
}

TEST_F(FaultyDeviceTest, ABrokenBandFailsForEverAndTheOthersWork) {
  ASSERT_EQ(append(0), ok());
  faulty_.break_band(kBand);
  EXPECT_EQ(read(0), fail(Errc::kDeviceRead));
  EXPECT_EQ(append(1), fail(Errc::kDeviceWrite));
  EXPECT_EQ(faulty_.reset(kBand), fail(Errc::kDeviceWrite));
  EXPECT_EQ(faulty_.set_write_pointer(kBand, 0), fail(Errc::kDeviceWrite));
  EXPECT_EQ(append(0, 1, BandId{0}), ok());
  EXPECT_EQ(read(0, BandId{0}), ok());
  EXPECT_EQ(faulty_.flush(), ok());
}

TEST_F(FaultyDeviceTest, WithoutPowerEveryCallFails) {
  ASSERT_EQ(append(0), ok());
  faulty_.cut_power();
  EXPECT_EQ(read(0), fail(Errc::kPowerCut));
  EXPECT_EQ(append(1), fail(Errc::kPowerCut));
  EXPECT_EQ(pointer(), fail(Errc::kPowerCut));
  EXPECT_EQ(faulty_.set_write_pointer(kBand, 0), fail(Errc::kPowerCut));
  EXPECT_EQ(faulty_.reset(kBand), fail(Errc::kPowerCut));
  EXPECT_EQ(faulty_.report(kBand), fail(Errc::kPowerCut));
  EXPECT_EQ(faulty_.flush(), fail(Errc::kPowerCut));
  faulty_.restore_power();
  EXPECT_EQ(pointer(), 1u);
  EXPECT_EQ(append(1), ok());
}

TEST_F(FaultyDeviceTest, CutsThePowerInTheMiddleOfTheNthChange) {
  faulty_.cut_power_at_change(3, 2);
  EXPECT_EQ(append(0), ok());
  EXPECT_EQ(read(0), ok());
  EXPECT_EQ(faulty_.flush(), ok());
  EXPECT_EQ(append(1, 4), fail(Errc::kPowerCut));
  EXPECT_EQ(read(0), fail(Errc::kPowerCut));
  EXPECT_EQ(faulty_.changes(), 3u);
  EXPECT_EQ(memory_->write_pointer(kBand), 3u);
}

}  // namespace
}  // namespace lazyfs::device
