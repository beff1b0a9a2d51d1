// Power cuts at every moment of many workloads.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "base/types.h"
#include "crash/explorer.h"
#include "test/support/seed.h"

namespace lazyfs::crash {
namespace {

// Files of several blocks and of a few bytes, two folders, two names of one file, a link, an
// attribute.
Image small_image() {
  return make_image(16, 32,
                    {
                        {.act = Act::kCreate, .path = "/a"},
                        {.act = Act::kWrite, .path = "/a", .length = 10'000, .tag = 1},
                        {.act = Act::kCreate, .path = "/b"},
                        {.act = Act::kWrite, .path = "/b", .length = 300, .tag = 2},
                        {.act = Act::kMakeDirectory, .path = "/d"},
                        {.act = Act::kMakeDirectory, .path = "/e"},
                        {.act = Act::kCreate, .path = "/d/c"},
                        {.act = Act::kWrite, .path = "/d/c", .length = 3 * kBlockBytes, .tag = 3},
                        {.act = Act::kLink, .path = "/d/c", .other = "/h"},
                        {.act = Act::kSymlink, .path = "/s", .other = "d/c"},
                        {.act = Act::kSetXattr, .path = "/a", .other = "user.x", .length = 40},
                    });
}

TEST(CrashTest, EachStateOfAFirstWorkloadIsExplained) {
  spdlog::set_level(spdlog::level::off);
  const Image image = small_image();
  const Workload workload{
      {.act = Act::kWrite, .path = "/a", .offset = 5000, .length = 9000, .tag = 10},
      {.act = Act::kCreate, .path = "/d/n"},
      {.act = Act::kWrite, .path = "/d/n", .length = 5000, .tag = 11},
      {.act = Act::kFsync, .path = "/d/n"},
      {.act = Act::kRename, .path = "/d/n", .other = "/b"},
      {.act = Act::kTruncate, .path = "/a", .offset = 4100},
      {.act = Act::kUnlink, .path = "/h"},
      {.act = Act::kSync},
      {.act = Act::kWrite, .path = "/b", .offset = kAtEnd, .length = 9000, .tag = 12},
  };
  const ExploreOptions options{.seed = test_seed(), .choices = 60, .relapses = 1};
  const Verdict verdict = explore(image, workload, {}, options);
  EXPECT_FALSE(verdict.explored.failure) << to_string(verdict, options);
  EXPECT_GT(verdict.explored.states, 500u);
  std::printf("%lu states, %lu of a second power cut, %lu used\n", verdict.explored.states,
              verdict.explored.relapsed, verdict.explored.used);
}

}  // namespace
}  // namespace lazyfs::crash
