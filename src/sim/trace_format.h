// The texts that describe requests to a block device, line by line. Pure functions.
//
// The format of lazyfs: the first line is kTraceHeader; each other line is
//
//   time_us op lba blocks [flags]
//
//   time_us   when the request was issued, in microseconds since the start
//   op        R read, W write, F flush, D discard
//   lba       first sector, of 512 bytes
//   blocks    number of sectors; 0 of a flush
//   flags     - none, or letters: M metadata, J journal
//
// Empty lines, and lines that begin with '#', are ignored.
#pragma once

#include <array>
#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "sim/request.h"

namespace lazyfs::sim {

inline constexpr std::string_view kTraceHeader = "# lazyfs block trace 1";

enum class TraceFormat : std::uint8_t {
  kOwn,
  kFioLog,      // fio's iolog, version 2 or 3
  kBlkparse,    // the text that blkparse prints
  kFtrace,      // block_rq_issue events of the kernel
  kValidation,  // DiskSim's measured requests: R|W Hit|Miss LBN blocks service_us next_pause_us
};

// Recognizes a format by a line that is not ignored; nullopt: unknown.
std::optional<TraceFormat> recognize_trace(std::string_view line);

// The requests that one line stands for: none, one, or one with a flush before or after it.
struct TraceLine {
  std::array<Request, 3> requests;
  std::size_t count = 0;
  std::optional<double> measured_us;   // the service time, of kValidation
  std::optional<double> pause_us;      // until the next request, of kValidation and of fio's wait
  void add(const Request& request) { requests[count++] = request; }
};

// Parses a line of the format. The error says what is wrong with the line.
std::expected<TraceLine, std::string> parse_trace_line(TraceFormat format, std::string_view line);

// A line of the format of lazyfs, without a newline.
std::string trace_line(const Request& request);

}  // namespace lazyfs::sim
