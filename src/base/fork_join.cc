#include "base/fork_join.h"

// The mutex of the pool's queue orders what threads see; ThreadSanitizer does not know fences.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <exception>
#include <latch>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"

namespace lazyfs {
namespace {

constexpr std::chrono::seconds kTryThreadsAfter{1};

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

// Threads are made when they are first needed, so that they do not take those from others that a
// daemon cannot do without.
class ForkJoin::Threads {
 public:
  explicit Threads(unsigned count) : pool_(0), limit_(count, kTryThreadsAfter) {}
  ~Threads() {
    pool_.stop();
    MutexLock lock(mu_);
    for (std::thread& thread : threads_) thread.join();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // If memory is exhausted or the system refuses threads, fewer threads help.
  void help(const std::shared_ptr<Task>& task, std::size_t at_most) EXCLUDES(mu_) {
    try {
      const std::size_t helpers = helpers_for(at_most);
      for (std::size_t i = 0; i < helpers; ++i) {
        ++busy_;
        boost::asio::post(pool_, [this, task] {
          task->work();
          --busy_;
        });
      }
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  // Returns how many threads may help. Makes those that are missing.
  std::size_t helpers_for(std::size_t at_most) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    const std::size_t wanted = std::min<std::size_t>(limit_.now(), busy_ + at_most);
    threads_.reserve(wanted);
    while (threads_.size() < wanted) {
      auto thread = start_thread([this] { pool_.attach(); });
      if (!thread) {
        limit_.note_refusal(static_cast<unsigned>(threads_.size()), thread.error());
        break;
      }
      threads_.push_back(*std::move(thread));
    }
    return std::min(threads_.size(), at_most);
  }

  boost::asio::thread_pool pool_;
  // Tasks that wait for a thread, or have one; those for which memory was exhausted count for ever.
  std::atomic<std::size_t> busy_ = 0;
  Mutex mu_;  // leaf
  ThreadLimit limit_ GUARDED_BY(mu_);
  std::vector<std::thread> threads_ GUARDED_BY(mu_);
};

ForkJoin::ForkJoin(std::size_t threads)
    : threads_(threads == 0 ? nullptr
                            : std::make_unique<Threads>(static_cast<unsigned>(threads))) {}

ForkJoin::~ForkJoin() = default;

void ForkJoin::run(std::size_t parts, const Part& do_part) {
  if (parts == 0) return;
  const auto task = std::make_shared<Task>(parts, do_part);
  if (threads_) threads_->help(task, parts - 1);
  task->work();
  task->wait();
}

}  // namespace lazyfs
