// Whether the store has failed. A failed store is read-only until it is opened again.
#pragma once

#include <atomic>

#include "base/log.h"
#include "base/result.h"
#include "base/types.h"

namespace lazyfs::meta {

// Thread-safe.
class StoreFailure {
 public:
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  // `what` failed; `durable` is the newest durable transaction.
  void set(Errc cause, const char* what, Seq durable) {
    log::error("metadata log: {} failed after transaction {}: {}; the volume is read-only now",
               what, durable.value, describe(cause));
    failed_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> failed_{false};
};

}  // namespace lazyfs::meta
