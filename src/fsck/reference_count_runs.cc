#include "fsck/reference_count_runs.h"

#include <algorithm>
#include <optional>
#include <queue>

namespace lazyfs::fsck {

using namespace fs;

namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::size_t kScanItems = 512;

// What a witness says of the block at which all three stand, and up to which block it says that.
struct Word {
  std::uint64_t value = 0;
  std::uint64_t until = kNever;
};

// Extents or reference counts, as the tree has them.
class ItemWitness {
 public:
  ItemWitness(meta::Store& store, InodeNo shared, Kind kind)
      : store_(store), from_(key_of(shared, kind)), last_(key_of(shared, kind, meta::kMaxOffset)) {}

  // `block` never becomes smaller.
  Result<Word> at(std::uint64_t block) {
    while (!now_ || now_->end <= block) {
      if (is_over_) return Word{};
      TRY(advance());
    }
    if (block < now_->first) return Word{0, now_->first};
    return Word{now_->value, now_->end};
  }

 private:
  struct Interval {
    std::uint64_t first = 0, end = 0, value = 0;
  };

  Result<> advance() {
    if (next_ == items_.size()) {
      is_over_ = is_read_;
      if (is_over_) return ok();
      ASSIGN_OR_RETURN(items_, store_.scan(from_, last_, kScanItems));
      next_ = 0;
      is_read_ = items_.size() < kScanItems || items_.back().key == last_;
      if (!is_read_) from_.offset = items_.back().key.offset + 1;
      if (items_.empty()) return ok();
    }
    if (const auto interval = decode(items_[next_++])) now_ = interval;
    return ok();
  }

  static std::optional<Interval> decode(const meta::Item& item) {
    const std::uint64_t first = item.key.offset;
    std::uint32_t blocks = 0, value = 1;
    if (item.key.kind == static_cast<std::uint8_t>(Kind::kExtent)) {
      const auto extent = decode_extent(item.value);
      if (extent) blocks = extent->blocks();
    } else if (const auto count = decode_reference_count(item.value)) {
      blocks = count->blocks;
      value = count->references;
    }
    if (blocks == 0 || first > blocks_for(kMaxFileBytes) - blocks) return std::nullopt;
    return Interval{first, first + blocks, value};
  }

  meta::Store& store_;
  meta::Key from_;
  const meta::Key last_;
  std::vector<meta::Item> items_;
  std::size_t next_ = 0;
  std::optional<Interval> now_;
  bool is_read_ = false;  // items_ are the last ones
  bool is_over_ = false;
};

// How many runs lead to a block.
class ReferenceWitness {
 public:
  explicit ReferenceWitness(std::span<const ReferenceRun> runs) : runs_(runs) {}

  Word at(std::uint64_t block) {
    for (; next_ < runs_.size() && runs_[next_].block <= block; ++next_) {
      ends_.push(runs_[next_].end());
    }
    while (!ends_.empty() && ends_.top() <= block) ends_.pop();
    const std::uint64_t begins = next_ < runs_.size() ? runs_[next_].block : kNever;
    return {ends_.size(), ends_.empty() ? begins : std::min(begins, ends_.top())};
  }

 private:
  const std::span<const ReferenceRun> runs_;
  std::size_t next_ = 0;
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> ends_;
};

}  // namespace

std::optional<ReferenceRecord> reference_of(const meta::Item& item) {
  if (item.key.kind != static_cast<std::uint8_t>(Kind::kExtent)) return std::nullopt;
  const auto record = decode_map_record(item.value);
  const auto* reference = record ? std::get_if<ReferenceRecord>(&*record) : nullptr;
  return reference ? std::optional(*reference) : std::nullopt;
}

void References::add(const ReferenceRecord& reference) {
  if (!runs_.empty() && runs_.back().shared == reference.shared &&
      runs_.back().end() == reference.block) {
    runs_.back().blocks += reference.count;
    return;
  }
  runs_.push_back({reference.shared, reference.block, reference.count});
}

void References::sort() { std::ranges::sort(runs_); }

std::span<const ReferenceRun> References::to(InodeNo shared) const {
  const auto range = std::ranges::equal_range(runs_, shared, {}, &ReferenceRun::shared);
  return {range.begin(), range.end()};
}

void RunSet::add(const ReferenceRun& run) { runs_.push_back(run); }

void RunSet::freeze() {
  std::ranges::sort(runs_);
  std::size_t kept = 0;
  for (const ReferenceRun& run : runs_) {
    ReferenceRun& last = runs_[kept == 0 ? 0 : kept - 1];
    if (kept > 0 && last.shared == run.shared && run.block <= last.end()) {
      last.blocks = std::max(last.end(), run.end()) - last.block;
    } else {
      runs_[kept++] = run;
    }
  }
  runs_.resize(kept);
}

std::span<const ReferenceRun> RunSet::overlapping(const ReferenceRun& run) const {
  const auto first = std::ranges::partition_point(runs_, [&](const ReferenceRun& other) {
    return other.shared < run.shared || (other.shared == run.shared && other.end() <= run.block);
  });
  auto last = first;
  while (last != runs_.end() && last->shared == run.shared && last->block < run.end()) ++last;
  return {first, last};
}

Result<> visit_reference_counts(meta::Store& store, InodeNo shared,
                                std::span<const ReferenceRun> references,
                                const std::function<void(const ReferenceCountRun&)>& visit) {
  ItemWitness extents(store, shared, Kind::kExtent), counts(store, shared, Kind::kReferenceCount);
  ReferenceWitness runs(references);
  for (std::uint64_t block = 0; block != kNever;) {
    ASSIGN_OR_RETURN(const Word mapped, extents.at(block));
    ASSIGN_OR_RETURN(const Word counted, counts.at(block));
    const Word referred = runs.at(block);
    const std::uint64_t end = std::min({mapped.until, counted.until, referred.until});
    if (mapped.value > 0 || counted.value > 0 || referred.value > 0) {
      visit({block, end, mapped.value > 0, counted.value, referred.value});
    }
    block = end;
  }
  return ok();
}

}  // namespace lazyfs::fsck
