// Runs every input of corpus/, and pieces of each, on its target: inputs that fuzzers have found,
// and seeds of every kind. LAZYFS_FUZZ_CORPUS names another folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/log.h"
#include "fuzz/targets.h"

namespace lazyfs::fuzz {
namespace {

std::filesystem::path corpus() {
  const char* given = std::getenv("LAZYFS_FUZZ_CORPUS");
  return given ? given : LAZYFS_CORPUS;
}

class ReplayTest : public testing::TestWithParam<Target> {};

TEST_P(ReplayTest, NothingKeptDoesHarm) {
  log::set_level(log::Level::kOff);
  int tried = 0;
  GetParam().run({});
  for (const auto& entry : std::filesystem::directory_iterator(corpus() / GetParam().name)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input(std::istreambuf_iterator<char>(file), {});
    SCOPED_TRACE(entry.path());
    GetParam().run(std::as_bytes(std::span(input)));
    GetParam().run(std::as_bytes(std::span(input).first(input.size() / 2)));
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace lazyfs::fuzz
