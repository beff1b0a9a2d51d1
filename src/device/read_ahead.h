// Extends small reads to the blocks that follow, and keeps those blocks in memory. Small files that
// were written together lie together. After a seek, the blocks of the next files cost almost
// nothing to read, and a program that reads one of the files usually reads the others soon.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "base/buffer.h"
#include "base/buffer_pool.h"
#include "base/mutex.h"
#include "device/forwarding.h"
#include "device/read_streams.h"

namespace lazyfs::device {

// Keeps the most recently used windows: at most kMaxWindows, and kMaxKeptBytes of memory.
// Invariants:
//   A1  a window holds blocks of a shingled band below the write pointer, as they have been since
//       they were read: no reset and no moved write pointer came in between
//   A2  a read succeeds if the inner device would read the same blocks: an unreadable neighbour
//       does no harm
// On a thread that must not wait (base/before_wait.h), a read that no window answers fails with
// kWouldWait. Thread-safe if the inner device is. The lock is not held during calls of the inner
// device.
class ReadAheadDevice final : public ForwardingDevice {
 public:
  static constexpr std::uint32_t kMaxReadBlocks = 32;     // longer reads bypass the windows
  static constexpr std::uint32_t kMaxWindowBlocks = 512;  // 2 MiB
  static constexpr std::size_t kMaxKeptBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMaxWindows = 32;

  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  Result<> read(BandAddress from, std::span<std::byte> to) override;
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override;
  Result<> reset(BandId band) override;
  void forget_copies(BandId band) override;
  // Memory of the windows that are kept, and large pages that are ready for others.
  std::size_t held_bytes() EXCLUDES(mu_);

 private:
  // The memory of a window: a large page, or less if the window does not fill half of one.
  struct Memory {
    Memory(BufferPool& pages, std::size_t window_bytes);
    std::size_t held_bytes() const { return small ? small.size() : large.bytes().size(); }

    AlignedBuffer small;
    BufferPool::Loan large;
    std::span<std::byte> bytes;
  };
  struct Window {
    BandAddress at;
    std::uint32_t blocks = 0;
    std::shared_ptr<const Memory> memory;
  };
  // How to read what no window answers.
  struct Miss {
    std::uint32_t blocks = 0;   // to read, from the first one on
    std::uint64_t forgets = 0;  // forgets_ when the read began
  };

  bool answer(BandAddress from, std::span<std::byte> to) EXCLUDES(mu_);
  Miss miss(BandAddress from) EXCLUDES(mu_);
  void keep(Window window, std::uint64_t forgets) EXCLUDES(mu_);
  void forget(BandId band) EXCLUDES(mu_);

  BufferPool pages_{kLargePageBytes};
  Mutex mu_;                                    // only BufferPool::mu_ is taken under it
  std::list<Window> windows_ GUARDED_BY(mu_);   // last used first
  std::size_t kept_bytes_ GUARDED_BY(mu_) = 0;  // held for all windows
  ReadStreams streams_ GUARDED_BY(mu_);
  std::uint64_t forgets_ GUARDED_BY(mu_) = 0;
};

}  // namespace lazyfs::device
