#include "base/fork_join.h"

// The mutex of the pool's queue orders what threads see; ThreadSanitizer does not know fences.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <latch>
#include <memory>
#include <new>

#include "base/mutex.h"

namespace lazyfs {
namespace {

// The parts of one call of run(). A thread may still use this object after the call has returned.
// Then no part is left, so do_part_ is not used.
class Task {
 public:
  Task(std::size_t parts, const ForkJoin::Part& do_part)
      : parts_(parts), do_part_(do_part), left_(static_cast<std::ptrdiff_t>(parts)) {}

  // Does parts until all have begun.
  void work() {
    for (std::size_t part = next_++; part < parts_; part = next_++) {
      try {
        do_part_(part);
      } catch (...) {
        MutexLock lock(mu_);
        thrown_ = std::current_exception();
      }
      left_.count_down();
    }
  }
  void wait() EXCLUDES(mu_) {
    left_.wait();
    MutexLock lock(mu_);
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const std::size_t parts_;
  const ForkJoin::Part& do_part_;
  std::atomic<std::size_t> next_ = 0;
  std::latch left_;
  Mutex mu_;  // leaf
  std::exception_ptr thrown_ GUARDED_BY(mu_);
};

}  // namespace

class ForkJoin::Threads {
 public:
  explicit Threads(std::size_t count) : count_(count), pool_(count) {}
  // If memory is exhausted, fewer threads help.
  void help(const std::shared_ptr<Task>& task, std::size_t at_most) {
    try {
      for (std::size_t i = 0; i < std::min(count_, at_most); ++i) {
        boost::asio::post(pool_, [task] { task->work(); });
      }
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  const std::size_t count_;
  boost::asio::thread_pool pool_;
};

ForkJoin::ForkJoin(std::size_t threads)
    : threads_(threads == 0 ? nullptr : std::make_unique<Threads>(threads)) {}

ForkJoin::~ForkJoin() = default;

void ForkJoin::run(std::size_t parts, const Part& do_part) {
  if (parts == 0) return;
  const auto task = std::make_shared<Task>(parts, do_part);
  if (threads_) threads_->help(task, parts - 1);
  task->work();
  task->wait();
}

}  // namespace lazyfs
