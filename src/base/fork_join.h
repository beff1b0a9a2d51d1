// Fork and join: a caller splits its work into parts, and threads take over some of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lazyfs {

// Thread-safe: several callers share the threads. A caller never waits for a thread that is busy
// with another's parts, because it does the parts itself that no thread has begun.
class ForkJoin {
 public:
  using Part = std::function<void(std::size_t number)>;

  // With 0 threads each caller does all of its parts, in their order.
  explicit ForkJoin(std::size_t threads);
  ~ForkJoin();  // REQUIRES: no run() is under way

  // Calls do_part(0), ..., do_part(parts - 1), several at once and in any order, and returns when
  // all have ended. When some throw, throws what one of them has thrown. A part may not call
  // run().
  void run(std::size_t parts, const Part& do_part);

 private:
  class Threads;
  const std::unique_ptr<Threads> threads_;  // null: none
};

}  // namespace lazyfs
