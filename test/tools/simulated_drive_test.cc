#include "tools/simulated_drive.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "test/support/seed.h"
#include "test/support/test_folder.h"

namespace lazyfs {
namespace {

class SimulatedDriveTest : public testing::Test {
 protected:
  DriveOptions options(const std::string& model = "cheetah9lp") {
    return {.model = model, .size_bytes = 64 << 20, .backing = (folder_ / "backing").string()};
  }
  static std::unique_ptr<SimulatedDrive> must_open(const DriveOptions& options) {
    auto opened = SimulatedDrive::open(options);
    EXPECT_TRUE(opened) << opened.error();
    return opened ? std::move(*opened) : nullptr;
  }
  static std::vector<std::byte> bytes(std::size_t count, int value) {
    return std::vector<std::byte>(count, std::byte(value));
  }
  std::uint64_t allocated() const {
    struct stat status {};
    EXPECT_EQ(::stat((folder_ / "backing").c_str(), &status), 0);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  TestFolder folder_;
};

TEST_F(SimulatedDriveTest, KeepsWhatWasWritten) {
  const auto content = bytes(8192, 7);
  {
    const auto drive = must_open(options());
    EXPECT_EQ(drive->write(4096, content), 0);
    EXPECT_EQ(drive->flush(), 0);
  }
  const auto drive = must_open(options());
  auto found = bytes(8192, 0);
  EXPECT_EQ(drive->read(4096, found), 0);
  EXPECT_EQ(found, content);
}

TEST_F(SimulatedDriveTest, BlocksOfOneByteTakeNoSpaceWhereDataIsForgotten) {
  DriveOptions forgetful = options();
  forgetful.forgets_data = true;
  {
    const auto drive = must_open(forgetful);
    EXPECT_EQ(drive->write(0, bytes(1 << 20, 'x')), 0);
    EXPECT_EQ(allocated(), 0u);
    auto mixed = bytes(3 * 4096, 'y');
    mixed[5000] = std::byte{'z'};
    EXPECT_EQ(drive->write(1 << 20, mixed), 0);
    EXPECT_EQ(allocated(), 4096u);
  }
  const auto drive = must_open(options());  // the fills belong to the backing file
  auto found = bytes(1 << 20, 0);
  EXPECT_EQ(drive->read(0, found), 0);
  EXPECT_EQ(found, bytes(1 << 20, 'x'));
  found = bytes(3 * 4096, 0);
  EXPECT_EQ(drive->read(1 << 20, found), 0);
  EXPECT_EQ(found[5000], std::byte{'z'});
  found[5000] = std::byte{'y'};
  EXPECT_EQ(found, bytes(3 * 4096, 'y'));
}

TEST_F(SimulatedDriveTest, AForgetfulDriveAgreesWithAModelAfterAnyWrites) {
  DriveOptions forgetful = options();
  forgetful.forgets_data = true;
  const auto drive = must_open(forgetful);
  constexpr std::size_t kBytes = 1 << 16;
  auto model = bytes(kBytes, 0);
  std::mt19937 random(test_seed());
  for (int i = 0; i < 2000; ++i) {
    const std::size_t from = random() % (kBytes / 512) * 512;
    const std::size_t length = std::min<std::size_t>((1 + random() % 40) * 512, kBytes - from);
    auto content = bytes(length, static_cast<int>(random() % 3));
    if (random() % 4 == 0) content[random() % length] = std::byte{9};
    if (random() % 5 == 0) {
      EXPECT_EQ(drive->discard(from, length), 0);
      std::ranges::fill(content, std::byte{0});
    } else {
      EXPECT_EQ(drive->write(from, content), 0);
    }
    std::ranges::copy(content, model.begin() + static_cast<std::ptrdiff_t>(from));
    auto found = bytes(kBytes, 7);
    ASSERT_EQ(drive->read(0, found), 0);
    ASSERT_EQ(found, model) << seed_trace() << " step " << i;
  }
}

TEST_F(SimulatedDriveTest, ZerosTakeNoSpace) {
  const auto drive = must_open(options());
  EXPECT_EQ(drive->write(0, bytes(1 << 20, 0)), 0);
  EXPECT_EQ(allocated(), 0u);
  EXPECT_EQ(drive->write(0, bytes(1 << 20, 1)), 0);
  EXPECT_GE(allocated(), 1u << 20);
  EXPECT_EQ(drive->discard(0, 1 << 19), 0);
  EXPECT_EQ(drive->write_zeros(1 << 19, 1 << 19), 0);
  EXPECT_EQ(allocated(), 0u);
  auto found = bytes(4096, 1);
  EXPECT_EQ(drive->read(0, found), 0);
  EXPECT_EQ(found, bytes(4096, 0));
}

TEST_F(SimulatedDriveTest, EndsWhereItEnds) {
  const auto drive = must_open(options());
  auto block = bytes(4096, 1);
  EXPECT_EQ(drive->write((64 << 20) - 4096, block), 0);
  EXPECT_EQ(drive->write((64 << 20) - 4095, block), -EINVAL);
  EXPECT_EQ(drive->read(UINT64_MAX, block), -EINVAL);
  EXPECT_EQ(drive->discard(1 << 20, UINT64_MAX), -EINVAL);
}

TEST_F(SimulatedDriveTest, RecordsATrace) {
  DriveOptions recorded = options();
  recorded.record = (folder_ / "trace").string();
  {
    const auto drive = must_open(recorded);
    drive->write(4096, bytes(8192, 1));
    drive->write(100, bytes(1000, 1));  // touches three sectors
    drive->flush();
    drive->discard(0, 4096);
  }
  std::ifstream file(recorded.record);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "# lazyfs block trace 1");
  EXPECT_EQ(lines[1], "0 W 8 16 -");
  EXPECT_TRUE(lines[2].ends_with(" W 0 3 -"));
  EXPECT_TRUE(lines[3].ends_with(" F 0 0 -"));
  EXPECT_TRUE(lines[4].ends_with(" D 0 8 -"));
}

TEST_F(SimulatedDriveTest, ReportsTheDisksTime) {
  const auto drive = must_open(options("ST8000AS0002"));
  for (std::uint64_t i = 0; i < 100; ++i) drive->write(i * 37 % 100 * 65'536, bytes(4096, 1));
  drive->flush();
  const Json report = drive->report();
  EXPECT_EQ(report["written_bytes"].number(), 409'600u);
  EXPECT_GT(report["seconds"].real(), 0.02);
  EXPECT_GT(report["cleaning_seconds"].real(), 0.3);
  EXPECT_EQ(report["cached_bytes"].number(), 409'600u);
}

TEST_F(SimulatedDriveTest, AHostManagedDiskRefusesRandomWrites) {
  const auto drive = must_open(options("host-managed"));
  EXPECT_EQ(drive->write(0, bytes(4096, 1)), 0);
  EXPECT_EQ(drive->write(1 << 20, bytes(4096, 1)), -EIO);
  auto found = bytes(4096, 2);
  EXPECT_EQ(drive->read(1 << 20, found), 0);
  EXPECT_EQ(found, bytes(4096, 0));
}

TEST_F(SimulatedDriveTest, InRealTimeARequestTakesItsTime) {
  DriveOptions real = options();
  real.is_realtime = true;
  const auto drive = must_open(real);
  const auto start = std::chrono::steady_clock::now();
  auto block = bytes(4096, 0);
  for (std::uint64_t i = 0; i < 20; ++i) drive->read(i * 7 % 20 << 20, block);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took.count(), drive->report()["seconds"].real() - 0.001);
  EXPECT_GT(took.count(), 0.05);
}

TEST_F(SimulatedDriveTest, SaysWhatCannotBeUsed) {
  const auto error = [](const DriveOptions& options) {
    const auto opened = SimulatedDrive::open(options);
    return opened ? "" : opened.error();
  };
  EXPECT_TRUE(error(options("floppy")).contains("no such model"));
  DriveOptions wrong = options();
  wrong.size_bytes = 1ull << 40;
  EXPECT_EQ(error(wrong), "--size: the model is smaller");
  wrong.size_bytes = 1000;
  EXPECT_EQ(error(wrong), "--size: not a number of whole sectors");
  wrong = options();
  wrong.backing = "/nonexistent/x";
  EXPECT_TRUE(error(wrong).contains("cannot be opened"));
  must_open(options());
  wrong = options();
  wrong.size_bytes = 32 << 20;
  EXPECT_TRUE(error(wrong).contains("has another size"));
}

}  // namespace
}  // namespace lazyfs
