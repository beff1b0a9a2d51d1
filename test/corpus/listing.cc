#include "test/corpus/listing.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "base/crc32c.h"

namespace lazyfs::corpus {
namespace {

std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte > ' ' && byte < 0x7F && c != '\\';
    text += is_plain ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return text;
}

std::uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

class Lister {
 public:
  explicit Lister(fs::Volume& volume) : volume_(volume) {}

  Result<> add_directory(const std::string& path, InodeNo directory) {
    std::vector<std::string> names;
    for (std::uint64_t cookie = 0;;) {
      ASSIGN_OR_RETURN(const auto entries, volume_.read_directory(directory, cookie, 100));
      if (entries.empty()) break;
      for (const auto& entry : entries) names.push_back(entry.name);
      cookie = entries.back().cookie;
    }
    std::ranges::sort(names);
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const fs::Attributes attributes, volume_.lookup(directory, name));
      const std::string child = path + "/" + escaped(name);
      TRY(add(child, attributes));
      if (S_ISDIR(attributes.mode)) TRY(add_directory(child, attributes.inode));
      volume_.forget(attributes.inode, 1);
    }
    return ok();
  }
  Result<> add(const std::string& path, const fs::Attributes& a) {
    ASSIGN_OR_RETURN(const std::uint32_t crc, crc_of_contents(a));
    text += fmt::format("{} mode {:o} links {} owner {}:{} size {} rdev {} ", path, a.mode, a.links,
                        a.owner.uid, a.owner.gid, a.size, a.rdev);
    text += fmt::format("mtime {}.{:09} crc {:08x}\n", a.modification.seconds,
                        a.modification.nanoseconds, crc);
    ASSIGN_OR_RETURN(auto names, volume_.list_xattrs(a.inode));
    std::ranges::sort(names);
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const std::string value, volume_.get_xattr(a.inode, name));
      text += fmt::format("{} xattr {} bytes {} crc {:08x}\n", path, escaped(name), value.size(),
                          crc_of(value));
    }
    return ok();
  }

  std::string text;

 private:
  Result<std::uint32_t> crc_of_contents(const fs::Attributes& a) {
    if (S_ISLNK(a.mode)) {
      ASSIGN_OR_RETURN(const std::string target, volume_.read_link(a.inode));
      return crc_of(target);
    }
    if (!S_ISREG(a.mode)) return 0;
    std::string contents(a.size, '?');
    ASSIGN_OR_RETURN(const std::size_t bytes,
                     volume_.read(a.inode, 0, std::as_writable_bytes(std::span(contents)), false));
    contents.resize(bytes);
    return crc_of(contents);
  }

  fs::Volume& volume_;
};

}  // namespace

Result<std::string> list_contents(fs::Volume& volume) {
  Lister lister(volume);
  ASSIGN_OR_RETURN(const fs::Attributes root, volume.get_attributes(fs::kRootInode));
  TRY(lister.add("/", root));
  TRY(lister.add_directory("", fs::kRootInode));
  return std::move(lister.text);
}

}  // namespace lazyfs::corpus
