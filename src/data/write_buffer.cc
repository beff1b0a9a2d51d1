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
  try {
    at->second = pool_.take();
  } catch (...) {
    dirty_.erase(at);
    throw;
  }
  std::memcpy(at->second, contents.data(), kBlockBytes);
}

// Returns the first of the blocks [first, end), which all are dirty then. After an exception no
// block has been added.
WriteBuffer::Pages::iterator WriteBuffer::add_pages(std::uint64_t first, std::uint64_t end,
                                                    std::size_t count) {
  // Taken in one call, so that the pages lie side by side.
  std::vector<std::byte*> fresh(count);
  pool_.take(fresh);
  auto next_fresh = fresh.begin();
  auto hint = dirty_.lower_bound(first), begin = dirty_.end();
  try {
    for (std::uint64_t block = first; block < end; ++block, ++hint) {
      if (hint == dirty_.end() || hint->first != block) {
        hint = dirty_.emplace_hint(hint, block, *next_fresh);
        ++next_fresh;
      }
      if (block == first) begin = hint;
    }
  } catch (...) {
    for (auto page = fresh.begin(); page != next_fresh; ++page) {
      std::erase_if(dirty_, [page](const auto& entry) { return entry.second == *page; });
    }
    pool_.give_back(fresh);
    throw;
  }
  CHECK(next_fresh == fresh.end());
  return begin;
}

void WriteBuffer::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::uint64_t first = offset / kBlockBytes;
  const std::uint64_t end = blocks_for(offset + bytes.size());
  // Blocks that are covered in part and not dirty: their pages are in writing_ (W1).
  const bool is_part = offset % kBlockBytes != 0 || (offset + bytes.size()) % kBlockBytes != 0;
  const bool has_first = is_part && has_dirty(first), has_last = is_part && has_dirty(end - 1);
  auto page = add_pages(first, end, new_pages(offset, bytes.size()));
  for (; !bytes.empty(); ++page) {
    const std::uint64_t block = offset / kBlockBytes;
    const std::size_t at = offset % kBlockBytes;
    const std::size_t length = std::min<std::size_t>(bytes.size(), kBlockBytes - at);
    const bool was_dirty = block == first ? has_first : has_last;
    if (length < kBlockBytes && !was_dirty) {
      const auto old = writing_.find(block);
      CHECK(old != writing_.end());
      std::memcpy(page->second, old->second, kBlockBytes);
    }
    std::memcpy(page->second + at, bytes.data(), length);
    offset += length;
    bytes = bytes.subspan(length);
  }
}

std::vector<DirtyRun> WriteBuffer::begin_writing(std::size_t max_blocks) {
  CHECK(writing_.empty());
  std::vector<DirtyRun> runs;
  auto end = dirty_.begin();
  for (std::size_t i = 0; i < max_blocks && end != dirty_.end(); ++i, ++end) {
    const auto& [block, page] = *end;
    if (runs.empty() || runs.back().first_block + runs.back().pages.size() != block) {
      runs.push_back({block, {}});
    }
    runs.back().pages.emplace_back(page, kBlockBytes);
  }
  while (dirty_.begin() != end) writing_.insert(writing_.end(), dirty_.extract(dirty_.begin()));
  return runs;
}

void WriteBuffer::finish_writing() {
  std::array<std::byte*, 256> pages;  // needs no other memory
  for (auto at = writing_.begin(); at != writing_.end();) {
    std::size_t count = 0;
    for (; count < pages.size() && at != writing_.end(); ++at) pages[count++] = at->second;
    pool_.give_back(std::span(pages.data(), count));
  }
  writing_.clear();
}

void WriteBuffer::abort_writing() {
  dirty_.merge(writing_);
  finish_writing();  // what was overwritten
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
