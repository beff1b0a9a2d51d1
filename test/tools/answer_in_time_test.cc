#include "tools/answer_in_time.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>

namespace lazyfs {
namespace {

constexpr std::chrono::minutes kLong{1};

TEST(AnswerInTimeTest, ReturnsTheAnswer) {
  EXPECT_EQ(answer_in_time(kLong, [] { return "yes"; }), "yes");
  EXPECT_EQ(answer_in_time(kLong, [] { return ""; }), "");
}

TEST(AnswerInTimeTest, ReturnsAnAnswerThatFillsThePipeSeveralTimes) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(answer_in_time(kLong, [&] { return text; }), text);
}

TEST(AnswerInTimeTest, ThrowsWhatTheQuestionThrows) {
  try {
    answer_in_time(kLong, []() -> std::string { throw std::runtime_error("what: why"); });
    FAIL() << "nothing is thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "what: why");
  }
}

TEST(AnswerInTimeTest, ThrowsWhenTheChildDies) {
  EXPECT_THROW(answer_in_time(kLong, []() -> std::string { _exit(0); }), std::runtime_error);
}

TEST(AnswerInTimeTest, GivesUpAfterTheTime) {
  const auto never = []() -> std::string {
    for (;;) pause();
  };
  EXPECT_EQ(answer_in_time(std::chrono::milliseconds(10), never), std::nullopt);
}

// A shell waits for the end of a command's output, and for a lock until all have closed its file.
TEST(AnswerInTimeTest, TheChildHasNoOpenFileOfItsParent) {
  const int file = open("/dev/zero", O_RDONLY);
  ASSERT_GT(file, STDERR_FILENO);
  const auto is_open = [file] {
    return std::string(fcntl(file, F_GETFD) >= 0 ? "open" : "closed");
  };
  EXPECT_EQ(answer_in_time(kLong, is_open), "closed");
  EXPECT_GE(fcntl(file, F_GETFD), 0);
  close(file);
}

}  // namespace
}  // namespace lazyfs
