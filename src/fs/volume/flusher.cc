#include "fs/volume/flusher.h"

#include <utility>

#include "base/log.h"

namespace lazyfs::fs {
namespace {

constexpr auto kFlushPeriod = std::chrono::milliseconds(200);

}  // namespace

Flusher::Flusher(meta::Store& store, WriteBack& write_back, Throttle& throttle, Clock& clock,
                 std::chrono::nanoseconds commit_interval, std::function<void()> on_read_only)
    : store_(store),
      write_back_(write_back),
      throttle_(throttle),
      clock_(clock),
      commit_interval_(commit_interval),
      on_read_only_(std::move(on_read_only)),
      last_commit_(clock.monotonic()),
      thread_(kFlushPeriod, [this](bool) {
        step();
        return false;
      }) {}

void Flusher::run_once() {
  report_if_read_only();
  write_old(write_back_.has_many_dirty());
}

void Flusher::step() {
  report_if_read_only();
  write_old(throttle_.is_much_dirty() || write_back_.has_many_dirty());
  if (clock_.monotonic() - last_commit_ < commit_interval_.load()) return;
  write_old(false);  // F1: the pass above may have begun with data that was too young then
  const auto committed = store_.commit();
  if (!committed && !reported_) log::error("commit failed: {}", describe(committed.error()));
  last_commit_ = clock_.monotonic();
}

void Flusher::write_old(bool everything) {
  const auto before = everything ? kEver : clock_.monotonic() - commit_interval_.load();
  // Each inode keeps its error.
  throttle_.pass_ended(write_back_.write_dirty(before, WriteBack::Which::kNotBusy));
  ignore_error(write_back_.move_inline(), "each inode keeps its error");
}

void Flusher::report_if_read_only() {
  if (!store_.failed() || reported_.exchange(true)) return;
  log::error("the filesystem is read-only from now on: what could not be written is lost");
  if (on_read_only_) on_read_only_();
}

}  // namespace lazyfs::fs
