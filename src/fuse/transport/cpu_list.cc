#include "fuse/transport/cpu_list.h"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace lazyfs::fuse {
namespace {

constexpr unsigned kCpusMax = 1 << 16;

// Takes a number from the beginning of the text; false if there is none.
bool take_number(std::string_view& text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number >= kCpusMax) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::vector<unsigned> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  while (!text.empty()) {
    unsigned first = 0;
    if (!take_number(text, first)) return {};
    unsigned last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return {};
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  std::ranges::sort(cpus);
  return cpus;
}

std::vector<unsigned> read_cpu_list(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return parse_cpu_list(line);
}

}  // namespace lazyfs::fuse
