// Figures as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace lazyfs {

// printf() into a string.
std::string text_of(const char* format, ...) __attribute__((format(printf, 1, 2)));

// "850 ns", "12.3 us", "4.5 ms", "1.2 s".
std::string time_text(std::uint64_t ns);
// "12 s", "3 min 5 s", "2 h 10 min", "4 days 3 h".
std::string duration_text(double seconds);
// A rate in bytes: "12.3 MiB/s".
std::string rate_text(double bytes, double seconds);
// The text as a terminal may show it: control characters, and bytes that are not UTF-8, become
// octal, as "\033". A backslash stays.
std::string printable(std::string_view text);
// As printable(), but a backslash becomes "\134", so that a program can read the text back.
std::string unambiguous(std::string_view text);
// "1 band", "2 bands".
std::string count_text(std::uint64_t count, const char* noun);
// "2 bands: 3, 17"; of more than five bands the first five: "9 bands: 3, 17, 20, 21, 22, ...".
std::string bands_text(const std::vector<BandId>& bands);

}  // namespace lazyfs
