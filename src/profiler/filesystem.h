// What the request handlers of the profiler share: the backing directory and the counters.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <expected>
#include <initializer_list>

#include "profiler/counts.h"
#include "profiler/inodes.h"

namespace lazyfs::profiler {

// How the kernel is asked to work, and whether its requests are counted.
struct Settings {
  // As in 2012: attributes and names are valid for a second, writes have at most 128 KiB, contents
  // are read again after each open, files are made by mknod and open.
  bool is_classic = false;
  bool is_counting = true;
};

// Passes requests on to the backing directory. Thread-safe.
class Filesystem {
 public:
  // `root`: the backing directory, O_PATH.
  Filesystem(Descriptor root, Settings settings)
      : root_(std::move(root)), settings_(settings), counts_(settings.is_counting) {}

  // REQUIRES: the request belongs to a session whose user data is a Filesystem.
  static Filesystem& of(fuse_req_t request) {
    return *static_cast<Filesystem*>(::fuse_req_userdata(request));
  }

  const Settings& settings() const { return settings_; }
  Counts& counts() { return counts_; }
  // Seconds for which the kernel may keep attributes and names.
  double timeout() const { return settings_.is_classic ? 1 : 86400; }
  // Whether the kernel keeps written data and sends it later; set once, by the first request.
  bool has_write_cache() const { return has_write_cache_; }
  void set_write_cache(bool is_on) { has_write_cache_ = is_on; }

  // The descriptor (O_PATH) of an inode that the kernel knows.
  int file_of(fuse_ino_t inode) const {
    return inode == FUSE_ROOT_ID ? root_.get() : reinterpret_cast<Inode*>(inode)->file.get();
  }
  // Looks `name` up in a folder, for a reply to the kernel. Error: errno.
  std::expected<fuse_entry_param, int> look_up(fuse_ino_t folder, const char* name);
  void forget(fuse_ino_t inode, std::uint64_t lookups);

 private:
  const Descriptor root_;
  const Settings settings_;
  bool has_write_cache_ = false;
  InodeTable inodes_;
  Counts counts_;
};

// A path that leads to the file of a descriptor, also to a symbolic link and to a deleted file.
class DescriptorPath {
 public:
  explicit DescriptorPath(int descriptor) {
    std::snprintf(text_.data(), text_.size(), "/proc/self/fd/%d", descriptor);
  }
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 32> text_;
};

inline void count(fuse_req_t request, std::initializer_list<Call> calls) {
  Filesystem::of(request).counts().count(calls);
}
// Replies with the outcome of a system call that returned `status`: 0, or -1 and errno.
void reply_status(fuse_req_t request, int status);
// Replies with the entry of `name` if `status` is 0, otherwise with errno.
void reply_entry(fuse_req_t request, int status, fuse_ino_t folder, const char* name);

}  // namespace lazyfs::profiler
