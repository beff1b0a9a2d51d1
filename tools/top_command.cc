#include "tools/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tools/metrics_command.h"
#include "tools/volume_commands.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortest{250}, kLongest{60'000};

std::atomic<bool> is_ended{false};

// The terminal takes single keys and shows a page of its own until the destructor runs.
class Screen {
 public:
  Screen() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) fail_with("terminal", std::strerror(errno));
    termios single_keys = before_;
    single_keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &single_keys);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      std::signal(signal, [](int) { is_ended = true; });  // poll() ends, too
    }
    std::fputs("\033[?1049h\033[?25l", stdout);
  }
  ~Screen() {
    std::fputs("\033[?25h\033[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Writes the new page over the old one with one write. Nothing is cleared first, so nothing
  // flickers.
  static void show(const std::vector<std::string>& page) {
    std::string text = "\033[H";
    for (std::size_t i = 0; i < page.size(); ++i) {
      text += page[i] + "\033[K" + (i + 1 < page.size() ? "\n" : "");
    }
    text += "\033[J";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  static void resize(TopView& view) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return;
    view.columns = size.ws_col;
    view.lines = size.ws_row;
  }
  // 0 when no key was pressed in time, or a signal came.
  static char wait_for_key(milliseconds time) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>(time.count())) <= 0) return 0;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
  }

 private:
  termios before_{};
};

void obey(char key, TopView& view, milliseconds& interval) {
  if (key == 'q') is_ended = true;
  if (key == 't') view.by_time = true;
  if (key == 'n') view.by_time = false;
  if (key == '+') interval = std::min(interval * 2, kLongest);
  if (key == '-') interval = std::max(interval / 2, kShortest);
}

void watch(const std::string& mount_point, milliseconds interval) {
  const Screen screen;
  TopView view;
  MountFigures before = figures_of(mount_point);
  milliseconds wait = std::min(interval, kShortest);  // the first page comes soon
  while (!is_ended) {
    const char key = Screen::wait_for_key(wait);
    obey(key, view, interval);
    wait = interval;
    Screen::resize(view);
    view.lines -= view.lines > 1 ? 1 : 0;
    MountFigures now = figures_of(mount_point);
    std::vector<std::string> page = top_page(before, now, view);
    page.push_back(text_of("every %.3g s: + - | sort: t by time, n by number | q ends",
                           static_cast<double>(interval.count()) / 1000));
    page.back().resize(std::min<std::size_t>(page.back().size(), view.columns));
    Screen::show(page);
    before = std::move(now);
  }
}

}  // namespace

void top_command(const std::string& mount_point, milliseconds interval) {
  interval = std::clamp(interval, kShortest, kLongest);
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) return watch(mount_point, interval);
  const MountFigures before = figures_of(mount_point);
  std::this_thread::sleep_for(interval);
  for (const std::string& line :
       top_page(before, figures_of(mount_point), {.lines = 1000})) {
    std::puts(line.c_str());
  }
}

}  // namespace lazyfs
