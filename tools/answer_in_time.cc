#include "tools/answer_in_time.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace lazyfs {
namespace {

using AnswerClock = std::chrono::steady_clock;

// The first byte of the child's message.
constexpr char kAnswer = 'a', kFailure = 'f';

[[noreturn]] void fail_call(const char* call) {
  throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
}

// ---- In the child -------------------------------------------------------------------------------

// Makes `to` the standard output. Closes all other files.
void keep_only(int to) {
  ::dup2(to, STDOUT_FILENO);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

[[noreturn]] void answer(int to, pid_t parent, const std::function<std::string()>& ask) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before prctl()
  keep_only(to);
  try {
    write_all(kAnswer + ask());
  } catch (const std::exception& e) {
    write_all(kFailure + std::string(e.what()));
  }
  ::_exit(0);
}

// ---- In the parent ------------------------------------------------------------------------------

// Whether something can be read, or the other end is closed, before the deadline.
bool is_ready(int from, AnswerClock::time_point deadline) {
  pollfd input = {.fd = from, .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - AnswerClock::now());
    const auto wait = std::clamp<std::int64_t>(left.count(), 0, INT_MAX);
    const int ready = ::poll(&input, 1, static_cast<int>(wait));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// Reads until the other end is closed; nullopt if that is later than the deadline.
std::optional<std::string> read_until(int from, AnswerClock::time_point deadline) {
  std::string text;
  char piece[4096];
  while (is_ready(from, deadline)) {
    const ssize_t length = ::read(from, piece, sizeof piece);
    if (length == 0) return text;
    if (length < 0 && errno != EINTR) fail_call("read");
    text.append(piece, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> answer_in_time(std::chrono::milliseconds timeout,
                                          const std::function<std::string()>& ask) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_call("pipe2");
  const auto deadline = AnswerClock::now() + timeout;
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail_call("fork");
  if (child == 0) answer(ends[1], parent, ask);
  ::close(ends[1]);
  const auto message = read_until(ends[0], deadline);
  ::close(ends[0]);
  if (!message) {
    ::kill(child, SIGKILL);
    return std::nullopt;
  }
  ::waitpid(child, nullptr, 0);
  if (message->empty()) throw std::runtime_error("the process that asks the daemon has died");
  if (message->front() == kFailure) throw std::runtime_error(message->substr(1));
  return message->substr(1);
}

}  // namespace lazyfs
