// Reads the neighbours of small reads with them. Small files that were written together lie
// together: beside a seek their neighbours cost nothing, and a program that reads one mostly reads
// the others soon.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "base/buffer.h"
#include "base/mutex.h"
#include "device/forwarding.h"
#include "device/read_streams.h"

namespace lazyfs::device {

// Keeps the windows that were used last, kMaxKeptBlocks in all: 16 MiB.
// Invariants:
//   A1  a window holds blocks of a shingled band below the write pointer, as they have been since
//       they were read: no reset and no moved write pointer came in between
//   A2  a read succeeds if the inner device would read the same blocks: an unreadable neighbour
//       does no harm
// Thread-safe if the inner device is. The lock is not held during calls of the inner device.
class ReadAheadDevice final : public ForwardingDevice {
 public:
  static constexpr std::uint32_t kMaxReadBlocks = 32;     // longer reads pass
  static constexpr std::uint32_t kMaxWindowBlocks = 512;  // 2 MiB
  static constexpr std::size_t kMaxKeptBlocks = 4096;
  static constexpr std::size_t kMaxWindows = 32;

  using Device::append;
  using ForwardingDevice::ForwardingDevice;

  Result<> read(BandAddress from, std::span<std::byte> to) override;
  Result<> set_write_pointer(BandId band, std::uint32_t rba) override;
  Result<> reset(BandId band) override;
  void forget_copies(BandId band) override;

 private:
  struct Window {
    BandAddress at;
    std::uint32_t blocks = 0;
    std::shared_ptr<const AlignedBuffer> bytes;
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

  Mutex mu_;  // leaf
  std::list<Window> windows_ GUARDED_BY(mu_);  // last used first
  std::size_t kept_blocks_ GUARDED_BY(mu_) = 0;  // of all windows
  ReadStreams streams_ GUARDED_BY(mu_);
  std::uint64_t forgets_ GUARDED_BY(mu_) = 0;
};

}  // namespace lazyfs::device
