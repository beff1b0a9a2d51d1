// Makes long reads that follow one another on the disk take turns.
#pragma once

#include <cstddef>
#include <list>
#include <span>

#include "base/mutex.h"
#include "base/types.h"
#include "device/forwarding.h"

namespace lazyfs::device {

// The kernel reads ahead along a file in windows: it asks for the next window when a program begins
// to use the current one. A disk that has the reads of two windows serves both at the same speed.
// They end together, and the disk idles while the kernel prepares the next window. So among long
// reads that lie near each other and came in the order of their places, only kAtOnceBytes are under
// way, and the others wait. A read at another place does not wait: each program has its own turns.
//
// Thread-safe if the inner device is. The lock is not held during calls of the inner device. A read
// waits only for reads that came before it, so each begins if those of the inner device end.
class ReadTurnsDevice final : public ForwardingDevice {
 public:
  static constexpr std::size_t kLongBytes = std::size_t{256} << 10;  // shorter reads do not wait
  static constexpr std::size_t kNearBytes = std::size_t{16} << 20;   // farthest that is still near
  static constexpr std::size_t kAtOnceBytes = std::size_t{2} << 20;  // near reads under way

  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  Result<> read(BandAddress from, std::span<std::byte> to) override;
  // How many reads wait for their turn.
  std::size_t waiting() EXCLUDES(mu_);

 private:
  struct Read {
    Read(BandAddress place, std::size_t length_bytes) : from(place), bytes(length_bytes) {}

    BandAddress from;
    std::size_t bytes;
    bool has_begun = false;
    CondVar turn;
  };
  using Reads = std::list<Read>;

  bool has_turn(Reads::const_iterator read) const REQUIRES(mu_);
  Reads::iterator begin(BandAddress from, std::size_t bytes) EXCLUDES(mu_);
  void end(Reads::iterator read) EXCLUDES(mu_);

  Mutex mu_;                     // leaf
  Reads reads_ GUARDED_BY(mu_);  // long ones that have not ended, in the order in which they came
};

}  // namespace lazyfs::device
