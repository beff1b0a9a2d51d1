// Parses numbers, sizes and ranges from the command line, and formats sizes.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lazyfs {

// Parses a decimal number; `text` has nothing else. Error: kInvalid, also for a number that is too
// large.
inline Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return fail(Errc::kInvalid);
  return value;
}

// Parses a number and an optional suffix K, M, G or T (powers of 1024, either case), which iB may
// follow.
// Error: kInvalid.
inline Result<std::uint64_t> parse_size(std::string_view text) {
  unsigned shift = 0;
  if (text.size() > 3 && text.ends_with("iB")) {
    text.remove_suffix(2);
    if (text.back() >= '0' && text.back() <= '9') return fail(Errc::kInvalid);
  }
  constexpr std::string_view kUnits = "KMGTkmgt";
  if (const auto unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
      unit != kUnits.npos) {
    shift = 10 * static_cast<unsigned>(unit % 4 + 1);
    text.remove_suffix(1);
  }
  ASSIGN_OR_RETURN(const std::uint64_t value, parse_number(text));
  if (value > UINT64_MAX >> shift) return fail(Errc::kInvalid);
  return value << shift;
}

// Parses "3" or "3-7" and returns the first and the last number. Error: kInvalid.
inline Result<std::pair<std::uint32_t, std::uint32_t>> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  ASSIGN_OR_RETURN(const std::uint64_t first, parse_number(text.substr(0, dash)));
  std::uint64_t last = first;
  if (dash != text.npos) {
    ASSIGN_OR_RETURN(last, parse_number(text.substr(dash + 1)));
  }
  if (last < first || last > UINT32_MAX) return fail(Errc::kInvalid);
  return std::pair(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
}

// Formats a size as "512", "4 KiB" or "1.5 GiB", with at most four digits.
inline std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4);
  return std::string(text, end.ptr) + kUnits[unit];
}

}  // namespace lazyfs
