// What all request handlers of a mount share.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/buffer_pool.h"
#include "base/json.h"
#include "fs/volume/volume.h"
#include "fuse/requests/control.h"
#include "fuse/requests/late_errors.h"
#include "fuse/requests/listing_advice.h"
#include "fuse/requests/operation_counts.h"
#include "fuse/requests/operations.h"
#include "fuse/requests/side_thread.h"
#include "fuse/requests/stats_texts.h"

struct fuse_session;  // libfuse's

namespace lazyfs::fuse {

struct RequestSettings {
  bool writeback_cache = true;  // the kernel gathers writes, and owns size and times meanwhile
  bool announce_opens = false;  // the kernel sends OPEN, FLUSH and RELEASE; false: never
  SyncChoice sync = SyncChoice::kNone;  // at the mount; see RequestContext::sync
  // Applies a list of mount options. Error: why none of them was changed.
  std::function<std::expected<SyncChoice, std::string>(std::string_view)> change_options;
  // After kReadOnly: makes the volume writable if a remount has made the kernel's mount so.
  std::function<void()> catch_up = [] {};
};

// One for each mount; the user data of its libfuse session. Constant after the INIT request, except
// `sync`, the counters, and members that have a lock of their own.
struct RequestContext {
  RequestContext(fs::Volume& its_volume, const RequestSettings& its_settings)
      : volume(its_volume), settings(its_settings), sync(its_settings.sync) {}

  fs::Volume& volume;
  RequestSettings settings;
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  bool kernel_checks_flags = false;  // who may change the flags of files: inode_flags.h
  const std::uint32_t owner = geteuid();  // of the mount: the user that the daemon runs as
  std::atomic<SyncChoice> sync;  // what is durable before the reply; changed by remounts
  std::function<Json()> transport_json = [] { return Json::object(); };
  // Sends a reply, which begins with a fuse_out_header. As writev(2) on /dev/fuse does; -1 means
  // that the request was interrupted.
  std::function<ssize_t(std::span<const iovec>)> send = [](std::span<const iovec>) { return -1; };
  ::fuse_session* session = nullptr;
  OperationCounts counts{};
  StatsTexts stats_texts{};
  SideThread side_thread{};
  // Drops names from the kernel's cache, for which it waits for the locks of directories. A request
  // may hold such a lock while it waits for the side thread, so this is another one.
  SideThread name_thread{};
  LateErrors late_errors{};
  ListingAdvice listing_advice{};
  BufferPool read_buffers{kMaxWriteBytes};  // each for one READ
};

// The volume's statistics with the operations by kind and the transport's counters added.
std::string stats_json(const RequestContext& context);

}  // namespace lazyfs::fuse
