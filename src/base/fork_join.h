// Fork and join: a caller splits its work into parts, and threads take over some of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lazyfs {

// Thread-safe: several callers share the threads. A caller does every part that no thread has
// begun, so it never waits for a thread that is busy with the parts of another caller.
class ForkJoin {
 public:
  using Part = std::function<void(std::size_t number)>;

  // With 0 threads each caller does all of its parts, in their order. If the system refuses
  // threads, there are fewer.
  explicit ForkJoin(std::size_t threads);
  ~ForkJoin();  // REQUIRES: no run() is under way

  // Calls do_part(0), ..., do_part(parts - 1), several at once and in any order, and returns when
  // all have ended. If parts throw, rethrows one of their exceptions. REQUIRES: no part calls
  // run().
  void run(std::size_t parts, const Part& do_part);

 private:
  class Threads;
  const std::unique_ptr<Threads> threads_;  // null: none
};

}  // namespace lazyfs
