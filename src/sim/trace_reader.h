// Reads traces of any known format, plain or compressed by xz, one file after the other. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/text_file.h"
#include "sim/trace_format.h"

namespace lazyfs::sim {

// The sectors of a journal, from first to last: a request to one of them counts as the journal's.
struct SectorRange {
  std::uint64_t first = 1, last = 0;
  bool contains(std::uint64_t sector) const { return first <= sector && sector <= last; }
};

class TraceReader {
 public:
  TraceReader(std::vector<std::string> paths, SectorRange journal)
      : paths_(paths.begin(), paths.end()), journal_(journal) {}

  // Returns the next request, or nothing after the last one of the last file. Times continue from
  // file to file. The error names the file and the line: "FILE:LINE: what is wrong".
  std::expected<std::optional<Request>, std::string> next();

  // "FILE:LINE: what", of the line of the request that next() has returned.
  std::string at_line(const std::string& what) const;
  // Service times of reads that the traces have measured, in milliseconds.
  const std::vector<double>& measured_reads_ms() const { return measured_reads_ms_; }
  // Times are pauses after the end of the request before.
  bool is_thinking() const { return format_ == TraceFormat::kValidation; }

 private:
  std::expected<void, std::string> take_line();
  std::expected<void, std::string> open_next();
  void take(const TraceLine& line);

  std::deque<std::string> paths_;
  const SectorRange journal_;
  std::unique_ptr<TextFile> file_;
  std::string path_;
  std::uint64_t line_ = 0;
  std::optional<TraceFormat> format_;
  std::deque<Request> waiting_;
  std::optional<double> first_us_;   // time of the file's first request
  double begin_us_ = 0, last_us_ = 0;  // where the file's times begin, and how far they got
  double pause_us_ = 0;
  std::vector<double> measured_reads_ms_;
};

}  // namespace lazyfs::sim
