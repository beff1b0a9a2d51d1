// Bands of the metadata log that fail while they are written (meta/log/log.h). What they hold stays
// readable, and the cleaner empties them as it does others; they are not written again before the
// next mount.
#include <algorithm>

#include "base/log.h"
#include "meta/log/log.h"

namespace lazyfs::meta {

bool Log::has_failed(BandId band) const {
  MutexLock lock(mu_);
  return failed_.contains(band);
}

const ChainBand* Log::head_locked() const {
  return chain_.size() > unbegun_ ? &chain_[chain_.size() - unbegun_ - 1] : nullptr;
}

// The head is chain_[index] now, and is written from `rba` on next.
void Log::make_head_locked(std::size_t index, std::uint32_t rba) {
  unbegun_ = chain_.size() - 1 - index;
  head_rba_ = rba;
}

void Log::take_back(const LogPlan& plan) {
  MutexLock lock(mu_);
  const Room& first = plan.parts.front().room;
  const auto at = std::ranges::find(chain_, first.slot, &ChainBand::slot);
  const auto index = static_cast<std::size_t>(at - chain_.begin());
  if (first.rba > 1) return make_head_locked(index, first.rba);
  // It was to be begun: the one before had no room.
  if (index > 0) return make_head_locked(index - 1, blocks_of(chain_[index - 1].band));
  unbegun_ = chain_.size();
}

// A band of the plan that is being written, or a cold one.
void Log::close_failed(BandId band, Errc why) {
  MutexLock lock(mu_);
  failed_.insert(band);
  log::error("log band {}: cannot be written: {}; it is set aside", band.value, describe(why));
  if (cold_room_ && cold_room_->band == band) {
    cold_room_.reset();
    return;
  }
  const auto at = std::ranges::find(chain_, band, &ChainBand::band);
  if (at == chain_.end()) return;
  make_head_locked(static_cast<std::size_t>(at - chain_.begin()), blocks_of(band));
  const bool is_void = std::ranges::none_of(parts_, [&](const Part& part) {
    return part.address.slot == at->slot && part.address.rba > 1;
  });
  if (is_void) void_slots_.insert(at->slot);
  // Parts of the plan in bands behind it are void: another part of this transaction will begin
  // where they do. Their nodes stay with them until they get their new places.
  for (auto part = parts_.rbegin(); part != parts_.rend() && part->address.slot > at->slot;
       ++part) {
    part->address.rba = 0;
  }
}

}  // namespace lazyfs::meta
