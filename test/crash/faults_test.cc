// Fault injection: in each run one call to the device fails. LAZYFS_FAULTS=all fails each call in
// turn; otherwise a sample of each kind. After any fault
//   - lazyfs does not crash, and no read returns wrong data;
//   - every operation that has succeeded is visible;
//   - everything that an earlier or later sync covers survives a power cut.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/log.h"
#include "crash/medium.h"
#include "crash/trace.h"
#include "crash/verify.h"
#include "crash/workloads.h"
#include "device/faulty.h"
#include "device/forwarding.h"
#include "test/support/rounds.h"
#include "test/support/seed.h"

namespace lazyfs::crash {
namespace {

using device::Call;
using device::Fault;
using device::FaultyDevice;
using Problems = std::vector<std::string>;

struct Kind {
  const char* name;
  Call call;
  Fault fault;
};

const Kind kKinds[] = {
    {"read error", Call::kRead, {Errc::kDeviceRead}},
    {"write error", Call::kAppend, {Errc::kDeviceWrite}},
    {"write error after the first block", Call::kAppend, {Errc::kDeviceWrite, 1}},
    {"no space on the host", Call::kAppend, {Errc::kDeviceNoSpace}},
    {"short write for lack of space", Call::kAppend, {Errc::kDeviceNoSpace, 2}},
    {"flush error", Call::kFlush, {Errc::kDeviceFlush}},
    {"reset error", Call::kReset, {Errc::kDeviceWrite}},
    {"write pointer error", Call::kWritePointer, {Errc::kBandOffline}},
    {"set write pointer error", Call::kSetWritePointer, {Errc::kDeviceWrite}},
    {"report error", Call::kReport, {Errc::kBandOffline}},
};

// Runs a workload on a device with one fault.
class FaultRun {
 public:
  FaultRun(const Image& image, const Workload& workload) : image_(image), workload_(workload) {
    device::KeepAll keep_all;
    device_ = device::after_power_cut(image.recording, image.recording.ops.size(), keep_all);
    recorded_.emplace(*device_);
    faulty_.emplace(*recorded_);
    first_ = recorded_->op_count();
    models_.push_back(image.model);
  }

  FaultyDevice& device() { return *faulty_; }
  // Returns the problems.
  Problems run(std::uint64_t seed) {
    work();
    faulty_->mend();
    if (volume_) {
      see("in the same mount", *volume_);
      finish();
    }
    volume_.reset();
    check_state("after the daemon's end", nullptr);
    device::LoseAll lose_all;
    check_state("after a power cut", &lose_all);
    device::RandomChoice random(seed);
    check_state("after a power cut, at random", &random);
    return std::move(problems_);
  }
  std::uint64_t failed_operations() const { return failed_; }

 private:
  void work() {
    auto volume = fs::Volume::mount(*faulty_, quiet_options(), clock_);
    if (!volume) return;
    volume_ = std::move(*volume);
    for (const Operation& operation : workload_) {
      const Act act = operation.act;
      if (act == Act::kRemount || act == Act::kKill || act == Act::kHold ||
          act == Act::kWriteHeld) {
        continue;
      }
      const auto made = perform(*volume_, operation, models_.back());
      if (made) {
        note(operation, *made);
        continue;
      }
      failed_ += 1;
      // A failed operation may have truncated the file, because it frees extents first.
      const bool cuts = act == Act::kTruncate || act == Act::kPunch || act == Act::kZero;
      if (cuts && models_.back().is_file(operation.path)) {
        maybe_ = models_.back();
        maybe_->apply(operation, 0);
        return;
      }
      // A failed copy may have extended the destination up to the copy's offset.
      if (act == Act::kCopy && models_.back().is_file(operation.other) &&
          models_.back().size_of(operation.other) < operation.to) {
        maybe_ = models_.back();
        maybe_->apply({.act = Act::kTruncate, .path = operation.other, .offset = operation.to}, 0);
        return;
      }
    }
  }

  void note(const Operation& operation, std::uint64_t made) {
    Model next = models_.back();
    next.apply(operation, made);
    models_.push_back(std::move(next));
    if (promises(operation.act)) promised_ = models_.size() - 1;
  }

  void finish() {
    if (volume_->unmount() && !maybe_) note({.act = Act::kSync}, 0);
  }

  Problems differences(const Observation& found) const {
    Problems best = maybe_ ? maybe_->differences(found, true) : Problems{};
    if (maybe_ && best.empty()) return best;
    for (std::size_t i = models_.size(); i-- > promised_;) {
      Problems now = models_[i].differences(found, true);
      if (now.empty()) return now;
      if (best.empty() || now.size() < best.size()) best = std::move(now);
    }
    return best;
  }
  void see(const std::string& when, fs::Volume& volume) {
    const Observation seen = observe(volume);
    Problems found = models_.back().differences(seen, true);
    if (maybe_ && !found.empty()) found = maybe_->differences(seen, true);
    for (const std::string& text : found) problems_.push_back(when + ": " + text);
  }

  void check_state(const std::string& when, device::Choice* choice) {
    device::Recording recording = recorded_->recording();
    begin_with_medium(recording, first_, image_.recording.ops);
    device::KeepAll keep_all;
    const auto left =
        device::after_power_cut(recording, recording.ops.size(), choice ? *choice : keep_all);
    const auto found = verify_state(
        *left, *left, [&](const Observation& seen) { return differences(seen); }, true);
    for (const std::string& text : found) problems_.push_back(when + ": " + text);
  }

  const Image& image_;
  const Workload& workload_;
  QuickClock clock_;
  std::unique_ptr<device::MemoryDevice> device_;
  std::optional<device::RecordingDevice> recorded_;
  std::optional<FaultyDevice> faulty_;
  std::size_t first_ = 0;
  std::vector<Model> models_;
  std::size_t promised_ = 0;
  std::optional<Model> maybe_;  // the state that a failed operation may have left
  std::unique_ptr<fs::Volume> volume_;
  std::uint64_t failed_ = 0;
  Problems problems_;
};

// Returns how many calls of one kind fail: `few`, or with LAZYFS_FAULTS=all each of them.
std::uint64_t faults_each(std::uint64_t few) {
  return std::getenv("LAZYFS_FAULTS") ? ~std::uint64_t{0} : rounds_of_build(few, few / 2);
}

class FaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::getenv("LAZYFS_CRASH_LOG")) log::set_level(log::Level::kOff);
  }
  void TearDown() override {
    std::printf("%lu faults made %lu operations fail\n", faults_, failed_);
  }

  // Fails at most about `most_each` calls of each kind, evenly spread, one per run.
  void try_all(const Image& image, const Workload& workload, std::uint64_t most_each) {
    FaultRun sound(image, workload);
    ASSERT_EQ(sound.run(1), Problems{});
    for (const Kind& kind : kKinds) {
      const std::uint64_t calls = sound.device().calls(kind.call);
      const std::uint64_t stride = std::max<std::uint64_t>(1, calls / most_each);
      for (std::uint64_t n = 1 + test_seed() % stride; n <= calls; n += stride) {
        FaultRun run(image, workload);
        run.device().fail_nth(kind.call, n, kind.fault);
        const Problems problems = run.run(test_seed() + n);
        faults_ += run.device().faults();
        failed_ += run.failed_operations();
        ASSERT_EQ(problems, Problems{}) << kind.name << ", call " << n << " of " << calls
                                        << ", LAZYFS_SEED=" << test_seed() << "\n"
                                        << to_string(workload);
      }
    }
  }

  std::uint64_t faults_ = 0, failed_ = 0;
};

TEST_F(FaultsTest, AnyCallMayFailUnderAnyOneOperation) {
  const Image image = small_image();
  for (const Operation& operation : alphabet()) {
    try_all(image, sequence(operation), faults_each(2));
    if (HasFatalFailure()) return;
  }
}

TEST_F(FaultsTest, AnyCallMayFailUnderManyOperations) {
  const Image image = small_image();
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 6; ++i) {
    try_all(image, random_workload(random, 30), faults_each(6));
    if (HasFatalFailure()) return;
  }
}

TEST_F(FaultsTest, AnyCallMayFailWhileBandsAreCleaned) {
  const Image image = worn_image();
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 4; ++i) {
    try_all(image, wearing_workload(random, 30), faults_each(6));
    if (HasFatalFailure()) return;
  }
}

TEST_F(FaultsTest, AnyCallMayFailWhileTheLogIsCleaned) {
  const Image image = crowded_image();
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 4; ++i) {
    try_all(image, crowding_workload(random, 40), faults_each(6));
    if (HasFatalFailure()) return;
  }
}

// ---- Hangs --------------------------------------------------------------------------------------

// Blocks appends and flushes from hang() until resume().
class HangingDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::append;
  using ForwardingDevice::ForwardingDevice;

  void hang() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    hangs_ = true;
  }
  void wait_until_a_call_hangs() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (waiting_ == 0) moved_.wait(mu_);
  }
  void resume() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    hangs_ = false;
    moved_.notify_all();
  }

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    maybe_hang();
    return ForwardingDevice::append(to, pieces);
  }
  Result<> flush() override {
    maybe_hang();
    return ForwardingDevice::flush();
  }

 private:
  void maybe_hang() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++waiting_;
    moved_.notify_all();
    while (hangs_) moved_.wait(mu_);
    --waiting_;
  }

  Mutex mu_;
  CondVar moved_;
  bool hangs_ GUARDED_BY(mu_) = false;
  int waiting_ GUARDED_BY(mu_) = 0;
};

// While the disk hangs during a sync, other calls create and look up names and write and read
// files. After the disk resumes, the sync and the unmount complete.
TEST_F(FaultsTest, OtherCallsContinueWhileTheDeviceHangs) {
  const Image image = small_image();
  device::KeepAll keep_all;
  const auto medium =
      device::after_power_cut(image.recording, image.recording.ops.size(), keep_all);
  HangingDevice device(*medium);
  fs::MountOptions options = quiet_options();
  options.background = true;
  const auto volume = fs::Volume::mount(device, options, system_clock());
  ASSERT_TRUE(volume);
  ASSERT_TRUE((*volume)->make_directory(fs::kRootInode, "before", 0755, {}));
  device.hang();
  Result<> synced = fail(Errc::kInternal);
  std::thread syncer([&] { synced = (*volume)->sync(); });
  device.wait_until_a_call_hangs();
  const auto made = (*volume)->create(fs::kRootInode, "meanwhile", 0644, {});
  EXPECT_TRUE(made);
  const std::string text = "written while the disk hangs";
  std::string back(text.size(), '?');
  if (made) {
    const InodeNo inode = made->attributes.inode;
    EXPECT_TRUE((*volume)->write(inode, 0, std::as_bytes(std::span(text))));
    EXPECT_TRUE((*volume)->read(inode, 0, std::as_writable_bytes(std::span(back))));
    EXPECT_EQ(back, text);
    (*volume)->release(made->file);
  }
  EXPECT_TRUE((*volume)->lookup(fs::kRootInode, "before"));
  device.resume();
  syncer.join();
  EXPECT_TRUE(synced);
  EXPECT_TRUE((*volume)->unmount());
}

}  // namespace
}  // namespace lazyfs::crash
