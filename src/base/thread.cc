#include "base/thread.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/log.h"

namespace lazyfs {
namespace {

// What a handler may use, besides the registers that the kernel saves there.
constexpr std::size_t kHandlerBytes = 32 << 10;

}  // namespace

SignalStack::SignalStack() {
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  const auto saved_bytes = static_cast<std::size_t>(std::max(0L, sysconf(_SC_MINSIGSTKSZ)));
  size_bytes_ = saved_bytes + kHandlerBytes;
  void* const memory = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = size_bytes_};
  if (sigaltstack(&stack, nullptr) == 0) {
    memory_ = memory;
  } else {
    munmap(memory, size_bytes_);
  }
}

SignalStack::~SignalStack() {
  if (!memory_) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
  munmap(memory_, size_bytes_);
}

unsigned ThreadLimit::now() {
  if (refusal_ && clock_.monotonic() - refusal_->at >= try_again_after_) refusal_.reset();
  return refusal_ ? refusal_->threads : threads_max_;
}

void ThreadLimit::note_refusal(unsigned threads, Errc why) {
  refusal_ = {.threads = threads, .at = clock_.monotonic()};
  if (std::exchange(is_logged_, true)) return;
  log::warn("{} of {} threads do the work until more can be made: {}", threads, threads_max_,
            describe(why));
}

}  // namespace lazyfs
