// Shows a simulated disk as a file, so that losetup and any mkfs work on it: a filesystem of one
// file, "disk", whose requests take the disk's time. One thread serves all requests, as the disk
// does.
#define FUSE_USE_VERSION 314
#include <fcntl.h>
#include <fuse.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "tools/command_line.h"
#include "tools/simulated_drive.h"

namespace {

using namespace lazyfs;

constexpr const char* kFile = "/disk";
constexpr unsigned kRequestBytesMax = 1 << 20;

SimulatedDrive& drive() {
  return *static_cast<SimulatedDrive*>(::fuse_get_context()->private_data);
}

// ---- The filesystem -----------------------------------------------------------------------------

void* start(fuse_conn_info* connection, fuse_config* config) {
  connection->max_write = kRequestBytesMax;
  connection->max_readahead = 0;
  config->kernel_cache = 0;
  return ::fuse_get_context()->private_data;
}

int get_attributes(const char* path, struct stat* to, fuse_file_info*) {
  *to = {};
  to->st_uid = ::getuid();
  to->st_gid = ::getgid();
  if (std::strcmp(path, "/") == 0) {
    to->st_mode = S_IFDIR | 0700;
    to->st_nlink = 2;
    return 0;
  }
  if (std::strcmp(path, kFile) != 0) return -ENOENT;
  to->st_mode = S_IFREG | 0600;
  to->st_nlink = 1;
  to->st_size = static_cast<off_t>(drive().size_bytes());
  to->st_blksize = 4096;
  return 0;
}

int list(const char*, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
         fuse_readdir_flags) {
  for (const char* name : {".", "..", "disk"}) {
    fill(buffer, name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  return 0;
}

int open_file(const char* path, fuse_file_info* info) {
  if (std::strcmp(path, kFile) != 0) return -ENOENT;
  info->direct_io = 1;  // each request of the block layer arrives as it is
  return 0;
}

// Accepted, for tools that truncate a disk to the size that it has.
int truncate_file(const char* path, off_t size, fuse_file_info*) {
  if (std::strcmp(path, kFile) != 0) return -ENOENT;
  return static_cast<std::uint64_t>(size) == drive().size_bytes() ? 0 : -EPERM;
}

int read_file(const char*, char* to, std::size_t length, off_t offset, fuse_file_info*) {
  const std::uint64_t size = drive().size_bytes(), from = static_cast<std::uint64_t>(offset);
  if (from >= size) return 0;
  length = std::min<std::uint64_t>(length, size - from);
  const int status = drive().read(from, std::as_writable_bytes(std::span(to, length)));
  return status == 0 ? static_cast<int>(length) : status;
}

int write_file(const char*, const char* bytes, std::size_t length, off_t offset,
               fuse_file_info*) {
  const int status =
      drive().write(static_cast<std::uint64_t>(offset), std::as_bytes(std::span(bytes, length)));
  if (status == -EINVAL) return -ENOSPC;
  return status == 0 ? static_cast<int>(length) : status;
}

int sync_file(const char*, int, fuse_file_info*) { return drive().flush(); }

int allocate(const char*, int mode, off_t offset, off_t length, fuse_file_info*) {
  const auto from = static_cast<std::uint64_t>(offset), bytes = static_cast<std::uint64_t>(length);
  if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) return drive().discard(from, bytes);
  if ((mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE) {
    return drive().write_zeros(from, bytes);
  }
  return -EOPNOTSUPP;
}

fuse_operations operations() {
  fuse_operations operations{};
  operations.init = start;
  operations.getattr = get_attributes;
  operations.readdir = list;
  operations.open = open_file;
  operations.truncate = truncate_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.fsync = sync_file;
  operations.fallocate = allocate;
  return operations;
}

// ---- The program --------------------------------------------------------------------------------

int failed(const std::string& what) {
  std::fprintf(stderr, "smrdisk: %s\n", what.c_str());
  return 1;
}

struct EndFuse {
  void operator()(::fuse* instance) const { ::fuse_destroy(instance); }
};

// Serves until it is unmounted or a signal ends it.
int serve(SimulatedDrive& shown, const std::string& mount_point, bool foreground,
          const std::string& report) {
  const fuse_operations calls = operations();
  char program[] = "smrdisk", option[] = "-o", name[] = "fsname=smrdisk,subtype=smrdisk";
  char* words[] = {program, option, name};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  const std::unique_ptr<::fuse, EndFuse> instance(
      ::fuse_new(&arguments, &calls, sizeof calls, &shown));
  ::fuse_opt_free_args(&arguments);  // libfuse has copied and changed them
  if (!instance) return failed("FUSE cannot be used");
  if (::fuse_mount(instance.get(), mount_point.c_str()) != 0) {
    return failed(mount_point + ": cannot be mounted");
  }
  ::fuse_daemonize(foreground ? 1 : 0);
  ::fuse_set_signal_handlers(::fuse_get_session(instance.get()));
  const int status = ::fuse_loop(instance.get());
  ::fuse_remove_signal_handlers(::fuse_get_session(instance.get()));
  ::fuse_unmount(instance.get());
  if (!report.empty()) {
    std::FILE* const file = std::fopen(report.c_str(), "we");
    if (!file) return failed(report + ": cannot be written");
    std::fprintf(file, "%s\n", shown.report().dump(true).c_str());
    if (std::fclose(file) != 0) return failed(report + ": cannot be written");
  }
  return status < 0 ? 1 : 0;
}

// After daemonizing, relative paths would begin at the root.
std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  const std::unique_ptr<char, void (*)(void*)> folder(::getcwd(nullptr, 0), std::free);
  return folder ? std::string(folder.get()) + "/" + path : path;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app("smrdisk", "Shows a simulated disk as the file MOUNTPOINT/disk.",
                  LAZYFS_VERSION);
  DriveOptions options;
  std::string mount_point, report;
  bool foreground = false;
  app.flag("-f", foreground, "stay in the foreground");
  app.option("--disk", options.model, "model; `smrsim disks` lists them").required();
  app.option("--size", options.size_bytes, "without it, all of the model's").as_size();
  app.flag("--realtime", options.is_realtime, "requests take their simulated time");
  app.flag("--forget-data", options.forgets_data,
           "keep blocks in which one byte repeats as that byte, in BACKING.fills");
  app.option("--record", options.record, "write a trace of all requests to this file");
  app.option("--report", report, "write what happened as JSON to this file, at the end");
  app.option("BACKING", options.backing, "sparse file for the contents; made if needed")
      .required();
  app.option("MOUNTPOINT", mount_point, "folder").required();
  if (const auto status = app.parse(argc, argv)) return *status;

  options.record = absolute(options.record);
  const auto opened = SimulatedDrive::open(options);
  if (!opened) return failed(opened.error());
  return serve(**opened, mount_point, foreground, absolute(report));
}
