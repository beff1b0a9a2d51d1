#include "base/thread.h"

#include "base/log.h"

namespace lazyfs {

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
