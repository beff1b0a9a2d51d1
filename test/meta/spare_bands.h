// The free bands that a store may take for its log, in the place of a volume's.
#pragma once

#include <vector>

#include "base/mutex.h"
#include "meta/store/store.h"

namespace lazyfs::meta {

// Gives out the band that was returned last. Thread-safe: the store's thread takes and returns
// bands too.
class SpareBands {
 public:
  explicit SpareBands(std::vector<BandId> bands = {}) : bands_(std::move(bands)) {}
  SpareBands(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) bands_.push_back(BandId{first + i});
  }

  // REQUIRES: the pool lives until the store's last commit.
  Store::BandSource source() {
    return {.take = [this] { return take(); }, .give_back = [this](BandId b) { give_back(b); }};
  }

  Result<BandId> take() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (bands_.empty()) return fail(Errc::kNoSpace);
    const BandId band = bands_.back();
    bands_.pop_back();
    return band;
  }
  void give_back(BandId band) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    bands_.push_back(band);
    given_back_.notify_all();
  }

  std::size_t size() const EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return bands_.size();
  }
  void wait_for_size(std::size_t size) EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (bands_.size() < size) given_back_.wait(mu_);
  }

 private:
  mutable Mutex mu_;
  CondVar given_back_;
  std::vector<BandId> bands_ GUARDED_BY(mu_);
};

}  // namespace lazyfs::meta
