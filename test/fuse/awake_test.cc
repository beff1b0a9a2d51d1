#include "fuse/transport/awake.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lazyfs::fuse {
namespace {

// Plays the kernel: a file takes what is written to /dev/cpu_dma_latency.
class AwakeTest : public testing::Test {
 protected:
  AwakeTest() {
    char name[] = "/tmp/lazyfs-awake-test-XXXXXX";
    top_ = mkdtemp(name);
    std::ofstream(device()) << "";
  }
  ~AwakeTest() override { std::filesystem::remove_all(top_); }

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
  static void observe(Awake& awake, int ticks, std::uint64_t requests) {
    for (int i = 0; i < ticks; ++i) awake.observe(requests);
  }

  std::string top_;
};

TEST_F(AwakeTest, HoldsAfterThreeBusyTicksAndLetsGoAfterTwentyCalmOnes) {
  Awake awake(AwakeChoice::kOn, device(), "");
  EXPECT_EQ(latency(), 2'000'000'000);
  observe(awake, 2, 100);
  EXPECT_FALSE(awake.holds());
  observe(awake, 1, 100);
  EXPECT_TRUE(awake.holds());
  EXPECT_EQ(latency(), 0);
  observe(awake, 19, 0);
  EXPECT_TRUE(awake.holds());
  observe(awake, 1, 0);
  EXPECT_FALSE(awake.holds());
  EXPECT_EQ(latency(), 2'000'000'000);
  EXPECT_EQ(awake.times_held(), 1u);
}

TEST_F(AwakeTest, FewRequestsDoNotHold) {
  Awake awake(AwakeChoice::kOn, device(), "");
  observe(awake, 1000, 3);
  EXPECT_FALSE(awake.holds());
  for (int i = 0; i < 100; ++i) {  // a burst now and then
    observe(awake, 2, 100);
    observe(awake, 1, 0);
  }
  EXPECT_FALSE(awake.holds());
}

TEST_F(AwakeTest, AutoHoldsOnlyWhereIdleCpusHalt) {
  Awake virtual_machine(AwakeChoice::kAuto, device(), driver_file("haltpoll"));
  observe(virtual_machine, 3, 100);
  EXPECT_TRUE(virtual_machine.holds());
  Awake machine(AwakeChoice::kAuto, device(), driver_file("intel_idle"));
  observe(machine, 3, 100);
  EXPECT_FALSE(machine.holds());
  Awake unknown(AwakeChoice::kAuto, device(), top_ + "/none");
  observe(unknown, 3, 100);
  EXPECT_FALSE(unknown.holds());
}

TEST_F(AwakeTest, NeverHoldsWhenOffOrWithoutTheDevice) {
  Awake off(AwakeChoice::kOff, device(), driver_file("haltpoll"));
  observe(off, 100, 100);
  EXPECT_FALSE(off.holds());
  Awake without(AwakeChoice::kOn, top_ + "/none", "");
  observe(without, 100, 100);
  EXPECT_FALSE(without.holds());
}

}  // namespace
}  // namespace lazyfs::fuse
