// Keeps the discard of a band and appends to it apart.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "device/backing.h"

namespace lazyfs::device {

// Part of a band's state that the mutex `mu` of its device guards; `ended` is the device's
// condition, the same for all of its bands.
class DiscardTurn {
 public:
  bool is_running() const { return is_running_; }
  // For an append: a discard that runs ends early, and this waits for its end.
  void await_end(Mutex& mu, CondVar& ended) REQUIRES(mu);
  // From here on appends wait. REQUIRES: no discard of the band runs; run() follows.
  void begin();
  // As Backing::discard(), of the band's place.
  Result<std::uint64_t> run(const Backing& backing, std::uint64_t at, std::uint64_t length_bytes,
                            Mutex& mu, CondVar& ended) EXCLUDES(mu);

 private:
  bool is_running_ = false;
  bool is_awaited_ = false;  // by an append
};

}  // namespace lazyfs::device
