// A zoned disk in memory that keeps the rules of a real one: writes at the write pointer, in
// sectors, no larger than allowed; capacities below sizes; limits of open and active zones; zones
// that become read-only or offline; writes that fail half done.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "zoned/zone_disk.h"

namespace lazyfs::zoned {

// What a disk in memory holds; outlives the disks that are made of it.
struct EmulatedMedium {
  struct Shape {
    std::uint32_t conventional = 0;  // zones at the front
    std::uint32_t zones = 8;
    std::uint64_t zone_bytes = 64 * std::uint64_t{kBlockBytes};
    std::uint64_t capacity_bytes = 0;  // of a sequential zone; 0: zone_bytes
    DiskLimits limits;
  };
  explicit EmulatedMedium(Shape the_shape);

  Shape shape;
  Mutex mu;
  std::vector<Zone> zones GUARDED_BY(mu);
  std::vector<std::byte> bytes GUARDED_BY(mu);
  std::uint64_t writes GUARDED_BY(mu) = 0;  // so far
  std::uint64_t finishes GUARDED_BY(mu) = 0;
  std::uint64_t syncs GUARDED_BY(mu) = 0;
  std::uint64_t failing_syncs GUARDED_BY(mu) = 0;  // so many from now fail
  std::uint64_t failing_reads GUARDED_BY(mu) = 0;  // so many from now fail
  std::uint64_t failing_resets GUARDED_BY(mu) = 0, failing_finishes GUARDED_BY(mu) = 0;
  // The n-th write from now fails after so many bytes. 0: none.
  std::uint64_t failing_write GUARDED_BY(mu) = 0, bytes_of_failing GUARDED_BY(mu) = 0;
  // What other threads do after the next report, write, reset or finish, before the disk answers.
  // Called once, without mu. Set and called by one thread.
  std::function<void()> after_report, after_write, after_reset, after_finish;
};

// Thread-safe. Implicitly open zones are closed when further ones are opened, as disks do, so that
// only active zones are limited here.
class EmulatedDisk final : public ZoneDisk {
 public:
  explicit EmulatedDisk(std::shared_ptr<EmulatedMedium> medium) : medium_(std::move(medium)) {}

  std::string name() const override { return "emulated"; }
  DiskLimits limits() const override { return medium_->shape.limits; }
  std::uint32_t zone_count() const override { return medium_->shape.zones; }
  Result<std::vector<Zone>> report(std::uint32_t first, std::uint32_t count) override;
  Result<> read(std::uint64_t at, std::span<std::byte> to) override;
  Result<> write(std::uint64_t at, std::span<const device::Piece> pieces) override;
  Result<> reset(const Zone& zone) override;
  Result<> finish(const Zone& zone) override;
  Result<> sync() override;

 private:
  static void run_once(std::function<void()>& hook);
  Zone& zone_at_locked(std::uint64_t at) REQUIRES(medium_->mu);
  Result<> write_locked(std::uint64_t at, std::span<const device::Piece> pieces)
      REQUIRES(medium_->mu);
  Result<> check_write_locked(const Zone& zone, std::uint64_t at, std::uint64_t length)
      REQUIRES(medium_->mu);
  std::uint32_t active_locked() const REQUIRES(medium_->mu);
  Result<> change(const Zone& zone, const std::function<Result<>(Zone&)>& apply);

  const std::shared_ptr<EmulatedMedium> medium_;
};

}  // namespace lazyfs::zoned
