#include "tools/contents.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "tools/traces.h"

namespace lazyfs {
namespace {

constexpr std::size_t kLookedAtBytes = std::size_t{1} << 20;

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};

std::string with_article(std::string_view type, std::string_view noun) {
  const bool vowel = !type.empty() && std::string_view("aeioux").contains(type.front());
  return std::string(vowel ? "an " : "a ").append(type).append(" ").append(noun);
}

std::optional<std::string> known_contents(const std::string& path) {
  const std::unique_ptr<blkid_struct_probe, FreeProbe> probe(
      blkid_new_probe_from_filename(path.c_str()));
  if (!probe) return std::nullopt;  // the next open fails and says why
  blkid_probe_enable_partitions(probe.get(), 1);
  const int found = blkid_do_safeprobe(probe.get());
  if (found == -2) return "more than one filesystem";
  if (found != 0) return std::nullopt;
  const char* type = nullptr;
  if (blkid_probe_lookup_value(probe.get(), "TYPE", &type, nullptr) == 0) {
    return with_article(type, "filesystem");
  }
  if (blkid_probe_lookup_value(probe.get(), "PTTYPE", &type, nullptr) == 0) {
    return with_article(type, "partition table");
  }
  return std::nullopt;
}

bool is_file_with_bytes(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::vector<char> bytes(kLookedAtBytes);
  const ssize_t got = read(fd, bytes.data(), bytes.size());
  close(fd);
  return std::any_of(bytes.begin(), bytes.begin() + std::max<ssize_t>(got, 0),
                     [](char byte) { return byte != 0; });
}

}  // namespace

std::optional<std::string> find_contents(const std::string& path) {
  if (const auto trace = find_lazyfs_traces(path)) {
    return "a lazyfs or an Emulated Disk Image, perhaps a damaged one (" + *trace + ")";
  }
  if (auto known = known_contents(path)) return known;
  if (is_file_with_bytes(path)) return "data of a kind that is not known";
  return std::nullopt;
}

}  // namespace lazyfs
