#include "fuse/transport/cpu_latency.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lazyfs::fuse {
namespace {

// Plays the kernel: a file takes what is written to /dev/cpu_dma_latency.
class CpuLatencyTest : public testing::Test {
 protected:
  CpuLatencyTest() {
    char name[] = "/tmp/lazyfs-latency-test-XXXXXX";
    top_ = mkdtemp(name);
    std::ofstream(device()) << "";
  }
  ~CpuLatencyTest() override { std::filesystem::remove_all(top_); }

  std::string device() const { return top_ + "/latency"; }
  std::string driver_file(const std::string& driver) const {
    std::ofstream(top_ + "/driver") << driver << "\n";
    return top_ + "/driver";
  }
  std::int32_t latency() const {
    std::int32_t value = -1;
    std::ifstream(device(), std::ios::binary).read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  static void observe(CpuLatencyLimit& limit, int ticks, std::uint64_t requests) {
    for (int i = 0; i < ticks; ++i) limit.observe(requests);
  }

  std::string top_;
};

TEST_F(CpuLatencyTest, IsSetAfterThreeBusyTicksAndTakenBackAfterTwentyCalmOnes) {
  CpuLatencyLimit limit(CpuLatencyChoice::kOn, device(), "");
  EXPECT_EQ(latency(), 2'000'000'000);
  observe(limit, 2, 100);
  EXPECT_FALSE(limit.is_set());
  observe(limit, 1, 100);
  EXPECT_TRUE(limit.is_set());
  EXPECT_EQ(latency(), 0);
  observe(limit, 19, 0);
  EXPECT_TRUE(limit.is_set());
  observe(limit, 1, 0);
  EXPECT_FALSE(limit.is_set());
  EXPECT_EQ(latency(), 2'000'000'000);
  EXPECT_EQ(limit.times_set(), 1u);
}

TEST_F(CpuLatencyTest, FewRequestsDoNotSetIt) {
  CpuLatencyLimit limit(CpuLatencyChoice::kOn, device(), "");
  observe(limit, 1000, 3);
  EXPECT_FALSE(limit.is_set());
  for (int i = 0; i < 100; ++i) {  // a burst now and then
    observe(limit, 2, 100);
    observe(limit, 1, 0);
  }
  EXPECT_FALSE(limit.is_set());
}

TEST_F(CpuLatencyTest, AutoSetsItOnlyWhereIdleCpusHalt) {
  CpuLatencyLimit virtual_machine(CpuLatencyChoice::kAuto, device(), driver_file("haltpoll"));
  observe(virtual_machine, 3, 100);
  EXPECT_TRUE(virtual_machine.is_set());
  CpuLatencyLimit machine(CpuLatencyChoice::kAuto, device(), driver_file("intel_idle"));
  observe(machine, 3, 100);
  EXPECT_FALSE(machine.is_set());
  CpuLatencyLimit unknown(CpuLatencyChoice::kAuto, device(), top_ + "/none");
  observe(unknown, 3, 100);
  EXPECT_FALSE(unknown.is_set());
}

TEST_F(CpuLatencyTest, IsNeverSetWhenOffOrWithoutTheDevice) {
  CpuLatencyLimit off(CpuLatencyChoice::kOff, device(), driver_file("haltpoll"));
  observe(off, 100, 100);
  EXPECT_FALSE(off.is_set());
  CpuLatencyLimit without(CpuLatencyChoice::kOn, top_ + "/none", "");
  observe(without, 100, 100);
  EXPECT_FALSE(without.is_set());
}

}  // namespace
}  // namespace lazyfs::fuse
