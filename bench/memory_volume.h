// A volume in memory without a device. Benchmarks use it to measure the cost of FUSE alone and to
// record traces of programs.
//
// Files keep their contents or only their sizes (reads then return zeros). Sync and fsync do
// nothing.
//
// Invariants:
//   M1  nodes_ holds every inode that has a name or a lookup, and no other
//   M2  a directory's by_name and by_cookie hold the same entries
// Thread-safe. Lock order: tree_mu_ (shared for changes of names in one directory, exclusive for
// rename and removing directories), a directory's mu, another inode's mu, a shard's mu.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "fs/volume/volume.h"

namespace lazyfs::bench {

class MemoryVolume : public fs::Volume {
 public:
  explicit MemoryVolume(bool keep_contents, Clock& clock = system_clock());
  ~MemoryVolume() override;

  Result<> unmount() override { return ok(); }
  Result<fs::Attributes> lookup(InodeNo parent, std::string_view name) override;
  void forget(InodeNo inode, std::uint64_t lookups) override;
  Result<fs::Attributes> make_node(InodeNo parent, std::string_view name, std::uint32_t mode,
                                   std::uint64_t rdev, fs::Owner owner) override;
  Result<fs::Attributes> make_directory(InodeNo parent, std::string_view name, std::uint32_t mode,
                                        fs::Owner owner) override;
  Result<fs::Attributes> make_symlink(InodeNo parent, std::string_view name,
                                      std::string_view target, fs::Owner owner) override;
  Result<fs::Attributes> link(InodeNo inode, InodeNo parent, std::string_view name) override;
  Result<> unlink(InodeNo parent, std::string_view name) override;
  Result<> remove_directory(InodeNo parent, std::string_view name) override;
  Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                  std::string_view to_name, fs::RenameFlags flags) override;
  Result<std::string> read_link(InodeNo inode) override;
  Result<std::vector<fs::DirectoryEntry>> read_directory(InodeNo directory, std::uint64_t cookie,
                                                         std::size_t max_entries,
                                                         bool note_access) override;
  Result<InodeNo> parent_of(InodeNo directory) override;
  Result<fs::Attributes> lookup_inode(InodeNo inode) override;
  Result<fs::Attributes> get_attributes(InodeNo inode) override;
  Result<fs::Attributes> set_attributes(InodeNo inode, const fs::AttributeChange& change) override;
  Result<fs::Created> create(InodeNo parent, std::string_view name, std::uint32_t mode,
                             fs::Owner owner) override;
  Result<fs::OpenFile*> open(InodeNo inode) override;
  void release(fs::OpenFile* file) override;
  Result<std::size_t> read(InodeNo inode, std::uint64_t offset, std::span<std::byte> to,
                           bool note_access) override;
  Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                 fs::WriteFlags flags) override;
  Result<> flush(fs::OpenFile*) override { return alive(); }
  Result<> fsync(InodeNo, fs::OpenFile*, bool) override { return alive(); }
  Result<> fsync_directory(InodeNo) override { return alive(); }
  Result<> sync() override { return alive(); }
  Result<> make_read_only() override { return alive(); }
  Result<> change_options(const fs::MountOptions&) override { return alive(); }
  Result<std::string> get_xattr(InodeNo inode, std::string_view name) override;
  Result<> set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                     fs::XattrMode mode) override;
  Result<> remove_xattr(InodeNo inode, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(InodeNo inode) override;
  Result<fs::SpaceReport> space() override;
  Result<fs::ScrubStep> scrub(fs::ScrubPlace, std::size_t) override { return fs::ScrubStep{}; }
  Result<> collect_garbage() override { return alive(); }
  Result<gc::CleanEstimate> estimate_garbage(unsigned) override { return gc::CleanEstimate{}; }
  Result<> prepare_cleaning() override { return alive(); }
  std::string stats_json() override;
  void tick() override {}
  void shut_down() override { dead_ = true; }

 protected:
  // Called after a node has lost its last name and its last lookup. The caller holds no node's
  // lock.
  virtual void dropped(InodeNo, std::uint32_t /*mode*/) {}

 private:
  struct Node;
  struct Entry;
  struct NameHash;
  using NodePointer = std::shared_ptr<Node>;  // shared by the table and running calls

  struct Shard {
    Mutex mu;
    std::unordered_map<InodeNo, NodePointer> nodes GUARDED_BY(mu);
  };

  Result<> alive() const;
  Shard& shard_of(InodeNo inode) { return shards_[inode.value % shards_.size()]; }
  Result<NodePointer> find(InodeNo inode);
  Result<NodePointer> find_directory(InodeNo inode);
  Result<NodePointer> make(InodeNo parent, std::string_view name, std::uint32_t mode,
                           fs::Owner owner, std::uint64_t rdev, std::string_view target);
  void insert(Node& directory, std::string_view name, const Node& child);
  void erase(Node& directory, std::string_view name);
  void drop_link(Node& node, std::uint32_t links);
  void drop_if_unused(const NodePointer& node);
  Result<> check_target(Node& source, Node& target, fs::RenameFlags flags);
  bool is_below(InodeNo inode, InodeNo ancestor);

  const bool keep_contents_;
  Clock& clock_;
  std::atomic<bool> dead_{false};
  std::atomic<std::uint64_t> last_inode_{1};
  std::atomic<std::uint64_t> files_{1};
  SharedMutex tree_mu_;
  std::array<Shard, 64> shards_;
};

}  // namespace lazyfs::bench
