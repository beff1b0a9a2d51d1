#include "crash/contents.h"

#include <algorithm>

#include "base/types.h"

namespace lazyfs::crash {
namespace {

std::string at_block(std::uint64_t block, std::string_view what) {
  return "block " + std::to_string(block) + " " + std::string(what);
}

// Describes the origin of the bytes as far as it is known.
std::string_view looks_like(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == 0; }) ? "is zeros" : "is foreign";
}

}  // namespace

Contents::Contents(std::string_view durable) {
  write(0, durable);
  make_durable();
}

std::uint64_t Contents::length_of(std::uint64_t block, std::uint64_t size) const {
  return std::min<std::uint64_t>(kBlockBytes, size - block * kBlockBytes);
}

// Appends zeros up to `size`. Does not change which blocks are durable.
void Contents::grow(std::uint64_t size) {
  if (size <= size_) return;
  if (size_ % kBlockBytes != 0) {
    std::vector<Version>& tail = blocks_.back();
    std::string text = *tail.back();
    text.resize(length_of(blocks_.size() - 1, size), '\0');
    tail.push_back(std::make_shared<const std::string>(std::move(text)));
  }
  for (std::uint64_t block = blocks_.size(); block < blocks_for(size); ++block) {
    blocks_.push_back({std::make_shared<const std::string>(length_of(block, size), '\0')});
  }
  size_ = size;
  sizes_.insert(size);
}

void Contents::write(std::uint64_t offset, std::string_view text) {
  if (text.empty()) return;
  const std::uint64_t old_blocks = blocks_.size(), old_size = size_, end = offset + text.size();
  grow(end);
  for (std::uint64_t block = offset / kBlockBytes; block < blocks_for(end); ++block) {
    const std::uint64_t start = block * kBlockBytes;
    const std::uint64_t from = std::max(start, offset);
    const std::uint64_t to = std::min(start + kBlockBytes, end);
    std::string bytes = *blocks_[block].back();
    bytes.replace(from - start, to - from, text.substr(from - offset, to - from));
    // The zeros of grow() are not a version of their own: they were written with these bytes.
    const bool grew = block >= old_blocks || (old_size % kBlockBytes != 0 && end > old_size &&
                                              block + 1 == old_blocks);
    if (grew) blocks_[block].pop_back();
    blocks_[block].push_back(std::make_shared<const std::string>(std::move(bytes)));
  }
  clean_ = false;
}

void Contents::truncate(std::uint64_t size) {
  // lazyfs may write the rest of the last block as zeros before the file extends past it.
  if (size > size_ && size_ % kBlockBytes != 0) clean_ = false;
  std::set<std::uint64_t> sizes{size};
  if (!clean_) {
    for (const std::uint64_t s : sizes_) sizes.insert(std::min(s, size));
  }
  if (size > size_) {
    grow(size);
  } else {
    blocks_.resize(blocks_for(size));
    if (size % kBlockBytes != 0) {
      const std::uint64_t length = length_of(blocks_.size() - 1, size);
      for (Version& version : blocks_.back()) {
        if (version->size() > length) {
          version = std::make_shared<const std::string>(version->substr(0, length));
        }
      }
      clean_ = clean_ && size == size_;
    }
    size_ = size;
  }
  sizes_ = std::move(sizes);
}

void Contents::make_durable() {
  for (std::vector<Version>& versions : blocks_) versions = {versions.back()};
  sizes_ = {size_};
  clean_ = true;
}

std::string Contents::now() const {
  std::string text;
  for (const std::vector<Version>& versions : blocks_) text += *versions.back();
  return text;
}

bool Contents::may_have_size(std::uint64_t size) const {
  if (sizes_.contains(size)) return true;
  return size % kBlockBytes == 0 && size > *sizes_.begin() && size < *sizes_.rbegin();
}

std::string Contents::difference(std::string_view found) const {
  if (!may_have_size(found.size())) {
    std::string text = "size is " + std::to_string(found.size()) + ", may be";
    for (const std::uint64_t size : sizes_) text += " " + std::to_string(size);
    return text;
  }
  for (std::uint64_t block = 0; block < blocks_for(found.size()); ++block) {
    const std::string_view bytes = found.substr(block * kBlockBytes, kBlockBytes);
    const bool known = std::ranges::any_of(blocks_[block], [&](const Version& version) {
      return std::string_view(*version).starts_with(bytes);
    });
    if (!known) {
      return at_block(block, looks_like(bytes)) + ", " + std::to_string(blocks_[block].size()) +
             " versions of it may be there";
    }
  }
  return "";
}

std::string Contents::difference_now(std::string_view found) const {
  if (found.size() != size_) {
    return "size is " + std::to_string(found.size()) + ", not " + std::to_string(size_);
  }
  for (std::uint64_t block = 0; block < blocks_.size(); ++block) {
    const std::string_view bytes = found.substr(block * kBlockBytes, kBlockBytes);
    if (bytes != *blocks_[block].back()) return at_block(block, looks_like(bytes));
  }
  return "";
}

}  // namespace lazyfs::crash
