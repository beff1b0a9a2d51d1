// The oracle: a model of the contents that a volume must have. A test applies every successful
// operation to the model. The model then has the exact names, and for each file the contents that
// it may have after a power cut (crash/contents.h).
//
// The model checks this promise (rule 4 of rules_test.cc): after a crash the names, types, links,
// modes, targets and attributes are those after some operation, which is the last sync or a later
// one. Nothing before that operation is missing, and nothing after it is present. The contents of a
// file are durable after a sync, or an fsync of the file.
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

// A value. Copies are cheap because they share unchanged nodes.
class Model {
 public:
  Model();  // an empty root directory
  explicit Model(const Observation& durable);

  // Applies an operation that has succeeded. `made` is the inode that it made, or the number of
  // bytes that it copied. REQUIRES: the operation can succeed in this state.
  void apply(const Operation& operation, std::uint64_t made);
  // Returns the inode of a path; nullopt if the path does not exist.
  std::optional<std::uint64_t> find(std::string_view path) const;
  std::uint64_t size_of(std::string_view path) const;  // 0 if the path is not a file
  bool is_directory(std::string_view path) const;
  bool is_file(std::string_view path) const;
  // Returns the inode of a held file: number `index` modulo the number of held files. Returns
  // nullopt if no file is held.
  std::optional<std::uint64_t> held(std::size_t index) const;

  // Returns the model without the other folders of the root.
  Model only(std::string_view folder) const;
  // Returns a sentence for each difference between `found` and the model. With `crashed`, files may
  // have older contents.
  std::vector<std::string> differences(const Observation& found, bool crashed) const;

 private:
  struct Node {
    std::uint32_t mode = 0;
    std::uint32_t links = 0;
    std::uint32_t flags = 0;
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
  void whiteout(const Operation& operation, std::uint64_t made);
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
