#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/size.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

constexpr auto kBetweenLines = std::chrono::milliseconds(200);

unsigned percent_of(const Done& done) {
  const auto most = static_cast<double>(std::min(done.done, done.total));
  return static_cast<unsigned>(100 * most / static_cast<double>(done.total));
}

std::optional<double> seconds_left(const Done& done, double seconds) {
  if (done.total == 0 || done.done == 0 || seconds <= 0) return std::nullopt;
  const std::uint64_t left = done.total - std::min(done.total, done.done);
  return static_cast<double>(left) * seconds / static_cast<double>(done.done);
}

std::string amount_text(std::uint64_t amount, Unit unit) {
  return unit == Unit::kBytes ? size_text(amount) : std::to_string(amount);
}

}  // namespace

std::string progress_text(const Done& done, double seconds) {
  std::string text = text_of("%-10.*s ", static_cast<int>(done.stage.size()), done.stage.data());
  if (done.total > 0) text += text_of("%u%%, ", percent_of(done));
  text += amount_text(done.done, done.unit);
  if (done.total > 0) text += " of " + amount_text(done.total, done.unit);
  if (done.done == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done.done) / seconds;
  text += done.unit == Unit::kBytes ? ", " + rate_text(static_cast<double>(done.done), seconds)
                                    : text_of(", %.0f/s", rate);
  if (const auto left = seconds_left(done, seconds)) text += ", " + duration_text(*left) + " left";
  return text;
}

std::string progress_json(const Done& done, double seconds) {
  Json json = Json::object({{"stage", done.stage},
                            {"unit", done.unit == Unit::kBytes ? "bytes" : "items"},
                            {"done", done.done},
                            {"seconds", seconds}});
  if (done.total > 0) {
    json["total"] = done.total;
    json["percent"] = percent_of(done);
  }
  if (const auto left = seconds_left(done, seconds)) json["seconds_left"] = *left;
  return json.dump();
}

ProgressLine::ProgressLine(std::string_view form)
    : form_(form == "json"                                    ? Form::kJson
            : form == "auto" && isatty(STDERR_FILENO) != 0 ? Form::kLine
                                                              : Form::kNever) {}

void ProgressLine::show(const Done& done) {
  if (form_ == Form::kNever) return;
  const auto now = SteadyClock::now();
  if (done.stage != stage_) {
    stage_ = done.stage;
    begun_ = now;
    shown_.reset();
  }
  if (shown_ && now - *shown_ < kBetweenLines) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  if (form_ == Form::kJson) {
    std::fprintf(stderr, "%s\n", progress_json(done, seconds).c_str());
    return;
  }
  std::fprintf(stderr, "\r%s\033[K", progress_text(done, seconds).c_str());
  is_on_screen_ = true;
}

void ProgressLine::clear() {
  if (is_on_screen_) std::fputs("\r\033[K", stderr);
  is_on_screen_ = false;
}

}  // namespace lazyfs
