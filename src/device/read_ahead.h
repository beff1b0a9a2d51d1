// Reads the neighbours of small reads with them. Small files that were written together lie
// together: beside a seek their neighbours cost nothing, and a program that reads one mostly reads
// the others soon.
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

// Keeps the windows that were used last, whose memory is kMaxKeptBytes in all.
// Invariants:
//   A1  a window holds blocks of a shingled band below the write pointer, as they have been since
//       they were read: no reset and no moved write pointer came in between
//   A2  a read succeeds if the inner device would read the same blocks: an unreadable neighbour
//       does no harm
// Where a thread must not wait (base/before_wait.h), what no window has fails with kWouldWait.
// Thread-safe if the inner device is. The lock is not held during calls of the inner device.
class ReadAheadDevice final : public ForwardingDevice {
 public:
  static constexpr std::uint32_t kMaxReadBlocks = 32;     // longer reads pass
  static constexpr std::uint32_t kMaxWindowBlocks = 512;  // 2 MiB
  static constexpr std::size_t kMaxKeptBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMaxWindows = 32;

  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  Result<> read(BandAddress from, std::span<std::byte> to) override;
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override;
  Result<> reset(BandId band) override;
  void forget_copies(BandId band) override;
  // Memory for windows: of those kept, and large pages for others.
  std::size_t held_bytes() EXCLUDES(mu_);

 private:
  // Of a window: a large page, or less if the window does not fill half of one.
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
  // What to do for a read that no window answers.
  struct Miss {
    std::uint32_t blocks = 0;   // to read, from the first one on
    std::uint64_t forgets = 0;  // when the read began
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
