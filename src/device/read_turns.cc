#include "device/read_turns.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "base/before_wait.h"

namespace lazyfs::device {
namespace {

bool is_shortly_before(BandAddress a, BandAddress b) {
  return a.band == b.band && a.rba < b.rba &&
         std::uint64_t{b.rba - a.rba} * kBlockBytes <= ReadTurnsDevice::kNearBytes;
}

}  // namespace

bool ReadTurnsDevice::has_turn(Reads::const_iterator read) const {
  std::size_t before_bytes = 0;
  for (auto earlier = reads_.begin(); earlier != read; ++earlier) {
    if (is_shortly_before(earlier->from, read->from)) before_bytes += earlier->bytes;
  }
  return before_bytes == 0 || before_bytes + read->bytes <= kAtOnceBytes;
}

ReadTurnsDevice::Reads::iterator ReadTurnsDevice::begin(BandAddress from, std::size_t bytes) {
  MutexLock lock(mu_);
  reads_.emplace_back(from, bytes);
  const auto read = std::prev(reads_.end());
  read->has_begun = has_turn(read);
  while (!read->has_begun) read->turn.wait(mu_);
  return read;
}

void ReadTurnsDevice::end(Reads::iterator read) {
  MutexLock lock(mu_);
  reads_.erase(read);
  for (auto next = reads_.begin(); next != reads_.end(); ++next) {
    if (next->has_begun || !has_turn(next)) continue;
    next->has_begun = true;
    next->turn.notify_one();
  }
}

Result<> ReadTurnsDevice::read(BandAddress from, std::span<std::byte> to) {
  if (to.size() < kLongBytes) return ForwardingDevice::read(from, to);
  about_to_wait();
  const auto read = begin(from, to.size());
  const auto done = ForwardingDevice::read(from, to);
  end(read);
  return done;
}

std::size_t ReadTurnsDevice::waiting() {
  MutexLock lock(mu_);
  return static_cast<std::size_t>(std::ranges::count(reads_, false, &Read::has_begun));
}

}  // namespace lazyfs::device
