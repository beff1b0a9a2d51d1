// What a volume must hold: the oracle. It is told of every operation that succeeded, and then knows
// the names exactly, and of each file what it may hold if the power is cut (crash/contents.h).
//
// The promise that it stands for is DESIGN's: after a crash the names, types, links, modes, targets
// and attributes are those after some operation at or behind the last sync; nothing is lost in
// between, nothing is out of order. Contents of files are durable after a sync, or an fsync of
// them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crash/contents.h"
#include "crash/observation.h"
#include "crash/operation.h"

namespace lazyfs::crash {

// A value: copies are cheap, they share what does not change.
class Model {
 public:
  Model();  // an empty root directory
  explicit Model(const Observation& durable);

  // `operation` succeeded; it made `made`, if anything; of a copy that is how many bytes were
  // copied. Requires that it can succeed in this state.
  void apply(const Operation& operation, std::uint64_t made);
  // The inode that a path leads to; nullopt when there is none.
  std::optional<std::uint64_t> find(std::string_view path) const;
  std::uint64_t size_of(std::string_view path) const;  // 0 for what is no file
  bool is_directory(std::string_view path) const;
  bool is_file(std::string_view path) const;
  // The inode of the `index`-th file that was opened and not forgotten since, if there are any;
  // around the end.
  std::optional<std::uint64_t> held(std::size_t index) const;

  // The same volume without what lies in other folders of the root.
  Model only(std::string_view folder) const;
  // What an observation contradicts, one sentence each. `crashed`: it was made after a crash, so
  // that contents may be older.
  std::vector<std::string> differences(const Observation& found, bool crashed) const;

 private:
  struct Node {
    std::uint32_t mode = 0;
    std::uint32_t links = 0;
    std::uint64_t parent = 0;                      // directories
    std::map<std::string, std::uint64_t> entries;  // directories
    std::string target;
    std::map<std::string, std::string> xattrs;
    Contents contents;
  };
  struct Place {
    std::uint64_t directory;
    std::string name;
  };

  const Node& node(std::uint64_t inode) const { return *nodes_.at(inode); }
  Node& change(std::uint64_t inode);
  Node& change(std::string_view path);
  Place place_of(std::string_view path) const;
  std::uint64_t at(std::string_view path) const;
  void add_name(std::string_view path, std::uint64_t inode);
  void drop_name(const Place& place);
  void make(const Operation& operation, std::uint64_t made, std::uint32_t mode);
  void rename(std::string_view from, std::string_view to);
  void exchange(std::string_view from, std::string_view to);
  void write(const Operation& operation, std::uint64_t inode);
  void change_range(const Operation& operation);
  void copy(const Operation& operation, std::uint64_t copied);
  void share(const Operation& operation);
  void sync();
  void compare(std::uint64_t inode, const Observation& found, bool crashed,
               std::vector<std::string>& differences) const;

  std::map<std::uint64_t, std::shared_ptr<const Node>> nodes_;
  std::vector<std::uint64_t> held_;
};

}  // namespace lazyfs::crash
