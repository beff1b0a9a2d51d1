// What a file may hold after a crash. Data that was not made durable may be there or not, block by
// block; a size may be an old one, a new one, or the end of a block in between.
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
//   C2  the last version of a block is what it holds now, up to the end of the file
//   C3  size_ is in sizes_
// A version of a block is what it held at some moment since the file was last made durable, as long
// as the file then was. A file that shows `size` bytes after a crash shows of each block a version
// that is at least as long: no file becomes longer than what was written of it (fs/inode/inode.h,
// I5), and what was cut off never comes back.
class Contents {
 public:
  Contents() = default;
  explicit Contents(std::string_view durable);
  void write(std::uint64_t offset, std::string_view text);
  void truncate(std::uint64_t size);
  void make_durable();
  std::uint64_t size() const { return size_; }
  std::string now() const;  // what it holds when there is no crash

  // What is wrong with `found` after a crash; empty when nothing is.
  std::string difference(std::string_view found) const;
  // What is wrong with it when there was none.
  std::string difference_now(std::string_view found) const;

 private:
  using Version = std::shared_ptr<const std::string>;

  std::uint64_t length_of(std::uint64_t block, std::uint64_t size) const;
  void grow(std::uint64_t size);
  bool may_have_size(std::uint64_t size) const;

  std::uint64_t size_ = 0;
  std::set<std::uint64_t> sizes_{0};
  std::vector<std::vector<Version>> blocks_;
  bool clean_ = true;  // nothing was written since it was made durable
};

}  // namespace lazyfs::crash
