#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "test/support/test_folder.h"
#include "tools/smrsim_report.h"
#include "tools/smrsim_run.h"

namespace lazyfs {
namespace {

class SmrsimTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static Json report(const SimulationRequest& request) {
    auto outcome = simulate(request);
    EXPECT_TRUE(outcome) << outcome.error();
    return outcome ? outcome->report : Json();
  }
  static std::string error(const SimulationRequest& request) {
    const auto outcome = simulate(request);
    return outcome ? "" : outcome.error();
  }
  TestFolder folder_;
};

// ---- Reports ------------------------------------------------------------------------------------

TEST_F(SmrsimTest, ReportsALoad) {
  const Json found = report({.disk = "ST8000AS0002",
                             .load = "rw=randwrite,bs=4k,range=1g,count=2000,sync=1",
                             .every = 500});
  EXPECT_EQ(found["model"].text(), "ST8000AS0002");
  EXPECT_EQ(found["requests"].number(), 2000u);
  EXPECT_EQ(found["flushes"].number(), 2000u);
  EXPECT_EQ(found["classes"]["data"]["writes"]["bytes"].number(), 2000u * 4096);
  ASSERT_EQ(found["progress"].items().size(), 4u);
  EXPECT_EQ(found["progress"].items()[3]["requests"].number(), 2000u);
  EXPECT_EQ(found["progress"].items()[3]["bytes"].number(), 2000u * 4096);
  EXPECT_GT(found["cleaning_seconds"].real(), 10);
  EXPECT_GT(found["bands"]["rewrites_with_cleaning"].number(), 20u);
  for (const char* name : {"mean", "p50", "p90", "p99", "max"}) {
    EXPECT_GT(found["latency_ms"][name].real(), 0) << name;
  }
}

TEST_F(SmrsimTest, TheSameSeedGivesTheSameReport) {
  const SimulationRequest request{.disk = "cheetah9lpx4",
                                  .load = "rw=randread,bs=4k,count=2000,depth=16,seed=9"};
  EXPECT_EQ(report(request).dump(), report(request).dump());
}

TEST_F(SmrsimTest, AnArrayIsFasterThanADisk) {
  const std::string load = "rw=randread,bs=4k,count=2000,depth=64";
  const Json one = report({.disk = "cheetah9lp", .load = load});
  const Json eight = report({.disk = "cheetah9lpx8", .load = load});
  EXPECT_GT(one["seconds"].real(), 5 * eight["seconds"].real());
  EXPECT_EQ(eight["disks"].number(), 8u);
  EXPECT_GT(eight["iops"]["deviation_percent"].real(), 0);
}

TEST_F(SmrsimTest, ClassesAJournalByItsPlace) {
  const std::string trace = file("t", "# lazyfs block trace 1\n0 W 0 8\n0 W 1000 16\n0 R 0 8 M\n");
  const Json found =
      report({.disk = "cheetah9lp", .traces = {trace}, .journal = "1000-2000"});
  EXPECT_EQ(found["classes"]["journal"]["writes"]["bytes"].number(), 8192u);
  EXPECT_EQ(found["classes"]["metadata"]["reads"]["requests"].number(), 1u);
}

TEST_F(SmrsimTest, PacedTracesTakeTheirTime) {
  const std::string trace = file("t", "# lazyfs block trace 1\n0 R 0 8\n3000000 R 8 8\n");
  EXPECT_GT(report({.disk = "cheetah9lp", .traces = {trace}, .is_paced = true})["seconds"].real(),
            3);
  EXPECT_LT(report({.disk = "cheetah9lp", .traces = {trace}})["seconds"].real(), 0.1);
}

TEST_F(SmrsimTest, MeasuredRequestsGiveADemerit) {
  const std::string trace = file("t", "R Hit 100 4 1000.0 50000.0\nR Hit 104 4 586.0 0\n");
  const Json found = report({.disk = "cheetah9lp", .traces = {trace}});
  EXPECT_TRUE(found.contains("demerit_ms"));
  EXPECT_TRUE(found["timing"].text().contains("pause"));
}

TEST_F(SmrsimTest, TheSeriesAddsUpToAllBytes) {
  const auto outcome = simulate({.disk = "ST8000AS0002", .load = "rw=write,bs=1m,count=1000",
                                 .with_series = true});
  ASSERT_TRUE(outcome);
  std::uint64_t written = 0;
  for (const Json& bytes : outcome->report["series"]["written_bytes"].items()) {
    written += bytes.number();
  }
  EXPECT_EQ(written, 1000u << 20);
}

// ---- Mistakes -----------------------------------------------------------------------------------

TEST_F(SmrsimTest, NamesWhatIsWrong) {
  const std::string load = "rw=read,count=1";
  EXPECT_TRUE(error({.disk = "ST1", .load = load}).starts_with("ST1: no such model"));
  EXPECT_TRUE(error({.disk = "cheetah9lpx0", .load = load}).contains("no such model"));
  EXPECT_EQ(error({.disk = "cheetah9lp", .load = "rw=read"}), "--load: count= is missing");
  EXPECT_EQ(error({.disk = "cheetah9lp", .load = "rw=read,count=1,range=1t"}),
            "--load: the range is larger than the volume");
  EXPECT_EQ(error({.disk = "cheetah9lp", .load = "rw=read,count=1,range=4k,bs=8k"}),
            "--load: the range is less than a block");
  EXPECT_TRUE(error({.disk = "cheetah9lpx2", .load = load, .stripe_sectors = 0})
                  .starts_with("--stripe: "));
  EXPECT_TRUE(error({.disk = "cheetah9lp", .traces = {"x"}, .journal = "7-3"})
                  .starts_with("--journal: "));
}

TEST_F(SmrsimTest, NamesTheLineOfATrace) {
  const std::string start = "# lazyfs block trace 1\n0 R 0 8\n";
  const std::string bad = file("bad", start + "what\n");
  const std::string far = file("far", start + "0 R 17783240 8\n");
  EXPECT_TRUE(error({.disk = "cheetah9lp", .traces = {bad}}).starts_with(bad + ":3: "));
  EXPECT_TRUE(error({.disk = "cheetah9lp", .traces = {far}})
                  .starts_with(far + ":3: the request ends past the end of the volume"));
  EXPECT_EQ(error({.disk = "cheetah9lp", .traces = {file("none", "# lazyfs block trace 1\n")}}),
            "the traces have no requests");
}

// ---- disks, compare -----------------------------------------------------------------------------

TEST_F(SmrsimTest, ListsModelsWithTheOriginOfEachParameter) {
  const Json models = describe_models();
  EXPECT_GE(models.items().size(), 7u);
  for (const Json& model : models.items()) {
    for (const Json& parameter : model["parameters"].items()) {
      EXPECT_FALSE(parameter["origin"].text().empty());
    }
  }
}

TEST_F(SmrsimTest, ComparesWithTheFirstReport) {
  const auto write_report = [&](const std::string& name, double seconds, double cleaning) {
    return file(name, Json::object({{"model", "m"}, {"seconds", seconds},
                                    {"cleaning_seconds", cleaning}}).dump());
  };
  const auto rows = compare_reports({write_report("a", 10, 10), write_report("b", 5, 0)});
  ASSERT_TRUE(rows);
  EXPECT_DOUBLE_EQ(rows->items()[1]["seconds_ratio"].real(), 0.5);
  EXPECT_DOUBLE_EQ(rows->items()[1]["with_cleaning_ratio"].real(), 0.25);
  EXPECT_TRUE(compare_reports({file("c", "{}")}).error().contains("not a report"));
  EXPECT_TRUE(compare_reports({"/nonexistent"}).error().contains("not a report"));
}

}  // namespace
}  // namespace lazyfs
