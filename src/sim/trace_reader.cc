#include "sim/trace_reader.h"

#include <algorithm>
#include <span>
#include <utility>

namespace lazyfs::sim {

std::string TraceReader::at_line(const std::string& what) const {
  return path_ + ":" + std::to_string(line_) + ": " + what;
}

std::expected<void, std::string> TraceReader::open_next() {
  path_ = paths_.front();
  paths_.pop_front();
  auto opened = TextFile::open(path_);
  if (!opened) return std::unexpected(path_ + ": " + opened.error());
  file_ = std::move(*opened);
  line_ = 0;
  format_.reset();
  first_us_.reset();
  begin_us_ = last_us_;
  pause_us_ = 0;
  return {};
}

void TraceReader::take(const TraceLine& line) {
  for (Request request : std::span(line.requests).first(line.count)) {
    if (is_thinking()) {
      request.time_us = pause_us_;
    } else {
      if (!first_us_) first_us_ = request.time_us;
      request.time_us = std::max(last_us_, begin_us_ + request.time_us - *first_us_ + pause_us_);
      last_us_ = request.time_us;
    }
    if (journal_.contains(request.sector) && request.op != Op::kFlush) {
      request.kind = RequestClass::kJournal;
    }
    if (line.measured_us && request.op == Op::kRead) {
      measured_reads_ms_.push_back(*line.measured_us / 1000);
    }
    waiting_.push_back(request);
  }
  if (!line.pause_us) return;
  pause_us_ = is_thinking() ? *line.pause_us : pause_us_ + *line.pause_us;
}

std::expected<void, std::string> TraceReader::take_line() {
  const auto text = file_->line();
  if (!text) return std::unexpected(at_line(text.error()));
  if (!*text) {
    file_.reset();
    return {};
  }
  ++line_;
  if (!format_) {
    format_ = recognize_trace(**text);
    const bool says_nothing = (*text)->empty() || (*text)->starts_with('#');
    if (!format_ && !says_nothing) return std::unexpected(at_line("not a known format of traces"));
    if (!format_) return {};
  }
  const auto parsed = parse_trace_line(*format_, **text);
  if (!parsed) return std::unexpected(at_line(parsed.error()));
  take(*parsed);
  return {};
}

std::expected<std::optional<Request>, std::string> TraceReader::next() {
  while (waiting_.empty()) {
    if (!file_) {
      if (paths_.empty()) return std::nullopt;
      if (const auto opened = open_next(); !opened) return std::unexpected(opened.error());
    }
    if (const auto taken = take_line(); !taken) return std::unexpected(taken.error());
  }
  const Request request = waiting_.front();
  waiting_.pop_front();
  return request;
}

}  // namespace lazyfs::sim
