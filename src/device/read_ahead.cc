#include "device/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/before_wait.h"

namespace lazyfs::device {

ReadAheadDevice::Memory::Memory(BufferPool& pages, std::size_t window_bytes) {
  if (window_bytes < kLargePageBytes / 2) {
    small = AlignedBuffer(window_bytes);
    bytes = small.span();
  } else {
    large = pages.lend();
    bytes = large.bytes().first(window_bytes);
  }
}

// Answers from a window, and makes it the last used one.
bool ReadAheadDevice::answer(BandAddress from, std::span<std::byte> to) {
  std::shared_ptr<const Memory> memory;
  std::size_t offset = 0;
  {
    MutexLock lock(mu_);
    const auto window = std::ranges::find_if(windows_, [&](const Window& w) {
      return w.at.band == from.band && w.at.rba <= from.rba &&
             std::size_t{from.rba - w.at.rba} * kBlockBytes + to.size() <=
                 std::size_t{w.blocks} * kBlockBytes;
    });
    if (window == windows_.end()) return false;
    memory = window->memory;
    offset = std::size_t{from.rba - window->at.rba} * kBlockBytes;
    windows_.splice(windows_.begin(), windows_, window);
  }
  std::memcpy(to.data(), memory->bytes.data() + offset, to.size());
  return true;
}

ReadAheadDevice::Miss ReadAheadDevice::miss(BandAddress from) {
  MutexLock lock(mu_);
  return {streams_.window(from, {1, 2, kMaxWindowBlocks}), forgets_};
}

// A window that was read while a band was reset may hold what the band had before.
void ReadAheadDevice::keep(Window window, std::uint64_t forgets) {
  MutexLock lock(mu_);
  if (forgets != forgets_) return;
  kept_bytes_ += window.memory->held_bytes();
  windows_.push_front(std::move(window));
  while (windows_.size() > kMaxWindows || kept_bytes_ > kMaxKeptBytes) {
    kept_bytes_ -= windows_.back().memory->held_bytes();
    windows_.pop_back();
  }
}

void ReadAheadDevice::forget(BandId band) {
  MutexLock lock(mu_);
  ++forgets_;
  for (auto window = windows_.begin(); window != windows_.end();) {
    const bool is_old = window->at.band == band;
    if (is_old) kept_bytes_ -= window->memory->held_bytes();
    window = is_old ? windows_.erase(window) : std::next(window);
  }
}

Result<> ReadAheadDevice::read(BandAddress from, std::span<std::byte> to) {
  const Geometry& disk = geometry();
  const std::size_t wanted = to.size() / kBlockBytes;
  const bool is_small = to.size() % kBlockBytes == 0 && wanted > 0 && wanted <= kMaxReadBlocks;
  const bool has_windows = is_small && disk.block_bytes == kBlockBytes && disk.has(from.band) &&
                           disk.band_kinds[from.band.value] == BandKind::kShingled;
  if (has_windows && answer(from, to)) return ok();
  if (!may_wait()) return fail(Errc::kWouldWait);
  if (!has_windows) return ForwardingDevice::read(from, to);
  const Miss found = miss(from);
  if (found.blocks <= wanted) return ForwardingDevice::read(from, to);
  const auto end = write_pointer(from.band);
  const std::uint64_t most = end && *end > from.rba ? *end - from.rba : 0;
  const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(found.blocks, most));
  if (blocks <= wanted) return ForwardingDevice::read(from, to);
  auto memory = std::make_shared<Memory>(pages_, std::size_t{blocks} * kBlockBytes);
  if (!ForwardingDevice::read(from, memory->bytes)) return ForwardingDevice::read(from, to);
  std::memcpy(to.data(), memory->bytes.data(), to.size());
  keep({from, blocks, std::move(memory)}, found.forgets);
  return ok();
}

Result<> ReadAheadDevice::set_write_pointer(BandId band, std::uint32_t rba) {
  const auto done = ForwardingDevice::set_write_pointer(band, rba);
  forget(band);
  return done;
}

Result<> ReadAheadDevice::reset(BandId band) {
  const auto done = ForwardingDevice::reset(band);
  forget(band);
  return done;
}

void ReadAheadDevice::forget_copies(BandId band) {
  forget(band);
  ForwardingDevice::forget_copies(band);
}

std::size_t ReadAheadDevice::held_bytes() {
  MutexLock lock(mu_);
  std::size_t bytes = pages_.held_bytes();
  for (const Window& window : windows_) bytes += window.memory->small.size();
  return bytes;
}

}  // namespace lazyfs::device
