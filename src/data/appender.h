// Appends file data to open bands. A lease is the exclusive right to append to one band, so no lock
// is held during device I/O.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "data/band_table.h"
#include "data/placement.h"
#include "device/device.h"

namespace lazyfs::data {

class Appender;

// lazyfs does not write to a device that allows fewer partly written bands (Errc::kFewOpenBands).
// File data uses those that the metadata leaves, at most 8: each stream has its own band if there
// are enough, else streams share.
inline constexpr std::uint32_t kMinOpenBands = 6;
constexpr bool allows_enough_open_bands(const device::Capabilities& device) {
  return device.max_open_bands == 0 || device.max_open_bands >= kMinOpenBands;
}

// Where one append has put its blocks: from `at` on, with the CRC-32C of each.
struct Placed {
  BandAddress at;
  std::vector<std::uint32_t> crcs;
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(crcs.size()); }
};

// The destructor ends the lease. By then every appended block must be recorded in the tree and
// accounted (recorded()); otherwise the band is set aside, because the next append record must
// begin where the last one ended. Not thread-safe.
class Lease {
 public:
  Lease(Appender* appender, BandId band, std::uint32_t next, std::uint32_t blocks)
      : appender_(appender), band_(band), next_(next), blocks_(blocks) {}
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  BandId band() const { return band_; }
  std::uint32_t room() const { return blocks_ - next_; }
  bool is_at_start() const { return next_ == 0; }
  // Resets a band that may have been written before a crash. REQUIRES: is_at_start(). After an
  // error the caller must end the lease and try another band.
  Result<> reset();
  // Appends as many of `pages` (kBlockBytes each) as the band has room for, at least one. REQUIRES:
  // room() > 0. After an error the caller must end the lease and try another band.
  Result<Placed> append(std::span<const device::Piece> pages);
  // The next `blocks` of the appended ones are in the tree and accounted in the band table.
  void recorded(std::uint32_t blocks) { unrecorded_ -= blocks; }
  std::uint32_t unrecorded() const { return unrecorded_; }
  BandAddress first_unrecorded() const { return {band_, next_ - unrecorded_}; }

 private:
  Appender* appender_ = nullptr;
  BandId band_;
  std::uint32_t next_ = 0;    // RBA of the next append
  std::uint32_t blocks_ = 0;  // of the band
  std::uint32_t unrecorded_ = 0;
  bool failed_ = false;
  Blame blame_ = Blame::kNone;  // for the failure
};

// Thread-safe.
class Appender {
 public:
  // `policy` holds until set_policy(); `random` gives the numbers for random placement.
  Appender(device::Device& device, BandTable& bands, Placement policy,
           std::function<std::uint64_t()> random);

  // Leases a band of the stream to append about `want_blocks`. Waits while every suitable band is
  // leased; the collector never waits, because the holder of such a lease may wait for the
  // collector. `anywhere` allows a band of another stream, which mixes data that dies at different
  // times; it is for callers that cleaning could not help. Error: kNoSpace when no band has room
  // and none is free for this stream.
  Result<Lease> lease(Stream stream, std::uint64_t want_blocks, bool anywhere = false)
      EXCLUDES(mu_);

  // Called after a mount. If the device limits open bands, seals bands that the last session left
  // open, until one less than the limit for file data is open.
  void seal_surplus();

  // Takes effect at the next lease.
  void set_policy(Placement policy) { policy_.store(policy, std::memory_order_relaxed); }
  Placement policy() const { return policy_.load(std::memory_order_relaxed); }

 private:
  friend class Lease;
  void end(BandId band, bool sealed, bool bad, Blame blame) EXCLUDES(mu_);
  void seal(BandId band);
  // The band that the policy chooses; nullopt if no band is offered.
  std::optional<BandId> pick(const OpenChoice& choice, std::uint64_t want_blocks) const;
  Result<Lease> take(Stream stream, std::uint64_t want_blocks, bool anywhere) EXCLUDES(mu_);

  device::Device& device_;
  BandTable& bands_;
  std::atomic<Placement> policy_;
  const std::function<std::uint64_t()> random_;
  const std::uint32_t max_open_;
  const bool keeps_write_pointers_;  // of the device
  Mutex mu_;  // orders waiting for the end of leases; BandTable::mu_ is taken under it
  CondVar lease_ended_;
};

// An operation gives up after this many bands have failed during it.
inline constexpr int kMaxFailedBands = 8;

}  // namespace lazyfs::data
