#include "fuse/transport/cpu_list.h"

#include <gtest/gtest.h>

namespace lazyfs::fuse {
namespace {

using Cpus = std::vector<unsigned>;

TEST(CpuList, NumbersAndRangesAreListed) {
  EXPECT_EQ(parse_cpu_list("0\n"), Cpus({0}));
  EXPECT_EQ(parse_cpu_list("0-3"), Cpus({0, 1, 2, 3}));
  EXPECT_EQ(parse_cpu_list("0,2-3,8"), Cpus({0, 2, 3, 8}));
}

TEST(CpuList, AnythingElseIsEmpty) {
  for (const char* text : {"", "\n", "x", "0-", "-1", "3-0", "0,", "0,,1", "0 1", "70000"}) {
    EXPECT_EQ(parse_cpu_list(text), Cpus()) << text;
  }
  EXPECT_EQ(read_cpu_list("/none"), Cpus());
}

}  // namespace
}  // namespace lazyfs::fuse
