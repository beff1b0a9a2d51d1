// Keeps the discard of a band and appends to it apart.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "device/backing.h"

namespace lazyfs::device {

// Part of a band's state. The mutex `mu` of the band's device guards it. `ended` is a condition
// variable that all bands of the device share.
class DiscardTurn {
 public:
  bool is_running() const { return is_running_; }
  // Called before an append. Makes a running discard end early, and waits for its end.
  void await_end(Mutex& mu, CondVar& ended) REQUIRES(mu);
  // Makes appends wait from now on. REQUIRES: no discard of the band runs; the caller calls run()
  // next.
  void begin();
  // Calls Backing::discard() for the band's place on the device, and returns its result.
  Result<std::uint64_t> run(const Backing& backing, std::uint64_t at, std::uint64_t length_bytes,
                            Mutex& mu, CondVar& ended) EXCLUDES(mu);

 private:
  bool is_running_ = false;
  bool is_awaited_ = false;  // by an append
};

}  // namespace lazyfs::device
