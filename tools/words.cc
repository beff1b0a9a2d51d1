#include "tools/words.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "base/size.h"

namespace lazyfs {
namespace {

// The length of the character at the beginning; 0 if it is not UTF-8. REQUIRES: text is not empty.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 0;
  }
  const bool is_too_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  return is_too_long ? 0 : length;
}

// REQUIRES: `text` is one character of UTF-8. Those from U+0080 to U+009F are commands, too.
bool is_control(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (text.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
}

// Characters that `is_special` names, and bytes that are not UTF-8, become octal.
std::string with_octal(std::string_view text, bool (*is_special)(std::string_view character)) {
  std::string to;
  while (!text.empty()) {
    const std::size_t known = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(known, 1));
    if (known > 0 && !is_special(character)) {
      to += character;
    } else {
      for (const char c : character) to += text_of("\\%03o", static_cast<unsigned char>(c));
    }
    text.remove_prefix(character.size());
  }
  return to;
}

bool is_control_or_backslash(std::string_view character) {
  return character == "\\" || is_control(character);
}

}  // namespace

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

// Rounds before it chooses the unit: 999,999 ns are 1 ms.
std::string time_text(std::uint64_t ns) {
  struct Scale {
    double ns;
    const char* unit;
  };
  static constexpr Scale kScales[] = {{1, "ns"}, {1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
  const auto value = static_cast<double>(ns);
  for (const Scale& scale : kScales) {
    if (value < 999.5 * scale.ns) return text_of("%.3g %s", value / scale.ns, scale.unit);
  }
  return text_of("%.0f s", value / 1e9);
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

std::string printable(std::string_view text) { return with_octal(text, is_control); }

std::string unambiguous(std::string_view text) {
  return with_octal(text, is_control_or_backslash);
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
