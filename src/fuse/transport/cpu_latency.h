// Limits the wake-up latency of idle CPUs while requests come in quick succession. Under a
// hypervisor an idle CPU halts, and waking it costs 20 to 50 us, ten times what a small request
// costs otherwise. A process sets such a limit while it holds /dev/cpu_dma_latency open (PM QoS).
// The kernel drops the limit when the process ends.
//
// Not thread-safe: belongs to the transport's watchdog.
#pragma once

#include <cstdint>
#include <string>

namespace lazyfs::fuse {

enum class CpuLatencyChoice : std::uint8_t {
  kAuto,  // if an idle CPU is known to halt: Linux' idle driver is haltpoll
  kOn,
  kOff,
};

class CpuLatencyLimit {
 public:
  // Does nothing when `choice` says so or the device cannot be opened (only root may).
  explicit CpuLatencyLimit(
      CpuLatencyChoice choice, const std::string& device = "/dev/cpu_dma_latency",
      const std::string& idle_driver_file = "/sys/devices/system/cpu/cpuidle/current_driver");
  ~CpuLatencyLimit();
  CpuLatencyLimit(const CpuLatencyLimit&) = delete;
  CpuLatencyLimit& operator=(const CpuLatencyLimit&) = delete;

  // REQUIRES: called once every tick (1 ms), with the number of requests that came during the tick.
  void observe(std::uint64_t requests);
  bool is_set() const { return is_set_; }
  std::uint64_t times_set() const { return times_set_; }

 private:
  void set(bool on);

  int fd_ = -1;
  bool is_set_ = false;
  std::uint64_t times_set_ = 0;
  unsigned busy_ticks_ = 0;  // in a row
  unsigned calm_ticks_ = 0;  // in a row
};

}  // namespace lazyfs::fuse
