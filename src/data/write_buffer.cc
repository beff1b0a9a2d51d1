#include "data/write_buffer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace lazyfs::data {

WriteBuffer::~WriteBuffer() {
  for (const auto& [block, page] : dirty_) pool_.give_back(page);
  for (const auto& [block, page] : writing_) pool_.give_back(page);
}

const std::byte* WriteBuffer::page_of(std::uint64_t block) const {
  if (const auto at = dirty_.find(block); at != dirty_.end()) return at->second;
  if (const auto at = writing_.find(block); at != writing_.end()) return at->second;
  return nullptr;
}

std::span<const std::byte> WriteBuffer::contents(std::uint64_t block) const {
  const std::byte* page = page_of(block);
  return page ? std::span(page, kBlockBytes) : std::span<const std::byte>();
}

std::vector<std::uint64_t> WriteBuffer::needs_old(std::uint64_t offset, std::size_t length) const {
  std::vector<std::uint64_t> blocks;
  if (length == 0) return blocks;
  const std::uint64_t end = offset + length;
  const std::uint64_t first = offset / kBlockBytes, last = (end - 1) / kBlockBytes;
  if (offset % kBlockBytes != 0 && !has(first)) blocks.push_back(first);
  if (end % kBlockBytes != 0 && !has(last) && (blocks.empty() || last != first)) {
    blocks.push_back(last);
  }
  return blocks;
}

std::size_t WriteBuffer::new_pages(std::uint64_t offset, std::size_t length) const {
  if (length == 0) return 0;
  const std::uint64_t first = offset / kBlockBytes, end = (offset + length - 1) / kBlockBytes + 1;
  std::size_t present = 0;
  for (auto at = dirty_.lower_bound(first); at != dirty_.end() && at->first < end; ++at) ++present;
  return end - first - present;
}

void WriteBuffer::provide(std::uint64_t block, std::span<const std::byte> contents) {
  CHECK(contents.size() == kBlockBytes);
  const auto [at, is_new] = dirty_.try_emplace(block, nullptr);
  CHECK(is_new);
  at->second = pool_.take();
  std::memcpy(at->second, contents.data(), kBlockBytes);
}

void WriteBuffer::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  // Taken in one call, so that the pages lie side by side.
  std::vector<std::byte*> fresh(new_pages(offset, bytes.size()));
  pool_.take(fresh);
  auto next_fresh = fresh.begin();
  auto hint = dirty_.lower_bound(offset / kBlockBytes);
  while (!bytes.empty()) {
    const std::uint64_t block = offset / kBlockBytes;
    const std::size_t at = offset % kBlockBytes;
    const std::size_t length = std::min<std::size_t>(bytes.size(), kBlockBytes - at);
    if (hint == dirty_.end() || hint->first != block) {
      std::byte* page = *next_fresh++;
      if (length < kBlockBytes) {  // covered in part and not dirty: its page is in writing_ (W1)
        const auto old = writing_.find(block);
        CHECK(old != writing_.end());
        std::memcpy(page, old->second, kBlockBytes);
      }
      hint = dirty_.emplace_hint(hint, block, page);
    }
    std::memcpy(hint->second + at, bytes.data(), length);
    ++hint;
    offset += length;
    bytes = bytes.subspan(length);
  }
  CHECK(next_fresh == fresh.end());
}

std::vector<DirtyRun> WriteBuffer::begin_writing(std::size_t max_blocks) {
  CHECK(writing_.empty());
  std::vector<DirtyRun> runs;
  while (!dirty_.empty() && writing_.size() < max_blocks) {
    const auto node = dirty_.begin();
    const std::uint64_t block = node->first;
    if (runs.empty() || runs.back().first_block + runs.back().pages.size() != block) {
      runs.push_back({block, {}});
    }
    runs.back().pages.emplace_back(node->second, kBlockBytes);
    writing_.insert(writing_.end(), dirty_.extract(node));
  }
  return runs;
}

void WriteBuffer::finish_writing() {
  std::vector<std::byte*> pages;
  pages.reserve(writing_.size());
  for (const auto& [block, page] : writing_) pages.push_back(page);
  pool_.give_back(pages);
  writing_.clear();
}

void WriteBuffer::abort_writing() {
  for (const auto& [block, page] : writing_) {
    if (!dirty_.try_emplace(block, page).second) pool_.give_back(page);
  }
  writing_.clear();
}

std::size_t WriteBuffer::drop_from(std::uint64_t block) {
  return drop_range(block, std::numeric_limits<std::uint64_t>::max());
}

std::size_t WriteBuffer::drop_range(std::uint64_t first, std::uint64_t end) {
  CHECK(writing_.empty());
  const auto from = dirty_.lower_bound(first), to = dirty_.lower_bound(end);
  std::size_t count = 0;
  for (auto at = from; at != to; ++at, ++count) pool_.give_back(at->second);
  dirty_.erase(from, to);
  return count;
}

void WriteBuffer::zero_tail(std::uint64_t block, std::size_t from) {
  const auto at = dirty_.find(block);
  CHECK(at != dirty_.end() && from <= kBlockBytes);
  std::memset(at->second + from, 0, kBlockBytes - from);
}

std::vector<WriteBuffer::Run> WriteBuffer::runs(std::size_t at_most) const {
  std::vector<Run> runs;
  auto dirty = dirty_.begin(), writing = writing_.begin();
  while (dirty != dirty_.end() || writing != writing_.end()) {
    const bool from_dirty =
        writing == writing_.end() || (dirty != dirty_.end() && dirty->first <= writing->first);
    const std::uint64_t block = from_dirty ? dirty->first : writing->first;
    if (dirty != dirty_.end() && dirty->first == block) ++dirty;
    if (writing != writing_.end() && writing->first == block) ++writing;
    if (!runs.empty() && runs.back().first_block + runs.back().blocks == block) {
      ++runs.back().blocks;
    } else if (runs.size() == at_most) {
      return {};
    } else {
      runs.push_back({block, 1});
    }
  }
  return runs;
}

std::optional<std::uint64_t> WriteBuffer::first_dirty() const {
  if (dirty_.empty()) return std::nullopt;
  return dirty_.begin()->first;
}

std::optional<std::uint64_t> WriteBuffer::first_from(std::uint64_t block) const {
  std::optional<std::uint64_t> first;
  for (const Pages* pages : {&dirty_, &writing_}) {
    const auto at = pages->lower_bound(block);
    if (at != pages->end() && (!first || at->first < *first)) first = at->first;
  }
  return first;
}

}  // namespace lazyfs::data
