// A limit on the size of files, by which a test makes writes fail.
#pragma once

#include <sys/resource.h>

#include <csignal>
#include <cstdint>

namespace lazyfs {

// Makes writes past an offset fail in any file, as on a full file system.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace lazyfs
