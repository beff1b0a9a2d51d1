#include "device/discard_turn.h"

namespace lazyfs::device {

void DiscardTurn::await_end(Mutex& mu, CondVar& ended) {
  while (is_running_) {
    is_awaited_ = true;
    ended.wait(mu);
  }
}

void DiscardTurn::begin() {
  is_running_ = true;
  is_awaited_ = false;
}

Result<std::uint64_t> DiscardTurn::run(const Backing& backing, std::uint64_t at,
                                       std::uint64_t length_bytes, Mutex& mu, CondVar& ended) {
  const auto done = backing.discard(at, length_bytes, [this, &mu] {
    MutexLock lock(mu);
    return !is_awaited_;
  });
  MutexLock lock(mu);
  is_running_ = false;
  ended.notify_all();
  return done;
}

}  // namespace lazyfs::device
