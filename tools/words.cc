#include "tools/words.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/size.h"

namespace lazyfs {

std::string text_of(const char* format, ...) {
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, format, values);
  std::string text(length > 0 ? static_cast<std::size_t>(length) + 1 : 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  va_end(values);
  text.pop_back();
  return text;
}

std::string time_text(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return text_of("%.0f ns", value);
  if (ns < 1'000'000) return text_of("%.3g us", value / 1e3);
  if (ns < 1'000'000'000) return text_of("%.3g ms", value / 1e6);
  return text_of("%.3g s", value / 1e9);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(seconds);
  const auto minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return text_of("%llu s", whole);
  if (hours == 0) return text_of("%llu min %llu s", minutes, whole % 60);
  if (days == 0) return text_of("%llu h %llu min", hours, minutes % 60);
  return text_of("%llu day%s %llu h", days, days == 1 ? "" : "s", hours % 24);
}

std::string rate_text(double bytes, double seconds) {
  const double rate = seconds > 0 && bytes > 0 ? bytes / seconds : 0;
  return size_text(static_cast<std::uint64_t>(rate)) + (rate < 1024 ? " B/s" : "/s");
}

std::string count_text(std::uint64_t count, const char* noun) {
  return text_of("%llu %s%s", static_cast<unsigned long long>(count), noun, count == 1 ? "" : "s");
}

std::string bands_text(const std::vector<BandId>& bands) {
  constexpr std::size_t kMost = 5;
  std::string text = count_text(bands.size(), "band") + ":";
  for (std::size_t i = 0; i < std::min(bands.size(), kMost); ++i) {
    text += (i == 0 ? " " : ", ") + std::to_string(bands[i].value);
  }
  return bands.size() > kMost ? text + ", ..." : text;
}

}  // namespace lazyfs
