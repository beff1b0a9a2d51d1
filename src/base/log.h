// The log: one line per event, to standard error or to the sink that the program chose with
// spdlog::set_default_logger. A line holds what is needed to debug it: ids, seq, expected and
// found.
#pragma once

#include <spdlog/spdlog.h>

namespace lazyfs::log {

using spdlog::critical;
using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::trace;
using spdlog::warn;

inline void flush() { spdlog::default_logger_raw()->flush(); }

}  // namespace lazyfs::log
