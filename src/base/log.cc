#include "base/log.h"

#include <fcntl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "base/clock.h"
#include "base/log_limit.h"

namespace lazyfs::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kTrace: return spdlog::level::trace;
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kCritical: return spdlog::level::critical;
    case Level::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

constexpr auto kName = "lazyfs";

bool g_is_on_standard_error = false;

// `make(name)` makes a logger, whose name must be free.
void use(auto make) {
  g_is_on_standard_error = false;
  spdlog::drop(kName);
  const auto logger = make(kName);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

bool syslog_takes_messages(int socket_type) {
  const int fd = socket(AF_UNIX, socket_type | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, "/dev/log", sizeof address.sun_path - 1);
  const bool is_connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return is_connected;
}

// Each message is one write, which the kernel takes whole: "<PRIORITY>lazyfs[PID]: message".
class KernelLogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit KernelLogSink(int fd) : fd_(fd) {}
  ~KernelLogSink() override { close(fd_); }
  KernelLogSink(const KernelLogSink&) = delete;
  KernelLogSink& operator=(const KernelLogSink&) = delete;

 private:
  static int priority_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::critical: return LOG_CRIT;
      case spdlog::level::err: return LOG_ERR;
      case spdlog::level::warn: return LOG_WARNING;
      case spdlog::level::info: return LOG_INFO;
      default: return LOG_DEBUG;
    }
  }
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string line =
        fmt::format("<{}>lazyfs[{}]: {}\n", LOG_DAEMON | priority_of(message.level), getpid(),
                    fmt::string_view(message.payload.data(), message.payload.size()));
    const ssize_t written = ::write(fd_, line.data(), line.size());
    static_cast<void>(written);  // no place remains to report it
  }
  void flush_() override {}

  const int fd_;
};

bool to_kernel_log() {
  const int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  use([fd](const char* name) {
    return std::make_shared<spdlog::logger>(name, std::make_shared<KernelLogSink>(fd));
  });
  return true;
}

// For warnings and errors, per format string. Lines of other levels are requested, or rare.
constexpr std::uint64_t kLinesAPeriod = 20;
constexpr auto kPeriod = std::chrono::minutes(1);
constexpr std::uint64_t kLeaveOut = ~std::uint64_t{0};

std::uint64_t count_left_out(Level level, fmt::string_view format) {
  static LogLimit limit(kLinesAPeriod, kPeriod);
  if (level != Level::kWarn && level != Level::kError) return 0;
  return limit.note(format.data(), system_clock().monotonic()).value_or(kLeaveOut);
}

}  // namespace

void write(Level level, fmt::string_view format, fmt::format_args arguments) try {
  spdlog::logger* logger = spdlog::default_logger_raw();
  if (!logger->should_log(to_spdlog(level))) return;
  const std::uint64_t left_out = count_left_out(level, format);
  if (left_out == kLeaveOut) return;
  std::string line = fmt::vformat(format, arguments);
  if (left_out > 0) line += fmt::format(" ({} lines like this one were left out)", left_out);
  logger->log(to_spdlog(level), line);
} catch (const std::bad_alloc&) {  // the line is lost, but not what its writer is about to do
}

void set_level(Level level) { spdlog::set_level(to_spdlog(level)); }

void set_level(const std::string& name) { spdlog::set_level(spdlog::level::from_str(name)); }

void to_standard_error() {
  use([](const char* name) { return spdlog::stderr_logger_mt(name); });
  g_is_on_standard_error = true;
}
void to_syslog() {
  const bool has_syslog = syslog_takes_messages(SOCK_DGRAM) || syslog_takes_messages(SOCK_STREAM);
  if (!has_syslog && to_kernel_log()) return;
  use([](const char* name) { return spdlog::syslog_logger_mt(name, name, LOG_PID, LOG_DAEMON); });
}
void to_file(const std::string& path) {
  use([&](const char* name) { return spdlog::basic_logger_mt(name, path); });
}

bool is_on_standard_error() { return g_is_on_standard_error; }

void flush() { spdlog::default_logger_raw()->flush(); }

}  // namespace lazyfs::log
