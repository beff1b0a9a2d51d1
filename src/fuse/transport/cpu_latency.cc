#include "fuse/transport/cpu_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "base/log.h"

namespace lazyfs::fuse {
namespace {

// A halting CPU lets about 20 requests of a single thread through in a tick, a busy disk far fewer.
constexpr std::uint64_t kBusyRequests = 4;
constexpr unsigned kBusyTicks = 3;
constexpr unsigned kCalmTicks = 20;

constexpr std::int32_t kNoLatency = 0;               // microseconds
constexpr std::int32_t kAnyLatency = 2'000'000'000;  // the kernel's own default

bool is_wanted(CpuLatencyChoice choice, const std::string& idle_driver_file) {
  if (choice != CpuLatencyChoice::kAuto) return choice == CpuLatencyChoice::kOn;
  std::ifstream file(idle_driver_file);
  std::string driver;
  file >> driver;
  return driver == "haltpoll";
}

}  // namespace

CpuLatencyLimit::CpuLatencyLimit(CpuLatencyChoice choice, const std::string& device,
                                 const std::string& idle_driver_file) {
  if (!is_wanted(choice, idle_driver_file)) return;
  fd_ = open(device.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) {
    log::debug("fuse: {} cannot be opened; idle CPUs will halt", device);
    return;
  }
  set(false);  // to the kernel, opening alone sets a limit of 0
}

CpuLatencyLimit::~CpuLatencyLimit() {
  if (fd_ >= 0) close(fd_);
}

void CpuLatencyLimit::observe(std::uint64_t requests) {
  if (fd_ < 0) return;
  const bool busy = requests >= kBusyRequests;
  busy_ticks_ = busy ? busy_ticks_ + 1 : 0;
  calm_ticks_ = busy ? 0 : calm_ticks_ + 1;
  if (!is_set_ && busy_ticks_ >= kBusyTicks) set(true);
  if (is_set_ && calm_ticks_ >= kCalmTicks) set(false);
}

void CpuLatencyLimit::set(bool on) {
  is_set_ = on;
  times_set_ += on;
  const std::int32_t latency = on ? kNoLatency : kAnyLatency;
  if (pwrite(fd_, &latency, sizeof latency, 0) < 0) {
    log::debug("fuse: the kernel refused a latency limit");
    close(fd_);
    fd_ = -1;
    is_set_ = false;
  }
}

}  // namespace lazyfs::fuse
