// Keeps idle CPUs from falling asleep while requests come in quick succession. Under a hypervisor
// an idle CPU halts, and waking it costs 20 to 50 us, ten times what a small request costs
// otherwise; the kernel's way to ask for less is a latency limit (/dev/cpu_dma_latency, PM QoS).
// Whoever dies lets go of it.
//
// Not thread-safe: belongs to the transport's watchdog.
#pragma once

#include <cstdint>
#include <string>

namespace lazyfs::fuse {

enum class AwakeChoice : std::uint8_t {
  kAuto,  // where an idle CPU is known to halt: Linux' idle driver is haltpoll
  kOn,
  kOff,
};

class Awake {
 public:
  // Does nothing when `choice` says so or the device cannot be opened (only root may).
  explicit Awake(
      AwakeChoice choice, const std::string& device = "/dev/cpu_dma_latency",
      const std::string& idle_driver_file = "/sys/devices/system/cpu/cpuidle/current_driver");
  ~Awake();
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

  // Once every tick (1 ms), with the number of requests that came during it.
  void observe(std::uint64_t requests);
  bool holds() const { return holds_; }
  std::uint64_t times_held() const { return times_held_; }

 private:
  void hold(bool on);

  int fd_ = -1;
  bool holds_ = false;
  std::uint64_t times_held_ = 0;
  unsigned busy_ticks_ = 0;  // in a row
  unsigned calm_ticks_ = 0;  // in a row
};

}  // namespace lazyfs::fuse
