// A value that threads read while another thread replaces it. Every version lives as long as this
// object, so a reference to an earlier one stays valid: for values that are replaced a few times.
#pragma once

#include <atomic>
#include <deque>
#include <utility>

namespace lazyfs::device {

// Thread-safe, except that two calls of replace() must not run at the same time.
template <class T>
class Versions {
 public:
  explicit Versions(T first) { replace(std::move(first)); }

  const T& now() const { return *now_.load(std::memory_order_acquire); }
  void replace(T next) {
    now_.store(&all_.emplace_back(std::move(next)), std::memory_order_release);
  }

 private:
  std::deque<T> all_;
  std::atomic<const T*> now_{nullptr};
};

}  // namespace lazyfs::device
