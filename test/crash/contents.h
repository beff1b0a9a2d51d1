// The contents that a file may have after a crash. Each block with unsynced data may be old or new.
// The size may be an old one, a new one, or the end of a block between them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lazyfs::crash {

// Invariants:
//   C1  blocks_ has an entry for each block below size_, and each entry has a version
//   C2  the last version of a block is its present contents, up to the end of the file
//   C3  size_ is in sizes_
// A version of a block is its contents at some moment since the file was last made durable; it ends
// where the file ended then. If a file has `size` bytes after a crash, each of its blocks has a
// version that is at least as long: a file never extends past its written blocks (fs/inode/inode.h,
// I5), and truncated bytes never come back.
class Contents {
 public:
  Contents() = default;
  explicit Contents(std::string_view durable);
  void write(std::uint64_t offset, std::string_view text);
  void truncate(std::uint64_t size);
  void make_durable();
  std::uint64_t size() const { return size_; }
  std::string now() const;  // the contents without a crash

  // Returns the problem of `found` after a crash; empty if `found` is allowed.
  std::string difference(std::string_view found) const;
  // Returns the problem of `found` without a crash.
  std::string difference_now(std::string_view found) const;

 private:
  using Version = std::shared_ptr<const std::string>;

  std::uint64_t length_of(std::uint64_t block, std::uint64_t size) const;
  void grow(std::uint64_t size);
  bool may_have_size(std::uint64_t size) const;

  std::uint64_t size_ = 0;
  std::set<std::uint64_t> sizes_{0};
  std::vector<std::vector<Version>> blocks_;
  bool clean_ = true;  // nothing was written since the file was made durable
};

}  // namespace lazyfs::crash
