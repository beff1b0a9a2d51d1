// Breaks each safety rule on purpose and expects the crash tests to notice. A test breaks a rule
// either in the recorded disk operations (crash/violations.h) or in lazyfs (base/test_hook.h).
// The rules:
//   1  a transaction counts only if everything that it refers to is on the disk
//   2  a data band is reset only after the transaction that removed its last reference is durable,
//      and after its readers have released it
//   3  a log band is reused only after a durable commit has moved the tail past it
//   4  a mount after a crash shows every operation up to the last completed sync, and a prefix of
//      the later ones
//   5  nothing read from the disk is trusted; a bad checksum is an error for that object only
//   6  ENOSPC is returned before anything is accepted that cannot be stored
//   7  memory is limited by options, not by the workload
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "base/log.h"
#include "base/test_hook.h"
#include "crash/explorer.h"
#include "crash/medium.h"
#include "crash/observation.h"
#include "crash/violations.h"
#include "crash/workloads.h"
#include "device/forwarding.h"
#include "device/power_cut.h"
#include "test/support/seed.h"
#include "test/support/stats.h"

namespace lazyfs::crash {
namespace {

using Violation = Trace (*)(Trace);
using Generator = Workload (*)(std::mt19937_64&, std::size_t);

Trace unchanged(Trace trace) { return trace; }

std::unique_ptr<device::MemoryDevice> device_of(const Image& image) {
  device::KeepAll keep_all;
  return device::after_power_cut(image.recording, image.recording.ops.size(), keep_all);
}

// A device that runs a function once, before it forwards the next read.
class Interrupted final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void before_next_read(std::function<void()> work) { work_ = std::move(work); }
  bool was_interrupted() const { return !work_; }

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    if (const auto work = std::exchange(work_, nullptr)) work();
    return ForwardingDevice::read(from, to);
  }

 private:
  std::function<void()> work_;
};

class RulesTest : public testing::Test {
 protected:
  void SetUp() override { log::set_level(log::Level::kOff); }
  void TearDown() override { disabled_rule = Rule::kNone; }

  std::unique_ptr<fs::Volume> mount(device::Device& device) {
    auto volume = fs::Volume::mount(device, quiet_options(), clock_);
    EXPECT_TRUE(volume);
    return volume ? std::move(*volume) : nullptr;
  }
  static void write(fs::Volume& volume, InodeNo file, std::string_view text) {
    EXPECT_TRUE(volume.write(file, 0, std::as_bytes(std::span(text))));
  }

  QuickClock clock_;

  // Returns whether one of several workloads fails after `violation` has changed its trace, or
  // while `rule` is disabled.
  bool is_noticed(Violation violation, Rule rule, const Image& image, Generator generator,
                  ExploreOptions options = {.choices = 6, .max_states = 2000},
                  std::uint64_t workloads = 60, std::uint64_t seed = test_seed()) {
    disabled_rule = rule;
    bool noticed = false;
    for (std::uint64_t i = 0; i < workloads && !noticed; ++i) {
      std::mt19937_64 random(seed + i);
      options.seed = seed + i;
      const Trace trace = run(image, generator(random, 40), {});
      noticed = !trace.problems.empty() || explore(violation(trace), options).failure;
    }
    disabled_rule = Rule::kNone;
    return noticed;
  }
};

TEST_F(RulesTest, Rule1NoticesATransactionThatCountsWithoutItsData) {
  EXPECT_TRUE(is_noticed(unchanged, Rule::kProveData, small_image(), random_workload));
}

// Of a transaction that does not name its data.
TEST_F(RulesTest, Rule1NoticesATransactionBeforeItsDataIsFlushed) {
  EXPECT_TRUE(is_noticed(without_flush_of_data, Rule::kNone, worn_image(), wearing_workload));
}

// A band whose last live block dies with the transaction that brought it is reset once that is
// durable. So the transaction must not depend on what was in the band. Few workloads reset such a
// band at once: the seed is that of one.
TEST_F(RulesTest, Rule1NoticesDeadDataThatATransactionNames) {
  EXPECT_TRUE(is_noticed(unchanged, Rule::kProveLiveDataOnly, worn_image(), wearing_workload,
                         {.choices = 6, .max_states = 2000}, 60, 33));
}

TEST_F(RulesTest, Rule2NoticesADataBandThatIsResetTooEarly) {
  EXPECT_TRUE(is_noticed(with_early_resets_of_data, Rule::kNone, worn_image(), wearing_workload));
}

TEST_F(RulesTest, Rule3NoticesALogBandThatIsResetTooEarly) {
  EXPECT_TRUE(
      is_noticed(with_early_resets_of_log, Rule::kNone, crowded_image(), crowding_workload));
}

TEST_F(RulesTest, Rule4NoticesASyncThatDoesNotFlushItsTransaction) {
  EXPECT_TRUE(is_noticed(without_flush_of_log, Rule::kNone, small_image(), random_workload));
}

TEST_F(RulesTest, Rule4NoticesASuperblockThatIsNotFlushed) {
  EXPECT_TRUE(
      is_noticed(without_flush_of_superblock, Rule::kNone, small_image(), remounting_workload));
}

TEST_F(RulesTest, Rule4TornTransactionIsIgnored) {
  EXPECT_TRUE(is_noticed(unchanged, Rule::kDetectTornTransaction, small_image(), random_workload));
}

// A session writes a transaction. A power cut loses the write pointer's move, but the blocks past
// it remain on the medium. The next session writes another transaction to the same place. A power
// cut keeps the write pointer's move and loses the blocks.
TEST_F(RulesTest, Rule4TransactionOfAnEarlierSessionDoesNotComeBack) {
  const Trace before =
      run(small_image(), {{.act = Act::kCreate, .path = "/lost"}, {.act = Act::kSync}}, {});
  const auto is_log = [](const device::Op& op) {
    return op.kind == device::Op::Kind::kAppend && content_of(op) == Content::kLog;
  };
  const std::span ops(before.recording.ops);
  const auto written = std::ranges::find_if(ops.subspan(before.first), is_log);
  ASSERT_NE(written, ops.end());
  device::LoseAll lose_all;
  const auto image = crashed_image(before, written - ops.begin() + 1, lose_all);
  ASSERT_TRUE(image);
  EXPECT_FALSE(image->model.find("/lost"));
  const auto generator = [](std::mt19937_64&, std::size_t) {
    Workload workload;
    for (const char* path : {"/d/1", "/e/2", "/3", "/4"}) {
      workload.push_back({.act = Act::kCreate, .path = path});
      workload.push_back({.act = Act::kSetXattr, .path = path, .other = "user.x", .length = 900});
    }
    workload.push_back({.act = Act::kSync});
    return workload;
  };
  EXPECT_FALSE(is_noticed(unchanged, Rule::kNone, *image, generator, {.choices = 0}));
  EXPECT_TRUE(is_noticed(unchanged, Rule::kDetectStaleSession, *image, generator, {.choices = 0}));
}

// During a read the file is truncated, its band loses its last live block, and new data needs a
// band.
TEST_F(RulesTest, Rule2BandWithAReaderIsNotReset) {
  const auto reads_well = [&](Rule rule) {
    disabled_rule = rule;
    const auto memory = device_of(small_image());
    Interrupted device(*memory);
    const auto volume = mount(device);
    const std::string old = text_of(1, 0, 10'000);
    const InodeNo file = volume->lookup(fs::kRootInode, "a")->inode;
    device.before_next_read([&] {
      EXPECT_TRUE(volume->set_attributes(file, {.size = 0}));
      EXPECT_TRUE(volume->unlink(fs::kRootInode, "h"));
      const auto folder = volume->lookup(fs::kRootInode, "d");
      EXPECT_TRUE(volume->unlink(folder->inode, "c"));
      EXPECT_TRUE(volume->collect_garbage());
      const auto made = volume->create(fs::kRootInode, "n", 0644, {});
      volume->release(made->file);
      write(*volume, made->attributes.inode, text_of(9, 0, 60 * kBlockBytes));
      EXPECT_TRUE(volume->sync());
    });
    std::string found(old.size(), '?');
    const auto read = volume->read(file, 0, std::as_writable_bytes(std::span(found)));
    EXPECT_TRUE(device.was_interrupted());
    return read && found == old;
  };
  EXPECT_TRUE(reads_well(Rule::kNone));
  EXPECT_FALSE(reads_well(Rule::kAwaitReaders));
}

TEST_F(RulesTest, Rule5BlockWithABadBitIsAnErrorAndOtherFilesStayReadable) {
  const auto memory = device_of(small_image());
  const auto ops = medium_of(*memory);
  const auto data = std::ranges::find_if(ops, [](const device::Op& op) {
    return op.kind == device::Op::Kind::kAppend && content_of(op) == Content::kData;
  });
  ASSERT_NE(data, ops.end());
  memory->flip(data->at, 77);
  const auto problems = [&](Rule rule) {
    disabled_rule = rule;
    return observe(*mount(*memory)).problems;
  };
  EXPECT_EQ(problems(Rule::kNone),
            std::vector<std::string>{"inode 2: contents: file data fails its checksum"});
  EXPECT_EQ(problems(Rule::kVerifyData), std::vector<std::string>{});
}

TEST_F(RulesTest, Rule7DirtyDataIsLimited) {
  const auto waits_at_most = [&](Rule rule) {
    disabled_rule = rule;
    const auto memory = device_of(small_image());
    fs::MountOptions options = quiet_options();
    options.dirty_bytes = 16 * kBlockBytes;
    const auto volume = fs::Volume::mount(*memory, options, clock_);
    const InodeNo file = (*volume)->lookup(fs::kRootInode, "a")->inode;
    std::uint64_t most = 0;
    for (std::uint64_t block = 0; block < 64; ++block) {
      const std::string text = text_of(1, block * kBlockBytes, kBlockBytes);
      EXPECT_TRUE((*volume)->write(file, block * kBlockBytes, std::as_bytes(std::span(text))));
      most = std::max(most, stat_of(**volume, "data", "dirty_bytes"));
    }
    return most / kBlockBytes;
  };
  EXPECT_LE(waits_at_most(Rule::kNone), 16u);
  EXPECT_GT(waits_at_most(Rule::kBoundDirtyMemory), 16u);
}

TEST_F(RulesTest, Rule6AcceptedDataHasSpace) {
  EXPECT_FALSE(
      is_noticed(unchanged, Rule::kNone, full_image(), filling_workload, {.choices = 0}, 10));
  EXPECT_TRUE(is_noticed(unchanged, Rule::kReserveSpace, full_image(), filling_workload));
}

}  // namespace
}  // namespace lazyfs::crash
