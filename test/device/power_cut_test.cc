// The recording device, and the states that power cuts leave.
#include "device/power_cut.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "device/faulty.h"
#include "test/support/result_printer.h"
#include "test/support/seed.h"

namespace lazyfs::device {
namespace {

class PowerCutTest : public testing::Test {
 protected:
  static constexpr BandId kBand{1};
  static constexpr std::uint32_t kBandBlocks = 8;

  // Returns one block for each letter of `text`, filled with the letter.
  static AlignedBuffer blocks(std::string_view text) {
    AlignedBuffer buffer(text.size() * kBlockBytes);
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::fill_n(buffer.data() + i * kBlockBytes, kBlockBytes, static_cast<std::byte>(text[i]));
    }
    return buffer;
  }
  void append(std::string_view text, BandId band = kBand) {
    const AlignedBuffer bytes = blocks(text);
    ASSERT_EQ(recorded_.append({band, *recorded_.write_pointer(band)}, Piece(bytes.span())), ok());
  }
  void flush() { ASSERT_EQ(recorded_.flush(), ok()); }
  void reset(BandId band = kBand) { ASSERT_EQ(recorded_.reset(band), ok()); }
  void discard(BandId band = kBand) { ASSERT_GT(recorded_.discard(band).value_or(0), 0u); }
  void set(std::uint32_t rba) { ASSERT_EQ(recorded_.set_write_pointer(kBand, rba), ok()); }

  // The contents of a band, one letter for each block: '.' zeros, '/' torn, '?' other bytes.
  static std::string contents(MemoryDevice& device, BandId band = kBand) {
    std::string text;
    AlignedBuffer one(kBlockBytes);
    for (std::uint32_t rba = 0; rba < *device.write_pointer(band); ++rba) {
      device.peek({band, rba}, one.span());
      const auto letter = static_cast<char>(one.data()[0]);
      const std::set<std::byte> found(one.span().begin(), one.span().end());
      text += found.size() == 1 ? (letter == 0 ? '.' : letter) : (found.size() == 2 ? '/' : '?');
    }
    return text;
  }
  std::string after(std::size_t ops, Choice&& choice) {
    const Recording recording = recorded_.recording();
    return contents(*after_power_cut(recording, ops, choice));
  }
  std::set<std::string> every_outcome(BandId band = kBand) {
    const Recording recording = recorded_.recording();
    std::set<std::string> found;
    for (EveryChoice choice; choice.is_valid(); choice.advance()) {
      found.insert(contents(*after_power_cut(recording, recording.ops.size(), choice), band));
    }
    return found;
  }

  std::unique_ptr<MemoryDevice> memory_ = MemoryDevice::uniform(4, kBandBlocks);
  RecordingDevice recorded_{*memory_};
};

TEST_F(PowerCutTest, RecordsEveryChangeInOrder) {
  append("ab");
  flush();
  set(1);
  reset();
  std::string text;
  for (const Op& op : recorded_.recording().ops) text += to_string(op) + "; ";
  EXPECT_EQ(text, "append 1/0 8192 bytes; flush of 1; set 1/1; reset 1; ");
}

TEST_F(PowerCutTest, RecordsThatTheDeviceHasFinishedASealedBand) {
  memory_ = MemoryDevice::uniform(4, kBandBlocks, {.max_open_bands = 1});
  RecordingDevice limited(*memory_);
  const AlignedBuffer one = blocks("x");
  ASSERT_EQ(limited.append({kBand, 0}, Piece(one.span())), ok());
  limited.seal(kBand);
  ASSERT_EQ(limited.append({BandId{2}, 0}, Piece(one.span())), ok());
  std::string text;
  for (const Op& op : limited.recording().ops) text += to_string(op) + "; ";
  EXPECT_EQ(text, "append 1/0 4096 bytes; set 1/8; append 2/0 4096 bytes; ");
}

// No disk has more open zones than it allows: whichever changes are lost.
TEST_F(PowerCutTest, KeepsTheLimitOfPartlyWrittenBands) {
  memory_ = MemoryDevice::uniform(4, kBandBlocks, {.max_open_bands = 1});
  RecordingDevice limited(*memory_);
  const AlignedBuffer one = blocks("x");
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(limited.append({BandId{i}, 0}, Piece(one.span())), ok());
    limited.seal(BandId{i});
  }
  const Recording recording = limited.recording();
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomChoice choice(seed);
    const auto device = after_power_cut(recording, recording.ops.size(), choice);
    int open = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      open += device->report(BandId{i})->condition == BandCondition::kOpen ? 1 : 0;
    }
    EXPECT_LE(open, 1) << "seed " << seed;
  }
}

TEST_F(PowerCutTest, DoesNotRecordRefusedCalls) {
  const AlignedBuffer one = blocks("x");
  EXPECT_EQ(recorded_.append({kBand, 3}, Piece(one.span())), fail(Errc::kNotAtWritePointer));
  EXPECT_EQ(recorded_.set_write_pointer(kBand, 1), fail(Errc::kPastWritePointer));
  EXPECT_EQ(recorded_.reset(BandId{9}), fail(Errc::kBadBand));
  EXPECT_EQ(recorded_.append({kBand, 0}, std::span<const Piece>()), ok());
  EXPECT_EQ(recorded_.op_count(), 0u);
}

TEST_F(PowerCutTest, RecordsTheBlocksThatTheDeviceKeptOfAFailedAppend) {
  FaultyDevice faulty(*memory_);
  RecordingDevice recorded(faulty);
  faulty.fail_nth(Call::kAppend, 1, {.error = Errc::kDeviceWrite, .blocks_done = 2});
  const AlignedBuffer bytes = blocks("abc");
  EXPECT_EQ(recorded.append({kBand, 0}, Piece(bytes.span())), fail(Errc::kDeviceWrite));
  const Recording recording = recorded.recording();
  ASSERT_EQ(recording.ops.size(), 1u);
  KeepAll keep;
  EXPECT_EQ(contents(*after_power_cut(recording, 1, keep)), "ab");
}

TEST_F(PowerCutTest, DoesNotRecordAFailedFlush) {
  FaultyDevice faulty(*memory_);
  RecordingDevice recorded(faulty);
  const AlignedBuffer bytes = blocks("a");
  ASSERT_EQ(recorded.append({kBand, 0}, Piece(bytes.span())), ok());
  faulty.fail_nth(Call::kFlush, 1, {.error = Errc::kDeviceFlush});
  EXPECT_EQ(recorded.flush(), fail(Errc::kDeviceFlush));
  LoseAll lose;
  EXPECT_EQ(contents(*after_power_cut(recorded.recording(), recorded.op_count(), lose)), "");
}

TEST_F(PowerCutTest, BeginsWithTheContentsOfTheDevice) {
  append("abc");
  RecordingDevice later(*memory_);
  LoseAll lose;
  EXPECT_EQ(contents(*after_power_cut(later.recording(), later.op_count(), lose)), "abc");
}

TEST_F(PowerCutTest, KeepsAllOrLosesAllUnflushedOps) {
  append("ab");
  flush();
  append("cd");
  EXPECT_EQ(after(3, KeepAll()), "abcd");
  EXPECT_EQ(after(3, LoseAll()), "ab");
  EXPECT_EQ(after(2, KeepAll()), "ab");
  EXPECT_EQ(after(1, LoseAll()), "");
  EXPECT_EQ(after(0, KeepAll()), "");
}

TEST_F(PowerCutTest, KeepsAllIfThePointerReturnsToItsFlushedPosition) {
  append("ab");
  flush();
  append("cd");
  set(0);
  append("xy");
  EXPECT_EQ(after(recorded_.op_count(), KeepAll()), "xy");
  EXPECT_EQ(after(recorded_.op_count(), LoseAll()), "ab");
}

TEST_F(PowerCutTest, AnAppendMayBeLostKeptTornOrGarbage) {
  append("a");
  flush();
  append("b");
  EXPECT_EQ(every_outcome(), (std::set<std::string>{"a", "ab", "a.", "a/", "a?"}));
}

TEST_F(PowerCutTest, TheWritePointerMayBeAtAnyPositionOnItsWay) {
  append("abc");
  std::set<std::size_t> lengths;
  for (const std::string& outcome : every_outcome()) lengths.insert(outcome.size());
  EXPECT_EQ(lengths, (std::set<std::size_t>{0, 1, 2, 3}));
}

TEST_F(PowerCutTest, ALostResetMayStillHaveZeroedTheBlocks) {
  append("ab");
  flush();
  reset();
  EXPECT_EQ(every_outcome(), (std::set<std::string>{"", "ab", ".."}));
}

TEST_F(PowerCutTest, AfterAResetEarlierContentsMayBeVisible) {
  append("ab");
  flush();
  reset();
  flush();
  append("c");
  EXPECT_EQ(every_outcome(), (std::set<std::string>{"", "c", "a", "/", "?"}));
}

TEST_F(PowerCutTest, AfterADiscardEarlierContentsMayBeVisibleOrZeros) {
  append("ab");
  flush();
  reset();
  flush();
  discard();
  EXPECT_EQ(every_outcome(), (std::set<std::string>{""}));
  append("c");
  EXPECT_EQ(every_outcome(), (std::set<std::string>{"", "c", "a", ".", "/", "?"}));
  flush();
  EXPECT_EQ(every_outcome(), (std::set<std::string>{"c"}));
}

TEST_F(PowerCutTest, BlocksPastThePointerAreOnTheMedium) {
  append("ab");
  const Recording recording = recorded_.recording();
  for (EveryChoice choice; choice.is_valid(); choice.advance()) {
    const auto device = after_power_cut(recording, recording.ops.size(), choice);
    if (*device->write_pointer(kBand) > 0) continue;
    device->place_write_pointer(kBand, 2);
    EXPECT_EQ(contents(*device), "ab");
  }
}

TEST_F(PowerCutTest, FlushedOpsAreNeverChanged) {
  SCOPED_TRACE(seed_trace());
  append("abcd");
  append("xyz", BandId{2});
  flush();
  append("ef");
  const Recording recording = recorded_.recording();
  for (std::uint64_t seed = test_seed(); seed < test_seed() + 500; ++seed) {
    RandomChoice choice(seed);
    const auto disk = after_power_cut(recording, recording.ops.size(), choice);
    EXPECT_EQ(contents(*disk).substr(0, 4), "abcd");
    EXPECT_EQ(contents(*disk, BandId{2}), "xyz");
  }
}

TEST_F(PowerCutTest, ASeedGivesTheSameDiskAgain) {
  append("abcdefg");
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const std::string first = after(1, RandomChoice(seed));
    EXPECT_EQ(first, after(1, RandomChoice(seed)));
    found.insert(first);
  }
  EXPECT_GT(found.size(), 20u);
}

TEST_F(PowerCutTest, AConventionalBandKeepsItsPointerAndMayTear) {
  MemoryDevice memory({.band_blocks = {4}, .band_kinds = {BandKind::kConventional}});
  RecordingDevice recorded(memory);
  const AlignedBuffer a = blocks("a"), b = blocks("b");
  ASSERT_EQ(recorded.append({BandId{0}, 2}, Piece(a.span())), ok());
  ASSERT_EQ(recorded.flush(), ok());
  ASSERT_EQ(recorded.append({BandId{0}, 2}, Piece(b.span())), ok());
  std::set<std::string> found;
  for (EveryChoice choice; choice.is_valid(); choice.advance()) {
    found.insert(contents(*after_power_cut(recorded.recording(), 3, choice), BandId{0}));
  }
  EXPECT_EQ(found, (std::set<std::string>{"..a.", "..b.", "../.", "..?."}));
}

// The same on a device without write pointers.
class PowerCutWithoutPointersTest : public PowerCutTest {
 protected:
  PowerCutWithoutPointersTest() {
    EXPECT_EQ(plain_.reset(kBand), ok());
    EXPECT_EQ(plain_.flush(), ok());
  }
  void append_at(std::uint32_t rba, std::string_view text) {
    const AlignedBuffer bytes = blocks(text);
    ASSERT_EQ(plain_.append({kBand, rba}, Piece(bytes.span())), ok());
  }
  std::set<std::string> every_plain_outcome() {
    const Recording recording = plain_.recording();
    std::set<std::string> found;
    for (EveryChoice choice; choice.is_valid(); choice.advance()) {
      const auto device = after_power_cut(recording, recording.ops.size(), choice);
      EXPECT_EQ(device->report(kBand)->condition, BandCondition::kFull) << "the end is unknown";
      EXPECT_EQ(device->set_write_pointer(kBand, 1), ok());
      device->forget_write_pointers();
      found.insert(contents(*device));
      written_ = device->written_since_reset(kBand);
    }
    return found;
  }

  std::unique_ptr<MemoryDevice> without_ =
      MemoryDevice::uniform(2, 3, {.keeps_write_pointers = false});
  RecordingDevice plain_{*without_};
  std::vector<std::uint32_t> written_;  // since the reset, in the last outcome
};

TEST_F(PowerCutWithoutPointersTest, EveryEndIsUnknownAndEveryBlockVisible) {
  append_at(0, "a");
  ASSERT_EQ(plain_.flush(), ok());
  append_at(1, "b");
  EXPECT_EQ(every_plain_outcome(), (std::set<std::string>{"ab.", "a..", "a/.", "a?."}));
  EXPECT_EQ(written_, (std::vector<std::uint32_t>{0, 1})) << "also where the append was lost";
}

TEST_F(PowerCutWithoutPointersTest, AResetMayLeaveTheBlocksOrZeroThem) {
  append_at(0, "ab");
  ASSERT_EQ(plain_.flush(), ok());
  ASSERT_EQ(plain_.reset(kBand), ok());
  EXPECT_EQ(every_plain_outcome(), (std::set<std::string>{"ab.", "..."}));
  EXPECT_TRUE(written_.empty());
  ASSERT_EQ(plain_.flush(), ok());
  EXPECT_EQ(every_plain_outcome(), (std::set<std::string>{"ab."}));
}

TEST_F(PowerCutWithoutPointersTest, ADiscardMayZeroAnyBlocks) {
  append_at(0, "ab");
  ASSERT_EQ(plain_.flush(), ok());
  ASSERT_EQ(plain_.reset(kBand), ok());
  ASSERT_EQ(plain_.flush(), ok());
  ASSERT_GT(plain_.discard(kBand).value_or(0), 0u);
  const std::set<std::string> any{"ab.", "a..", ".b.", "..."};
  EXPECT_EQ(every_plain_outcome(), any);
  ASSERT_EQ(plain_.flush(), ok());
  EXPECT_EQ(every_plain_outcome(), any) << "a flush says nothing about it";
  append_at(0, "c");
  ASSERT_EQ(plain_.flush(), ok());
  EXPECT_EQ(every_plain_outcome(), (std::set<std::string>{"cb.", "c.."}));
}

TEST_F(PowerCutWithoutPointersTest, ADiscardOfAFreshResetMayZeroWhatWasWrittenBefore) {
  append_at(0, "a");
  ASSERT_EQ(plain_.reset(kBand), ok());
  ASSERT_GT(plain_.discard(kBand).value_or(0), 0u);
  EXPECT_EQ(every_plain_outcome(), (std::set<std::string>{"a..", "...", "?.."}));
}

TEST_F(PowerCutWithoutPointersTest, StatingAnEndIsNoChange) {
  append_at(0, "ab");
  const std::size_t before = plain_.op_count();
  without_->forget_write_pointers();
  ASSERT_EQ(plain_.set_write_pointer(kBand, 2), ok());
  EXPECT_EQ(plain_.op_count(), before);
  append_at(2, "c");
  EXPECT_EQ(plain_.op_count(), before + 1);
}

// A log as a host might have: the host appends records and flushes. At any moment of the power cut,
// the flushed records are a prefix of the records found.
TEST_F(PowerCutTest, TriesAWorkloadAtEveryMoment) {
  std::map<std::size_t, std::string> promised = {{0, ""}};  // by the number of ops
  std::string all;
  for (const char letter : std::string("abcdefg")) {
    append(std::string(1, letter));
    all += letter;
    if (letter % 3 != 0) continue;
    flush();
    promised[recorded_.op_count()] = all;
  }
  const Recording recording = recorded_.recording();
  for (std::size_t ops = 0; ops <= recording.ops.size(); ++ops) {
    const std::string& expected = std::prev(promised.upper_bound(ops))->second;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      RandomChoice choice(seed);
      const std::string found = contents(*after_power_cut(recording, ops, choice));
      EXPECT_EQ(found.substr(0, expected.size()), expected) << "after " << ops << " ops";
    }
  }
}

}  // namespace
}  // namespace lazyfs::device
