#include "device/power_cut.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace lazyfs::device {
namespace {

constexpr std::size_t kSectorBytes = 512;  // a disk writes a sector as a whole or not at all

using Block = std::vector<std::byte>;

// The changes to one band by ops that no flush covers.
struct Doubt {
  // Possible positions of the write pointer, oldest first: appends moved it from low to high.
  struct Segment {
    std::uint32_t low = 0, high = 0;
  };
  std::vector<Segment> segments;
  std::map<std::uint32_t, std::vector<Block>> versions;  // by RBA, oldest first
  bool was_reset = false;
};

class Builder {
 public:
  explicit Builder(const Recording& recording)
      : recording_(recording),
        device_(std::make_unique<MemoryDevice>(recording.geometry, recording.capabilities)),
        block_bytes_(recording.geometry.block_bytes),
        keeps_pointers_(recording.capabilities.keeps_write_pointers) {}

  void settle(const Op& op) {
    if (op.kind == Op::Kind::kFlush) return;
    if (op.kind == Op::Kind::kDiscard) return discard(op.at.band);
    if (op.kind == Op::Kind::kAppend) keep_blocks(op);
    if (!keeps_pointers_) return write(op);
    if (op.kind == Op::Kind::kAppend) device_->poke(op.at, op.bytes);
    if (is_shingled(op.at.band)) device_->place_write_pointer(op.at.band, end_of(op));
  }

  void doubt(const Op& op) {
    if (op.kind == Op::Kind::kFlush) return;
    if (op.kind == Op::Kind::kDiscard) return discard(op.at.band);
    Doubt& band = doubts_[op.at.band];
    if (!keeps_pointers_) unsettled_.push_back(&op);
    if (band.segments.empty()) {
      const std::uint32_t flushed = *device_->write_pointer(op.at.band);
      band.segments.push_back({flushed, flushed});
    }
    if (op.kind == Op::Kind::kReset) band.was_reset = true;
    if (op.kind == Op::Kind::kAppend) {
      band.segments.back().high = std::max(band.segments.back().high, end_of(op));
      for (std::uint32_t i = 0; i < blocks_of(op); ++i) {
        const auto from = op.bytes.begin() + std::ptrdiff_t{i} * block_bytes_;
        band.versions[op.at.rba + i].emplace_back(from, from + block_bytes_);
      }
    } else {
      band.segments.push_back({op.at.rba, op.at.rba});
    }
  }

  std::unique_ptr<MemoryDevice> cut(Choice& choice) {
    // All blocks written since a band's reset count as written, even those that have not reached
    // the medium. The loops below decide on the bytes.
    if (!keeps_pointers_) mark_unsettled();
    for (const auto& [band, blocks] : discarded_) zero_some(band, blocks, choice);
    for (auto& [band, doubt] : doubts_) {
      if (is_shingled(band) && keeps_pointers_) place_pointer(band, doubt, choice);
    }
    keep_limit();
    for (auto& [band, doubt] : doubts_) cut(band, doubt, choice);
    device_->forget_write_pointers();
    return std::move(device_);
  }

 private:
  bool is_shingled(BandId band) const {
    return recording_.geometry.band_kinds[band.value] == BandKind::kShingled;
  }
  std::uint32_t blocks_of(const Op& op) const {
    return static_cast<std::uint32_t>(op.bytes.size() / block_bytes_);
  }
  std::uint32_t end_of(const Op& op) const { return op.at.rba + blocks_of(op); }

  void discard(BandId band) {
    std::set<std::uint32_t>& blocks = discarded_[band];
    for (std::uint32_t rba = 0; rba < recording_.geometry.blocks_of(band); ++rba) {
      blocks.insert(rba);
    }
    const auto doubt = doubts_.find(band);
    if (doubt == doubts_.end()) return;
    for (auto& [rba, versions] : doubt->second.versions) {
      versions.emplace_back(block_bytes_);  // zeros: the band was discarded
    }
  }
  void keep_blocks(const Op& append) {
    const auto found = discarded_.find(append.at.band);
    if (found == discarded_.end()) return;
    std::set<std::uint32_t>& blocks = found->second;
    blocks.erase(blocks.lower_bound(append.at.rba), blocks.lower_bound(end_of(append)));
    if (blocks.empty()) discarded_.erase(found);
  }
  // Selects all blocks, some of them, or none.
  void zero_some(BandId band, const std::set<std::uint32_t>& blocks, Choice& choice) {
    const std::uint32_t how = choice.among(3);
    if (how == 2) return;
    const Block zeros(block_bytes_);
    for (const std::uint32_t rba : blocks) {
      if (how == 0 || choice.among(2) == 0) device_->poke({band, rba}, zeros);
    }
  }

  // On a device without write pointers: writes the bytes, and notes the blocks written since the
  // reset.
  void write(const Op& op) {
    if (op.kind == Op::Kind::kAppend) device_->place_blocks(op.at, op.bytes);
    if (op.kind == Op::Kind::kReset && is_shingled(op.at.band)) CHECK(device_->reset(op.at.band));
  }

  // Marks what the unflushed ops have written; leaves the bytes as they were flushed.
  void mark_unsettled() {
    Block block(block_bytes_);
    for (const Op* const op : unsettled_) {
      if (op->kind == Op::Kind::kReset) write(*op);
      for (std::uint32_t i = 0; i < blocks_of(*op); ++i) {
        const BandAddress at{op->at.band, op->at.rba + i};
        device_->peek(at, block);
        device_->place_blocks(at, block);
      }
    }
  }

  void place_pointer(BandId band, const Doubt& doubt, Choice& choice) {
    const std::vector<std::uint32_t> places = places_of(doubt);
    const auto count = static_cast<std::uint32_t>(places.size());
    device_->place_write_pointer(band, places[choice.among_positions(count)]);
  }

  // A device never has more partly written bands than it allows. If the choices would leave too
  // many, bands get their newest positions, which the device has allowed together.
  void keep_limit() {
    const std::uint32_t limit = recording_.capabilities.max_open_bands;
    if (limit == 0) return;
    for (auto& [band, doubt] : doubts_) {
      if (open_bands() <= limit) return;
      if (is_shingled(band)) device_->place_write_pointer(band, doubt.segments.back().high);
    }
  }
  std::uint32_t open_bands() {
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < recording_.geometry.band_count(); ++i) {
      const auto report = device_->report(BandId{i});
      count += is_shingled(BandId{i}) && report->condition == BandCondition::kOpen ? 1 : 0;
    }
    return count;
  }

  void cut(BandId band, const Doubt& doubt, Choice& choice) {
    const std::uint32_t flushed = doubt.segments.front().low;
    const std::uint32_t blocks = recording_.geometry.blocks_of(band);
    const std::uint32_t end = keeps_pointers_ ? *device_->write_pointer(band) : blocks;
    if (doubt.was_reset) {
      forget_untouched(band, doubt, keeps_pointers_ ? std::min(flushed, end) : blocks, choice);
    }
    for (const auto& [rba, versions] : doubt.versions) {
      if (rba < end) {
        put_block({band, rba}, versions, choice);
      } else {
        device_->poke({band, rba}, versions.back());  // a later power cut may make it readable
      }
    }
  }

  // Returns each possible position once: the newest first, the flushed one last.
  static std::vector<std::uint32_t> places_of(const Doubt& doubt) {
    std::vector<std::uint32_t> places;
    std::set<std::uint32_t> seen{doubt.segments.front().low};
    for (auto segment = doubt.segments.rbegin(); segment != doubt.segments.rend(); ++segment) {
      for (std::uint64_t place = segment->high + 1ull; place-- > segment->low;) {
        const auto rba = static_cast<std::uint32_t>(place);
        if (seen.insert(rba).second) places.push_back(rba);
      }
    }
    // Option 0 keeps everything: the newest position, even if it equals the flushed one.
    const std::uint32_t newest = doubt.segments.back().high, flushed = doubt.segments.front().low;
    if (newest == flushed) places.insert(places.begin(), newest);
    places.push_back(flushed);
    return places;
  }

  // A reset releases the band's space. If the reset is lost and the write pointer is at its old
  // position, the blocks below it may be zero. Without write pointers any earlier block of the band
  // may be zero. One choice covers the whole band.
  void forget_untouched(BandId band, const Doubt& doubt, std::uint32_t end, Choice& choice) {
    if (choice.among(2) == 1) return;
    const Block zeros(block_bytes_);
    for (std::uint32_t rba = 0; rba < end; ++rba) {
      if (!doubt.versions.contains(rba)) device_->poke({band, rba}, zeros);
    }
  }

  void put_block(BandAddress at, const std::vector<Block>& versions, Choice& choice) {
    const auto count = static_cast<std::uint32_t>(versions.size());
    const std::uint32_t answer = choice.among(count + 3);
    if (answer < count) {  // newest first
      device_->poke(at, versions[count - 1 - answer]);
    } else if (answer == count) {
      const std::size_t sectors = std::max<std::size_t>(block_bytes_ / kSectorBytes, 2);
      const std::size_t kept =
          (1 + choice.among(static_cast<std::uint32_t>(sectors - 1))) * (block_bytes_ / sectors);
      device_->poke(at, std::span(versions.back()).first(kept));
    } else if (answer == count + 1) {
      Block garbage(block_bytes_);
      for (std::size_t i = 0; i < garbage.size(); ++i) {
        garbage[i] = static_cast<std::byte>(0xA5 ^ (i * 31 + at.rba));
      }
      device_->poke(at, garbage);
    }  // else the write was lost, and the earlier bytes remain
  }

  const Recording& recording_;
  std::unique_ptr<MemoryDevice> device_;
  const std::uint32_t block_bytes_;
  const bool keeps_pointers_;
  std::map<BandId, Doubt> doubts_;
  // Blocks of discarded bands that no flushed append has written since.
  std::map<BandId, std::set<std::uint32_t>> discarded_;
  std::vector<const Op*> unsettled_;  // on a device without write pointers
};

}  // namespace

RandomChoice::RandomChoice(std::uint64_t seed)
    : state_(seed), preference_(static_cast<std::uint32_t>(next() % 3)) {}

// splitmix64
std::uint64_t RandomChoice::next() {
  std::uint64_t x = state_ += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

std::uint32_t RandomChoice::among(std::uint32_t options) {
  const bool is_preferred = next() % 4 != 0;
  if (is_preferred && preference_ == 1) return 0;
  if (is_preferred && preference_ == 2) return options - 1;
  return static_cast<std::uint32_t>(next() % options);
}

std::uint32_t EveryChoice::among(std::uint32_t options) {
  CHECK(options > 0);
  if (at_ == digits_.size()) digits_.push_back({.value = 0, .options = options});
  CHECK(digits_[at_].options == options);  // the same selections must lead to the same options
  return digits_[at_++].value;
}

void EveryChoice::advance() {
  at_ = 0;
  while (!digits_.empty() && digits_.back().value + 1 == digits_.back().options) digits_.pop_back();
  is_over_ = digits_.empty();
  if (!is_over_) ++digits_.back().value;
}

std::unique_ptr<MemoryDevice> after_power_cut(const Recording& recording, std::size_t op_count,
                                              Choice& choice) {
  CHECK(op_count <= recording.ops.size());
  std::size_t durable = 0;
  for (std::size_t i = 0; i < op_count; ++i) {
    if (recording.ops[i].kind == Op::Kind::kFlush) {
      durable = std::max(durable, recording.ops[i].covers);
    }
  }
  Builder builder(recording);
  for (std::size_t i = 0; i < durable; ++i) builder.settle(recording.ops[i]);
  for (std::size_t i = durable; i < op_count; ++i) builder.doubt(recording.ops[i]);
  return builder.cut(choice);
}

}  // namespace lazyfs::device
