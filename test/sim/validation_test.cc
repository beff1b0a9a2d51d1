// The Cheetah 9LP against the real drive. The measured requests are not part of the repository:
// LAZYFS_DISK_MODELS, of the environment or else of CMake, names the folder that has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/models.h"
#include "sim/trace_reader.h"

namespace lazyfs::sim {
namespace {

std::string measured(const char* name) {
  const char* given = std::getenv("LAZYFS_DISK_MODELS");
  return std::string(given ? given : LAZYFS_DISK_MODELS) + "/" + name;
}

// Replays all requests, one at a time, each after its recorded pause. Returns the reads' times.
std::vector<double> replay(TraceReader& reader) {
  ParameterSheet sheet;
  const auto disk = find_model("cheetah9lp")->make(sheet);
  std::vector<double> reads_ms;
  double now_ms = 0;
  while (const auto request = reader.next().value()) {
    now_ms += request->time_us / 1000;
    const double end_ms = disk->serve(now_ms, *request);
    if (request->op == Op::kRead) reads_ms.push_back(end_ms - now_ms);
    now_ms = end_ms;
  }
  return reads_ms;
}

TEST(ValidationTest, TheDemeritOfTheCheetahsReadsIsLessThanDiskSims) {
  const std::string trace = measured("cheetah9lp.trace");
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << trace << " is missing";
  TraceReader reader({trace}, {});
  std::vector<double> simulated_ms = replay(reader);
  std::vector<double> measured_ms = reader.measured_reads_ms();
  ASSERT_EQ(simulated_ms.size(), 6594u);
  ASSERT_EQ(measured_ms.size(), simulated_ms.size());
  double each = 0, sorted = 0;
  for (std::size_t i = 0; i < measured_ms.size(); ++i) {
    each += std::pow(measured_ms[i] - simulated_ms[i], 2);
  }
  std::ranges::sort(simulated_ms);
  std::ranges::sort(measured_ms);
  for (std::size_t i = 0; i < measured_ms.size(); ++i) {
    sorted += std::pow(measured_ms[i] - simulated_ms[i], 2);
  }
  const auto count = static_cast<double>(measured_ms.size());
  const double demerit = std::sqrt(sorted / count);
  RecordProperty("demerit_ms", std::to_string(demerit));
  RecordProperty("request_by_request_ms", std::to_string(std::sqrt(each / count)));
  EXPECT_LE(demerit, 0.107);
}

}  // namespace
}  // namespace lazyfs::sim
