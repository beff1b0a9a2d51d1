// A banded device in memory that loses power: at the n-th call from now, or when the test says so.
// What no flush covered is then kept, lost or torn, at random, within what device/device.h allows;
// blocks that were not really written show what lay there in an earlier life of the band.
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/mutex.h"
#include "device/device.h"
#include "test/meta/fixture.h"

namespace lazyfs::meta {

class PowerDevice final : public device::Device {
 public:
  // Without `keeps_write_pointers`, as on a plain block device, the ends of all bands are unknown
  // at first and after a power cut, and a block that is written twice between two resets of its
  // band aborts the test (rule W3 of device/device.h).
  PowerDevice(std::uint32_t bands, std::uint32_t band_blocks, std::uint64_t seed,
              bool keeps_write_pointers = !devices_are_plain())
      : keeps_write_pointers_(keeps_write_pointers), random_(seed) {
    geometry_.band_blocks.assign(bands, band_blocks);
    geometry_.band_kinds.assign(bands, device::BandKind::kShingled);
    for (std::uint32_t i = 0; i < bands; ++i) {
      bands_.emplace_back().bytes = AlignedBuffer::zeroed(std::size_t{band_blocks} * kBlockBytes);
      bands_.back().written.resize(band_blocks);
    }
    forget_write_pointers();
  }

  // What closing and opening a device without write pointers does.
  void forget_write_pointers() {
    if (keeps_write_pointers_) return;
    for (std::uint32_t i = 0; i < bands_.size(); ++i) {
      bands_[i].write_pointer = geometry_.band_blocks[i];
      bands_[i].is_end_known = false;
    }
  }

  // The n-th change from now (append, reset, flush) fails, an append perhaps half done, and
  // everything after it until restore_power(). 0: never.
  void cut_power_after(std::uint64_t changes) { left_ = changes; }
  // The n-th change from now fails, an append half done; the device continues. 0: never.
  void fail_after(std::uint64_t changes) { failure_left_ = changes; }
  bool failure_is_due() const { return failure_left_ > 0; }
  std::uint64_t changes() const { return changes_; }

  // What a host finds when the power is back.
  void restore_power() {
    MutexLock lock(mu_);
    for (Band& band : bands_) tear(band);
    forget_write_pointers();
    dead_ = false;
    left_ = 0;
  }

  const device::Geometry& geometry() const override { return geometry_; }
  device::Capabilities capabilities() const override {
    return {.keeps_write_pointers = keeps_write_pointers_};
  }
  std::string name() const override { return "power"; }
  using Device::append;

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    MutexLock lock(mu_);
    if (dead_) return fail(Errc::kPowerCut);
    TRY(device::check_read(geometry_, from, to.size(), bands_[from.band.value].write_pointer));
    std::memcpy(to.data(), bands_[from.band.value].at(from.rba), to.size());
    return ok();
  }

  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    MutexLock lock(mu_);
    if (dead_) return fail(Errc::kPowerCut);
    Band& band = bands_[to.band.value];
    TRY(device::check_append(geometry_, to, pieces, band.write_pointer));
    const bool cut = count_change(), failed = count_failure();
    std::size_t blocks = device::bytes_of(pieces) / kBlockBytes;
    if (cut || failed) blocks = random_() % (blocks + 1);
    for (const device::Piece& piece : pieces) {
      for (std::size_t at = 0; at < piece.size() && blocks > 0; at += kBlockBytes, --blocks) {
        CHECK(keeps_write_pointers_ || !band.written[band.write_pointer]);  // W3
        band.written[band.write_pointer] = true;
        band.remember(band.write_pointer);
        std::memcpy(band.at(band.write_pointer++), piece.data() + at, kBlockBytes);
      }
    }
    if (failed) return fail(Errc::kDeviceWrite);
    return cut ? fail(Errc::kPowerCut) : ok();
  }

  Result<std::uint32_t> write_pointer(BandId band) override {
    MutexLock lock(mu_);
    if (dead_) return fail(Errc::kPowerCut);
    if (!geometry_.has(band)) return fail(Errc::kBadBand);
    return bands_[band.value].write_pointer;
  }
  Result<> set_write_pointer(BandId id, std::uint32_t rba) override {
    MutexLock lock(mu_);
    if (dead_) return fail(Errc::kPowerCut);
    if (!geometry_.has(id)) return fail(Errc::kBadBand);
    Band& band = bands_[id.value];
    if (band.is_end_known) return fail(Errc::kUnsupported);
    if (rba > band.write_pointer) return fail(Errc::kPastWritePointer);
    band.write_pointer = band.flushed = rba;
    band.is_end_known = true;
    return ok();
  }

  Result<> reset(BandId band) override {
    MutexLock lock(mu_);
    if (dead_ || count_change()) return fail(Errc::kPowerCut);
    if (count_failure()) return fail(Errc::kDeviceWrite);
    bands_[band.value].write_pointer = 0;
    bands_[band.value].was_reset = true;
    bands_[band.value].is_end_known = true;
    bands_[band.value].written.assign(geometry_.blocks_of(band), false);
    return ok();
  }

  Result<std::uint64_t> discard(BandId) override { return fail(Errc::kUnsupported); }
  Result<device::BandReport> report(BandId) override { return fail(Errc::kUnsupported); }

  Result<> flush() override {
    MutexLock lock(mu_);
    if (dead_ || count_change()) return fail(Errc::kPowerCut);
    if (count_failure()) return fail(Errc::kDeviceFlush);
    for (Band& band : bands_) band.settle();
    return ok();
  }

  void overwrite(BandAddress to, std::span<const std::byte, kBlockBytes> block) {
    MutexLock lock(mu_);
    std::memcpy(bands_[to.band.value].at(to.rba), block.data(), kBlockBytes);
  }

  // Turns a bit of a block over.
  void damage(BandAddress at, std::size_t bit) {
    MutexLock lock(mu_);
    bands_[at.band.value].at(at.rba)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }

 private:
  using Block = std::vector<std::byte>;
  struct Band {
    AlignedBuffer bytes;
    std::uint32_t write_pointer = 0;
    bool is_end_known = true;
    std::vector<bool> written;  // since the last reset
    std::uint32_t flushed = 0;              // write pointer at the last flush
    bool was_reset = false;                 // since then
    std::map<std::uint32_t, Block> before;  // what the blocks written since then held

    std::byte* at(std::uint32_t rba) { return bytes.data() + std::size_t{rba} * kBlockBytes; }
    void remember(std::uint32_t rba) { before.try_emplace(rba, at(rba), at(rba) + kBlockBytes); }
    void settle() {
      flushed = write_pointer;
      was_reset = false;
      before.clear();
    }
  };

  bool count_change() {
    ++changes_;
    if (left_ > 0 && --left_ == 0) dead_ = true;
    return dead_;
  }

  bool count_failure() { return failure_left_ > 0 && --failure_left_ == 0; }

  void tear(Band& band) {
    const unsigned mode = random_() % 4;  // 0: all kept, 1: all lost, else mixed
    std::uint32_t lowest = band.was_reset ? 0 : band.flushed;
    std::uint32_t write_pointer = band.write_pointer;
    if (band.was_reset && random_() % 3 == 0) write_pointer = band.flushed;
    if (mode == 1) write_pointer = band.was_reset && random_() % 2 == 0 ? band.flushed : lowest;
    if (mode > 1 && write_pointer > lowest) {
      write_pointer = lowest + static_cast<std::uint32_t>(random_() % (write_pointer - lowest + 1));
      if (random_() % 2 == 0) write_pointer = band.write_pointer;
    }
    for (auto& [rba, block] : band.before) {
      const bool lost = mode == 1 || (mode > 1 && random_() % 3 == 0);
      if (!lost) continue;
      if (random_() % 4 == 0) {
        for (std::size_t i = 0; i < kBlockBytes; i += 8)
          block[i] = static_cast<std::byte>(random_());
      }
      std::memcpy(band.at(rba), block.data(), kBlockBytes);
    }
    band.write_pointer = write_pointer;
    band.settle();
  }

  device::Geometry geometry_;
  const bool keeps_write_pointers_;
  Mutex mu_;
  std::mt19937_64 random_;
  std::vector<Band> bands_;
  bool dead_ = false;
  std::uint64_t left_ = 0, failure_left_ = 0, changes_ = 0;
};

}  // namespace lazyfs::meta
