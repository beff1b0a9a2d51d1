// The locks of a scrub in the background.
#include "tools/scrub_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "test/support/test_folder.h"
#include "tools/volume_commands.h"

namespace lazyfs {

// Instead of that of volume_commands.cc, which needs all of lazyfsctl.
void fail_with(const std::string& what, std::string_view why) {
  throw std::runtime_error(what + ": " + std::string(why));
}

namespace {

const std::string kUuid = "a-volume";

// A scrub in the background leaves the folder in which its user has started it.
TEST(ScrubStateTest, RelativeFolderStaysWhereItWasWhenTheProcessLeaves) {
  const TestFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const ScrubFiles files("state", kUuid);
  std::filesystem::current_path(before);
  EXPECT_NO_THROW(files.write({}));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "state" / ("scrub-" + kUuid + ".json")));
}

TEST(ScrubStateTest, QuestionsKeepNoScrubFromBeginning) {
  const TestFolder folder;
  std::atomic<bool> is_over = false;
  std::thread asking([&] {
    const ScrubFiles files(folder.path(), kUuid);
    while (!is_over) EXPECT_FALSE(files.is_running());
  });
  int refused = 0;
  for (int i = 0; i < 2000; ++i) refused += ScrubFiles(folder.path(), kUuid).lock() ? 0 : 1;
  is_over = true;
  asking.join();
  EXPECT_EQ(refused, 0);
}

TEST(ScrubStateTest, StateIsReadAsItWasWritten) {
  const TestFolder folder;
  const ScrubFiles files(folder.path(), kUuid);
  EXPECT_FALSE(files.read());
  ScrubState state;
  state.status = ScrubState::Status::kFailed;
  state.failure = "no \"device\"";
  state.mount_point = "/srv/a b";
  state.pid = 11;
  state.started_seconds = 22;
  state.seconds = 3.5;
  state.rate = 44;
  state.inode = 55;
  state.file_block = 66;
  state.blocks = 77;
  state.total_blocks = 88;
  state.damaged = 99;
  state.found.push_back({.inode = 1, .offset = 2, .what = 3});
  files.write(state);
  const auto read = files.read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status, state.status);
  EXPECT_EQ(read->failure, state.failure);
  EXPECT_EQ(read->mount_point, state.mount_point);
  EXPECT_EQ(read->pid, 11);
  EXPECT_EQ(read->started_seconds, 22u);
  EXPECT_EQ(read->seconds, 3.5);
  EXPECT_EQ(read->rate, 44u);
  EXPECT_EQ(read->inode, 55u);
  EXPECT_EQ(read->file_block, 66u);
  EXPECT_EQ(read->blocks, 77u);
  EXPECT_EQ(read->total_blocks, 88u);
  EXPECT_EQ(read->damaged, 99u);
  ASSERT_EQ(read->found.size(), 1u);
  EXPECT_EQ(read->found[0].inode, 1u);
  EXPECT_EQ(read->found[0].offset, 2u);
  EXPECT_EQ(read->found[0].what, 3u);
}

TEST(ScrubStateTest, DamagedStateIsRefused) {
  const TestFolder folder;
  const ScrubFiles files(folder.path(), kUuid);
  files.write({});
  const std::string path = folder / ("scrub-" + kUuid + ".json");
  std::ofstream(path) << "{}";
  EXPECT_THROW(files.read(), std::runtime_error);
  const std::string whole = to_json({});
  ASSERT_TRUE(parse_scrub_state(whole));
  for (const char* name : {"status", "rate", "found"}) {
    std::string other = whole;
    other.replace(other.find(name), 1, "x");
    EXPECT_FALSE(parse_scrub_state(other)) << name;
  }
  std::string number = whole;
  number.replace(number.find("\"running\""), 9, "7");
  EXPECT_FALSE(parse_scrub_state(number));
}

// A process that scrubs after the parent has taken the lock, until the end of its life.
class Scrubber {
 public:
  explicit Scrubber(ScrubFiles& files) {
    EXPECT_EQ(pipe(to_child_.data()), 0);
    EXPECT_EQ(pipe(from_child_.data()), 0);
    child_ = fork();
    if (child_ != 0) return;
    close(to_child_[1]);
    files.announce();
    char word = 0;
    if (write(from_child_[1], &word, 1) == 1 && read(to_child_[0], &word, 1) != 1) _exit(0);
    _exit(1);
  }
  ~Scrubber() {
    close(to_child_[1]);
    waitpid(child_, nullptr, 0);
  }
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  pid_t wait_until_announced() {
    char word = 0;
    EXPECT_EQ(read(from_child_[0], &word, 1), 1);
    return child_;
  }

 private:
  std::array<int, 2> to_child_{}, from_child_{};
  pid_t child_ = 0;
};

TEST(ScrubStateTest, ScrubberIsTheProcessThatRunsAndNoOtherCanBegin) {
  const TestFolder folder;
  ScrubFiles asking(folder.path(), kUuid);
  {
    std::optional<ScrubFiles> starting(std::in_place, folder.path(), kUuid);
    ASSERT_TRUE(starting->lock());
    EXPECT_EQ(asking.scrubber(), std::nullopt);  // it has not begun
    Scrubber scrubber(*starting);
    starting.reset();
    const pid_t process = scrubber.wait_until_announced();
    EXPECT_EQ(asking.scrubber(), process);
    EXPECT_FALSE(asking.lock());
  }
  EXPECT_FALSE(asking.is_running());
  EXPECT_TRUE(asking.lock());
}

}  // namespace
}  // namespace lazyfs
