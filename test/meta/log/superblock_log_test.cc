// The log of superblocks over sessions and power cuts, on devices with and without write pointers.
#include "meta/log/superblock_log.h"

#include "device/faulty.h"
#include "device/power_cut.h"
#include "meta/log/superblock_format.h"
#include "test/meta/fixture.h"
#include "test/meta/troubled_device.h"
#include "test/support/result_printer.h"

namespace lazyfs::meta {
namespace {

class SuperblockLogTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint32_t kBands = 8, kBandBlocks = 300;

  static device::Capabilities capabilities() { return {.keeps_write_pointers = GetParam()}; }
  static device::Geometry geometry() {
    device::Geometry geometry;
    geometry.band_blocks.assign(kBands, kBandBlocks);
    geometry.band_kinds.assign(kBands, device::BandKind::kShingled);
    geometry.super_bands = {BandId{2}, BandId{7}};
    return geometry;
  }
  static Superblock first() {
    Superblock s;
    s.super_bands = geometry().super_bands;
    s.band_count = kBands;
    s.log_bands = {BandId{3}, BandId{4}, BandId{5}, BandId{6}};
    s.sequence = 1;
    return s;
  }
  void format() {
    const Superblock s = first();
    ASSERT_EQ(erase_superblocks(*memory_, s.super_bands), ok());
    ASSERT_EQ(SuperblockLog::format(*memory_, s), ok());
  }
  // A session that ends with a crash.
  static void session(device::Device& device, int records) {
    const auto newest = read_superblock(device);
    ASSERT_TRUE(newest);
    SuperblockLog log(device, *newest);
    for (int i = 0; i < records; ++i) ASSERT_EQ(log.write(log.current()), ok());
  }
  static std::uint64_t newest_on(device::Device& device) {
    const auto found = read_superblock(device);
    return found ? found->sequence : 0;
  }
  // What is found when one super band holds nothing.
  std::uint64_t newest_without(std::size_t index) {
    device::FaultyDevice faulty(*memory_);
    faulty.break_band(geometry().super_bands[index]);
    return newest_on(faulty);
  }
  void write_torn_record() {
    const BandId band = geometry().super_bands[0];
    const AlignedBuffer garbage = AlignedBuffer::zeroed(kBlockBytes);
    ASSERT_EQ(memory_->append({band, *memory_->write_pointer(band)}, garbage.span()), ok());
  }

  std::unique_ptr<device::MemoryDevice> memory_ =
      std::make_unique<device::MemoryDevice>(geometry(), capabilities());
};

// Without write pointers the device aborts when a block is written twice.
TEST_P(SuperblockLogTest, SessionsThatCrashNeverWriteWhereAnEarlierOneDid) {
  format();
  std::uint64_t sequence = 1;
  for (const int records : {1, 1, 2, 5, 1, 20, 3}) {
    session(*memory_, records);
    write_torn_record();
    memory_->forget_write_pointers();
    sequence += static_cast<std::uint64_t>(records) + 1;
    for (const std::size_t lost : {0, 1}) EXPECT_EQ(newest_without(lost), sequence);
  }
}

TEST_P(SuperblockLogTest, ALongSessionBeginsTheBandsAgain) {
  format();
  session(*memory_, 1000);
  memory_->forget_write_pointers();
  for (const std::size_t lost : {0, 1}) EXPECT_EQ(newest_without(lost), 1002u);
}

// A power cut loses a record, and a later one tears a write to the same place: the block shows the
// lost record again, as whole as it was.
TEST_P(SuperblockLogTest, ARecordThatACrashHasLostDoesNotComeBack) {
  format();
  session(*memory_, 1);
  const auto newest = read_superblock(*memory_);
  ASSERT_TRUE(newest);
  Superblock lost = *newest;
  ++lost.sequence;
  lost.label = "lost";
  {
    SuperblockLog log(*memory_, *newest);
    Superblock next = log.current();
    next.label = "counts";
    ASSERT_EQ(log.write(next), ok());
  }
  AlignedBuffer block(kBlockBytes);
  encode(lost, block.span().first<kBlockBytes>());
  const BandId band = geometry().super_bands[0];
  ASSERT_EQ(memory_->append({band, *memory_->write_pointer(band)}, block.span()), ok());
  memory_->forget_write_pointers();
  const auto found = read_superblock(*memory_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, "counts");
}

TEST_P(SuperblockLogTest, AtEveryPowerCutTheNewestReportedRecordIsFound) {
  format();
  session(*memory_, 3);
  memory_->forget_write_pointers();
  device::RecordingDevice recorded(*memory_);
  const std::size_t begin = recorded.op_count();
  std::vector<std::pair<std::size_t, std::uint64_t>> promised;  // ops, the sequence durable then
  {
    SuperblockLog log(recorded, *read_superblock(recorded));
    promised.emplace_back(begin, log.current().sequence);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(log.write(log.current()), ok());
      promised.emplace_back(recorded.op_count(), log.current().sequence);
    }
  }
  const device::Recording recording = recorded.recording();
  for (std::size_t ops = begin; ops <= recording.ops.size(); ++ops) {
    std::uint64_t durable = 0;
    for (const auto& [at, sequence] : promised) durable = at <= ops ? sequence : durable;
    for (device::EveryChoice choice; choice.is_valid(); choice.advance()) {
      const auto device = after_power_cut(recording, ops, choice);
      EXPECT_GE(newest_on(*device), durable) << ops;
      session(*device, 1);
    }
  }
}

TEST_P(SuperblockLogTest, ANewFilesystemIsFoundDespiteTheOldOnesRecords) {
  format();
  session(*memory_, 290);
  memory_->forget_write_pointers();
  format();
  memory_->forget_write_pointers();
  EXPECT_EQ(newest_on(*memory_), 1u);
}

TEST_P(SuperblockLogTest, ABandThatFailsLeavesTheOtherOneItsRecords) {
  format();
  session(*memory_, 3);
  device::FaultyDevice faulty(*memory_);
  for (const std::size_t broken : {0, 1, 1, 0}) {
    memory_->forget_write_pointers();
    const std::uint64_t before = newest_on(*memory_);
    faulty.break_band(geometry().super_bands[broken]);
    session(faulty, 2);
    EXPECT_EQ(newest_on(faulty), before + 3);
    faulty.mend();
    memory_->forget_write_pointers();
    session(faulty, 1);
    for (const std::size_t lost : {0, 1}) EXPECT_EQ(newest_without(lost), before + 5);
  }
}

// One super band holds nothing, and one read of the other one is wrong.
TEST_P(SuperblockLogTest, TheNewestRecordIsFoundWhicheverReadIsWrong) {
  format();
  session(*memory_, 70);  // more than a search reads at once
  memory_->forget_write_pointers();
  const std::uint64_t newest = newest_on(*memory_);
  for (const BandId lost : geometry().super_bands) {
    bool is_past = true;
    for (std::uint64_t n = 1; is_past; ++n) {
      device::FaultyDevice faulty(*memory_);
      faulty.break_band(lost);
      WrongReadDevice wrong(faulty, n);
      EXPECT_EQ(newest_on(wrong), newest) << n;
      is_past = wrong.is_past();
    }
  }
}

TEST_P(SuperblockLogTest, ARecordThatNamesOtherSuperBandsIsNotBelieved) {
  Superblock other = first();
  other.super_bands = {BandId{2}, BandId{1}};
  ASSERT_EQ(SuperblockLog::format(*memory_, other), ok());
  EXPECT_EQ(read_superblock(*memory_), fail(Errc::kSuperblockBad));
}

// Without write pointers nothing says whether an append that failed has reached the disk.
TEST_P(SuperblockLogTest, ARecordThatNoBandTookIsInDoubtUnlessThePointersSayThatItIsNotThere) {
  format();
  const auto newest = read_superblock(*memory_);
  ASSERT_TRUE(newest);
  device::FaultyDevice faulty(*memory_);
  SuperblockLog log(faulty, *newest);
  ASSERT_EQ(log.write(log.current()), ok());
  faulty.fail_when([](const device::CallInfo& info) -> std::optional<device::Fault> {
    if (info.call != device::Call::kAppend) return std::nullopt;
    return device::Fault{Errc::kDeviceWrite};
  });
  EXPECT_EQ(log.write(log.current()), fail(Errc::kDeviceWrite));
  EXPECT_EQ(log.is_in_doubt(), !GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, SuperblockLogTest, testing::Values(true, false),
                         [](const auto& given) {
                           return given.param ? "WithWritePointers" : "WithoutWritePointers";
                         });

}  // namespace
}  // namespace lazyfs::meta
