#include "sim/trace_format.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/core.h>

namespace lazyfs::sim {
namespace {

using ParsedLine = std::expected<TraceLine, std::string>;
using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  while (true) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) return words;
    line.remove_prefix(begin);
    const auto end = line.find_first_of(" \t\r");
    words.push_back(line.substr(0, end));
    if (end == line.npos) return words;
    line.remove_prefix(end);
  }
}

template <class T>
bool number(std::string_view text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc{} && end == text.data() + text.size();
}

bool time_value(std::string_view text, double& to) {
  return number(text, to) && std::isfinite(to) && to >= 0;
}

std::unexpected<std::string> wrong(std::string_view what, std::string_view text) {
  return std::unexpected(fmt::format("{}: '{}'", what, text));
}

ParsedLine one(const Request& request) {
  TraceLine line;
  line.add(request);
  return line;
}

// Sets the range; sectors beyond any disk's would overflow sums.
bool set_range(Request& request, std::string_view sector, std::string_view sectors) {
  return number(sector, request.sector) && number(sectors, request.sectors) &&
         request.sector < (std::uint64_t{1} << 55);
}

// Sets the range to the sectors that the bytes touch; false if they touch none, or too many for one
// request. Any offset divided by kSectorBytes is within the bound of set_range().
bool set_bytes(Request& request, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t rest = offset % kSectorBytes + length % kSectorBytes;
  const std::uint64_t sectors = length / kSectorBytes + (rest + kSectorBytes - 1) / kSectorBytes;
  if (length == 0 || sectors > UINT32_MAX) return false;
  request.sector = offset / kSectorBytes;
  request.sectors = static_cast<std::uint32_t>(sectors);
  return true;
}

ParsedLine parse_own(std::string_view line) {
  const Words words = words_of(line);
  if (words.size() != 4 && words.size() != 5) return wrong("4 or 5 words expected", line);
  Request request;
  if (!time_value(words[0], request.time_us)) return wrong("not a time", words[0]);
  if (words[1].size() != 1 || !std::string_view("RWFD").contains(words[1][0])) {
    return wrong("not an operation (R, W, F, D)", words[1]);
  }
  request.op = static_cast<Op>(words[1][0]);
  if (!set_range(request, words[2], words[3])) {
    return wrong("not a range of sectors", fmt::format("{} {}", words[2], words[3]));
  }
  if ((request.op == Op::kFlush) != (request.sectors == 0)) {
    return wrong("a flush, and nothing else, has 0 sectors", words[3]);
  }
  for (const char flag : words.size() == 5 ? words[4] : "-") {
    if (flag == 'M') request.kind = RequestClass::kMetadata;
    else if (flag == 'J') request.kind = RequestClass::kJournal;
    else if (flag != '-') return wrong("not flags (-, M, J)", words[4]);
  }
  return one(request);
}

ParsedLine parse_fio(std::string_view line) {
  Words words = words_of(line);
  TraceLine parsed;
  Request request;
  if (line.starts_with("fio version")) return parsed;
  double stamp_ms = 0;
  if (words.size() > 2 && time_value(words[0], stamp_ms)) {  // version 3
    request.time_us = stamp_ms * 1000;
    words.erase(words.begin());
  }
  if (words.size() < 2) return wrong("a file and an action expected", line);
  const std::string_view action = words[1];
  if (action == "add" || action == "open" || action == "close") return parsed;
  std::uint64_t offset = 0, length = 0;
  if (words.size() < 4 || !number(words[2], offset) || !number(words[3], length)) {
    return wrong("an offset and a length expected", line);
  }
  if (action == "wait") {
    parsed.pause_us = static_cast<double>(offset);
    return parsed;
  }
  if (action == "sync" || action == "datasync") {
    request.op = Op::kFlush;
    parsed.add(request);
    return parsed;
  }
  if (action == "write") request.op = Op::kWrite;
  else if (action == "trim") request.op = Op::kDiscard;
  else if (action != "read") return wrong("not an action of an iolog", action);
  if (!set_bytes(request, offset, length)) return wrong("not a length", words[3]);
  parsed.add(request);
  return parsed;
}

// The kernel's letters for a request: a flush before it, its operation, and a flush of its own data
// after it (F after W: FUA).
ParsedLine parse_rwbs(Request request, std::string_view rwbs, bool has_range) {
  TraceLine parsed;
  Request flush;
  flush.op = Op::kFlush;
  flush.time_us = request.time_us;
  if (rwbs.starts_with('F')) {
    parsed.add(flush);
    rwbs.remove_prefix(1);
  }
  const auto operation = rwbs.find_first_of("RWD");
  if (operation == rwbs.npos || !has_range || request.sectors == 0) return parsed;
  request.op = static_cast<Op>(rwbs[operation]);
  const std::string_view rest = rwbs.substr(operation + 1);
  if (rest.contains('M')) request.kind = RequestClass::kMetadata;
  parsed.add(request);
  if (request.op == Op::kWrite && rest.contains('F')) parsed.add(flush);
  return parsed;
}

ParsedLine parse_blkparse(std::string_view line) {
  const Words words = words_of(line);
  if (words.size() < 7 || !words[0].contains(',')) return TraceLine{};  // of the summary
  Request request;
  double seconds = 0;
  if (!time_value(words[3], seconds)) return wrong("not a time", words[3]);
  if (words[5] != "D") return TraceLine{};  // only what was issued to the drive
  request.time_us = seconds * 1e6;
  const bool has_range = words.size() >= 10 && words[8] == "+";
  if (has_range && !set_range(request, words[7], words[9])) {
    return wrong("not a range of sectors", line);
  }
  return parse_rwbs(request, words[6], has_range);
}

ParsedLine parse_ftrace(std::string_view line) {
  constexpr std::string_view kEvent = ": block_rq_issue: ";
  const auto event = line.find(kEvent);
  if (event == line.npos) return TraceLine{};  // another event
  const Words before = words_of(line.substr(0, event));
  const Words words = words_of(line.substr(event + kEvent.size()));
  Request request;
  double seconds = 0;
  if (before.empty() || !time_value(before.back(), seconds)) return wrong("not a time", line);
  request.time_us = seconds * 1e6;
  if (words.size() < 3) return wrong("a device and an operation expected", line);
  for (std::size_t i = 3; i + 1 < words.size(); ++i) {
    if (words[i] != "+") continue;
    if (!set_range(request, words[i - 1], words[i + 1])) {
      return wrong("not a range of sectors", line);
    }
    return parse_rwbs(request, words[1], true);
  }
  return wrong("a range of sectors expected", line);
}

ParsedLine parse_validation(std::string_view line) {
  const Words words = words_of(line);
  Request request;
  double measured_us = 0, pause_us = 0;
  if (words.size() != 6 || (words[0] != "R" && words[0] != "W")) {
    return wrong("R or W and 5 more words expected", line);
  }
  request.op = static_cast<Op>(words[0][0]);
  if (!set_range(request, words[2], words[3]) || request.sectors == 0) {
    return wrong("not a range of sectors", fmt::format("{} {}", words[2], words[3]));
  }
  if (!time_value(words[4], measured_us)) return wrong("not a time", words[4]);
  if (!time_value(words[5], pause_us)) return wrong("not a time", words[5]);
  TraceLine parsed;
  parsed.add(request);
  parsed.measured_us = measured_us;
  parsed.pause_us = pause_us;
  return parsed;
}

bool looks_like_blkparse(const Words& words) {
  std::uint64_t cpu = 0;
  double seconds = 0;
  return words.size() >= 7 && words[0].contains(',') && number(words[1], cpu) &&
         time_value(words[3], seconds);
}

}  // namespace

std::optional<TraceFormat> recognize_trace(std::string_view line) {
  if (line.starts_with(kTraceHeader)) return TraceFormat::kOwn;
  if (line.starts_with("fio version 2 iolog") || line.starts_with("fio version 3 iolog")) {
    return TraceFormat::kFioLog;
  }
  if (line.starts_with("# tracer:") || line.contains(": block_rq_issue: ")) {
    return TraceFormat::kFtrace;
  }
  const Words words = words_of(line);
  if (words.size() == 6 && (words[1] == "Hit" || words[1] == "Miss")) {
    return TraceFormat::kValidation;
  }
  if (looks_like_blkparse(words)) return TraceFormat::kBlkparse;
  return std::nullopt;
}

std::expected<TraceLine, std::string> parse_trace_line(TraceFormat format, std::string_view line) {
  if (line.starts_with('#') || words_of(line).empty()) return TraceLine{};
  switch (format) {
    case TraceFormat::kOwn: return parse_own(line);
    case TraceFormat::kFioLog: return parse_fio(line);
    case TraceFormat::kBlkparse: return parse_blkparse(line);
    case TraceFormat::kFtrace: return parse_ftrace(line);
    case TraceFormat::kValidation: return parse_validation(line);
  }
  return TraceLine{};
}

std::string trace_line(const Request& request) {
  const char flag = request.kind == RequestClass::kMetadata  ? 'M'
                    : request.kind == RequestClass::kJournal ? 'J'
                                                             : '-';
  return fmt::format("{:.0f} {} {} {} {}", request.time_us, static_cast<char>(request.op),
                     request.sector, request.sectors, flag);
}

}  // namespace lazyfs::sim
