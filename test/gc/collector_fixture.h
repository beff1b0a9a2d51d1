// The collector without a filesystem: a few files in memory implement its port.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "data/appender.h"
#include "data/band_table.h"
#include "device/faulty.h"
#include "device/memory.h"
#include "fake_files.h"
#include "gc/collector.h"
#include "test/support/stepped_clock.h"

namespace lazyfs::gc {

using device::Call;
using device::CallInfo;
using device::Fault;

class CollectorTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kBands = 32, kBandBlocks = 64;
  static constexpr InodeNo kFile{2}, kDamaged{3};
  static constexpr std::uint64_t kFileBlocks = 8 * kBandBlocks;

  explicit CollectorTest(device::Capabilities capabilities = {.set_write_pointer = true})
      : CollectorTest(device::MemoryDevice::uniform(kBands, kBandBlocks, capabilities)) {}
  explicit CollectorTest(std::unique_ptr<device::MemoryDevice> device)
      : device_(std::move(device)) {}
  ~CollectorTest() override {
    EXPECT_EQ(bands_.check_invariants(), "");
    EXPECT_TRUE(files_.is_sound());
  }
  // One block of `each` of a file of eight bands is removed.
  void make_holes(std::uint64_t each) {
    files_.write(kFile, 0, kFileBlocks);
    for (std::uint64_t i = 0; i < kFileBlocks; i += each) files_.remove(kFile, i);
  }
  std::uint64_t moved() const { return collector_.counters().blocks_moved; }
  // From now on the block cannot be read and, while `appends_fail_`, nothing can be appended.
  void break_block(BandAddress bad) {
    faulty_.fail_when([this, bad](const CallInfo& info) -> std::optional<Fault> {
      const bool is_hit = info.call == Call::kRead && info.at.band == bad.band &&
                          info.at.rba <= bad.rba && bad.rba < info.at.rba + info.blocks;
      if (is_hit) return Fault{Errc::kDeviceRead};
      const bool fails = info.call == Call::kAppend && appends_fail_;
      return fails ? std::optional(Fault{Errc::kDeviceWrite}) : std::nullopt;
    });
  }
  // Appends fail under the first attempt.
  void evacuate_at_second_attempt() {
    appends_fail_ = true;
    EXPECT_EQ(collector_.evacuate_failed_bands(), fail(Errc::kDeviceWrite));
    appends_fail_ = false;
    clock_.time += std::chrono::seconds(1);
    EXPECT_EQ(collector_.evacuate_failed_bands(), ok());
  }
  std::uint64_t live_in(std::uint32_t band) const {
    return bands_.view(BandId{band}).counters.live;
  }

  const std::unique_ptr<device::MemoryDevice> device_;
  device::FaultyDevice faulty_{*device_};
  data::BandTable bands_{device_->geometry(), {}, {}};
  data::Appender appender_{faulty_, bands_, data::Placement::kFirstFit, [] { return 0u; }};
  FakeFiles files_{bands_, appender_};
  SteppedClock clock_;
  bool appends_fail_ = false;
  Collector collector_{files_, faulty_, bands_, appender_, clock_, CleanMode::kWhole};
};

}  // namespace lazyfs::gc
