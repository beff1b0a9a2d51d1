// The locks of a scrub in the background.
#include "tools/scrub_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
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
