#include "edi/image.h"

#include <algorithm>
#include <new>

#include "edi/grow.h"

namespace lazyfs::edi {

using device::BandCondition;
using device::Piece;
using device::SharedFlush;

Image::Image(Layout layout, Backing backing, std::unique_ptr<PointerTable> table,
             std::vector<std::uint32_t> pointers, bool read_only, std::string name)
    : layout_(std::move(layout)),
      backing_(std::move(backing)),
      table_(std::move(table)),
      read_only_(read_only),
      name_(std::move(name)),
      bands_(pointers.size()),
      dirty_blocks_(table_->block_count()) {
  for (std::uint32_t i = 0; i < bands_.size(); ++i) {
    bands_[i].write_pointer =
        is_conventional(BandId{i}) ? layout_.now().geometry.band_blocks[i] : pointers[i];
  }
  if (read_only_) return;
  for (const std::uint32_t block : table_->damaged()) {
    dirty_blocks_[block] = true;  // E6
    flush_.touch();
  }
}

Result<> Image::check_band(BandId band) const {
  if (!layout().geometry.has(band)) return fail(Errc::kBadBand);
  if (layout().is_linked_away(band)) return fail(Errc::kBandOffline);
  return ok();
}

Result<> Image::read(BandAddress from, std::span<std::byte> to) {
  ASSIGN_OR_RETURN(const std::uint32_t pointer, write_pointer(from.band));
  TRY(device::check_read(layout().geometry, from, to, pointer));
  if (to.empty()) return ok();
  return backing_.read(place_of(from), to);
}

Result<std::uint32_t> Image::begin_append(BandAddress to, std::span<const Piece> pieces) {
  TRY(check_band(to.band));
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  MutexLock lock(mu_);
  Band& band = bands_[to.band.value];
  band.discard.await_end(mu_, discard_ended_);
  TRY(device::check_append(layout().geometry, to, pieces, band.write_pointer));
  if (is_conventional(to.band)) return band.life;
  if (band.is_failed) return fail(Errc::kBandFailed);
  if (band.is_appending) return fail(Errc::kNotAtWritePointer);
  band.is_appending = true;
  return band.life;
}

Result<> Image::append(BandAddress to, std::span<const Piece> pieces) {
  ASSIGN_OR_RETURN(const std::uint32_t life, begin_append(to, pieces));
  const auto [bytes, result] = backing_.write(place_of(to), pieces);

  MutexLock lock(mu_);
  flush_.touch();
  if (is_conventional(to.band)) return result;
  Band& band = bands_[to.band.value];
  band.is_appending = false;
  if (band.life != life) return fail(Errc::kNotAtWritePointer);
  band.write_pointer += static_cast<std::uint32_t>(bytes / layout().geometry.block_bytes);  // E1
  band.is_failed = !result;
  touch_locked(to.band);
  return result;
}

void Image::touch_locked(BandId band) {
  dirty_blocks_[table_->block_of(band)] = true;
  flush_.touch();
}

void Image::move_back_locked(BandId id, std::uint32_t rba) {
  Band& band = bands_[id.value];
  band.write_pointer = rba;
  band.is_failed = false;
  ++band.life;
  touch_locked(id);
}

Result<std::uint32_t> Image::write_pointer(BandId band) {
  TRY(check_band(band));
  MutexLock lock(mu_);
  return bands_[band.value].write_pointer;
}

Result<> Image::set_write_pointer(BandId band, std::uint32_t rba) {
  TRY(check_band(band));
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  if (is_conventional(band)) return fail(Errc::kUnsupported);
  MutexLock lock(mu_);
  if (rba > bands_[band.value].write_pointer) return fail(Errc::kPastWritePointer);
  move_back_locked(band, rba);
  return ok();
}

Result<> Image::reset(BandId band) {
  TRY(check_band(band));
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  if (is_conventional(band)) return fail(Errc::kUnsupported);
  MutexLock lock(mu_);
  move_back_locked(band, 0);
  return ok();
}

Result<std::uint64_t> Image::discard(BandId id) {
  TRY(check_band(id));
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  if (is_conventional(id)) return fail(Errc::kUnsupported);
  device::DiscardTurn* turn = nullptr;
  {
    MutexLock lock(mu_);
    Band& band = bands_[id.value];
    if (band.write_pointer > 0 || band.is_appending || band.discard.is_running()) return 0;
    band.discard.begin();
    turn = &band.discard;
  }
  const std::uint64_t bytes =
      std::uint64_t{layout().geometry.blocks_of(id)} * layout().geometry.block_bytes;
  return turn->run(backing_, place_of({id, 0}), bytes, mu_, discard_ended_);
}

Result<device::BandReport> Image::report(BandId band) {
  if (!layout().geometry.has(band)) return fail(Errc::kBadBand);
  device::BandReport report{.kind = layout().geometry.band_kinds[band.value],
                            .blocks = layout().geometry.blocks_of(band)};
  if (layout().is_linked_away(band)) {
    report.condition = BandCondition::kOffline;
    return report;
  }
  MutexLock lock(mu_);
  report.write_pointer = bands_[band.value].write_pointer;
  report.condition = device::condition_of(report.write_pointer, report.blocks);
  return report;
}

Result<> Image::grow(std::uint64_t bytes) {
  if (read_only_) return fail(Errc::kDeviceReadOnly);
  return flush_.run_alone([&]() -> Result<> {
    ASSIGN_OR_RETURN(const std::uint64_t size, device::size_to_fill(backing_, bytes));
    ASSIGN_OR_RETURN(Growth growth, plan_growth(layout(), backing_, size));
    TRY(device::write_steps(backing_, growth.steps));
    auto table = make_pointer_table(growth.layout);
    TRY(table->load(backing_));  // which slots hold the newest durable blocks
    adopt(std::move(growth.layout), std::move(table));
    return ok();
  });
}

void Image::adopt(Layout larger, std::unique_ptr<PointerTable> table) {
  {
    MutexLock lock(mu_);
    bands_.resize(larger.geometry.band_count());
    dirty_blocks_.resize(table->block_count());
    table_ = std::move(table);
  }
  layout_.replace(std::move(larger));
}

Result<> Image::flush() {
  return flush_.run([this] { return write_out(); });
}

// One flush writes the changed blocks of the table, then one barrier for data and table.
SharedFlush::End Image::write_out() {
  std::vector<std::uint32_t> blocks;
  {
    MutexLock lock(mu_);
    for (std::uint32_t i = 0; i < dirty_blocks_.size(); ++i) {
      if (dirty_blocks_[i]) blocks.push_back(i);
    }
    dirty_blocks_.assign(dirty_blocks_.size(), false);
  }
  const Result<> written = write_table(blocks);
  const Result<> result = written ? backing_.sync() : written;
  if (written) ++barriers_;
  if (result) {
    table_->settle();
    return SharedFlush::End::kDurable;
  }
  MutexLock lock(mu_);
  for (std::uint32_t block : blocks) dirty_blocks_[block] = true;
  // E4; a later flush may retry a failed write of the table.
  return written ? SharedFlush::End::kWritesLost : SharedFlush::End::kNotDone;
}

Result<> Image::write_table(const std::vector<std::uint32_t>& blocks) try {
  std::vector<std::uint32_t> pointers;
  for (std::uint32_t block : blocks) {
    const auto [first, end] = table_->bands_of(block);
    pointers.assign(end - first, 0);
    {
      MutexLock lock(mu_);
      for (std::uint32_t band = first; band < end; ++band) {
        if (!is_conventional(BandId{band})) pointers[band - first] = bands_[band].write_pointer;
      }
    }
    TRY(table_->write(backing_, block, pointers));
  }
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

}  // namespace lazyfs::edi
