#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

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

// `make(name)` makes a logger, whose name must be free.
void use(auto make) {
  spdlog::drop(kName);
  const auto logger = make(kName);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace

void write(Level level, fmt::string_view format, fmt::format_args arguments) {
  spdlog::logger* logger = spdlog::default_logger_raw();
  if (!logger->should_log(to_spdlog(level))) return;
  logger->log(to_spdlog(level), fmt::vformat(format, arguments));
}

void set_level(Level level) { spdlog::set_level(to_spdlog(level)); }

void set_level(const std::string& name) { spdlog::set_level(spdlog::level::from_str(name)); }

void to_standard_error() {
  use([](const char* name) { return spdlog::stderr_logger_mt(name); });
}
void to_syslog() {
  use([](const char* name) { return spdlog::syslog_logger_mt(name, name, LOG_PID, LOG_DAEMON); });
}
void to_file(const std::string& path) {
  use([&](const char* name) { return spdlog::basic_logger_mt(name, path); });
}

void flush() { spdlog::default_logger_raw()->flush(); }

}  // namespace lazyfs::log
