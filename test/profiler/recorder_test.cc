#include "profiler/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <sstream>
#include <string>
#include <vector>

namespace lazyfs::profiler {
namespace {

class SetClock : public Clock {
 public:
  Timestamp now() override { return {1'000'000'000, 0}; }
  std::chrono::nanoseconds monotonic() override { return time; }
  std::chrono::nanoseconds time{0};
};

class RecorderTest : public testing::Test {
 protected:
  Recorder make(Recorder::Format format) {
    return Recorder(Descriptor(::dup(file_.get())), format, false, counts_, clock_,
                    [this] { return cpu_; });
  }
  std::string written() const {
    std::string text(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(file_.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
    return text;
  }
  std::vector<Json> objects() const {
    std::vector<Json> found;
    std::istringstream lines(written());
    for (std::string line; std::getline(lines, line);) found.push_back(*Json::parse(line));
    return found;
  }

  Descriptor file_{::memfd_create("profile", MFD_CLOEXEC)};
  Counts counts_;
  SetClock clock_;
  CpuTime cpu_;
};

TEST_F(RecorderTest, EachSectionHasANumberAndItsOwnTime) {
  clock_.time = std::chrono::seconds(5);
  cpu_ = {1, 2};
  Recorder recorder = make(Recorder::Format::kJson);
  clock_.time = std::chrono::seconds(8);
  cpu_ = {1.5, 2.25};
  counts_.count({Call::kOpen});
  EXPECT_TRUE(recorder.end_section("SIGUSR1"));
  clock_.time = std::chrono::seconds(10);
  EXPECT_TRUE(recorder.end_section("unmount"));

  const auto found = objects();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["section"].number(), 1u);
  EXPECT_EQ(found[0]["seconds"].real(), 3);
  EXPECT_EQ(found[0]["cpu_seconds"]["user"].real(), 0.5);
  EXPECT_EQ(found[0]["cpu_seconds"]["system"].real(), 0.25);
  EXPECT_EQ(found[0]["calls"]["open"].number(), 1u);
  EXPECT_EQ(found[1]["section"].number(), 2u);
  EXPECT_EQ(found[1]["seconds"].real(), 2);
  EXPECT_EQ(found[1]["cpu_seconds"]["user"].real(), 0);
  EXPECT_EQ(found[1]["total_calls"].number(), 0u);
  EXPECT_EQ(found[1]["reason"].text(), "unmount");
}

TEST_F(RecorderTest, TextSectionsFollowEachOther) {
  Recorder recorder = make(Recorder::Format::kText);
  EXPECT_TRUE(recorder.end_section("SIGUSR1"));
  EXPECT_TRUE(recorder.end_section("unmount"));
  EXPECT_NE(written().find("\n\nSection 2, 2001-09-09T01:46:40Z, unmount\n"), std::string::npos);
}

TEST_F(RecorderTest, ReportsAFileThatTakesNothing) {
  Recorder recorder(Descriptor(::open("/dev/full", O_WRONLY | O_CLOEXEC)),
                    Recorder::Format::kText, false, counts_, clock_, [] { return CpuTime{}; });
  EXPECT_FALSE(recorder.end_section("SIGUSR1"));
}

}  // namespace
}  // namespace lazyfs::profiler
