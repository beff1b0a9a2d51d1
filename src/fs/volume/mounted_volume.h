// The volume: its parts put together, its threads, and each operation handed to the part that does
// it.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "fs/space/collector.h"
#include "fs/file/core.h"
#include "fs/namespace/directory.h"
#include "fs/file/file_copier.h"
#include "fs/file/file_ranges.h"
#include "fs/file/file_reader.h"
#include "fs/file/file_writer.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/space/pacer.h"
#include "fs/file/reaper.h"
#include "fs/volume/recovery.h"
#include "fs/volume/volume.h"
#include "fs/file/write_back.h"
#include "fs/namespace/xattr.h"

namespace lazyfs::fs {

struct OpenFile {
  InodeRef inode;
  std::atomic<std::uint64_t> errors_seen{0};  // of Inode::write_errors
};

// Threads, when options.background:
//   writer       writes back what is old, or what memory needs; commits every commit_interval
//   housekeeper  deletes unnamed inodes, resets empty bands, collects garbage by urgency
// Lock order: ARCHITECTURE.md. wake_mu_ is a leaf.
class MountedVolume final : public Volume {
 public:
  MountedVolume(device::Device& device, const MountOptions& options, Clock& clock,
                std::unique_ptr<meta::Store> store);
  ~MountedVolume() override;
  Result<> start();

  Result<> unmount() override;
  Result<Attributes> lookup(InodeNo parent, std::string_view name) override;
  void forget(InodeNo inode, std::uint64_t lookups) override;
  Result<Attributes> make_node(InodeNo parent, std::string_view name, std::uint32_t mode,
                               std::uint64_t rdev, Owner owner) override;
  Result<Attributes> make_directory(InodeNo parent, std::string_view name, std::uint32_t mode,
                                    Owner owner) override;
  Result<Attributes> make_symlink(InodeNo parent, std::string_view name, std::string_view target,
                                  Owner owner) override;
  Result<Attributes> link(InodeNo inode, InodeNo parent, std::string_view name) override;
  Result<> unlink(InodeNo parent, std::string_view name) override;
  Result<> remove_directory(InodeNo parent, std::string_view name) override;
  Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                  std::string_view to_name, RenameFlags flags) override;
  Result<std::string> read_link(InodeNo inode) override;
  Result<std::vector<DirectoryEntry>> read_directory(InodeNo directory, std::uint64_t cookie,
                                                     std::size_t max_entries) override;
  Result<InodeNo> parent_of(InodeNo directory) override;
  Result<Attributes> lookup_inode(InodeNo inode) override;
  Result<Attributes> get_attributes(InodeNo inode) override;
  Result<Attributes> set_attributes(InodeNo inode, const AttributeChange& change) override;
  Result<Created> create(InodeNo parent, std::string_view name, std::uint32_t mode,
                         Owner owner) override;
  Result<Created> create_unnamed(InodeNo directory, std::uint32_t mode, Owner owner) override;
  Result<OpenFile*> open(InodeNo inode) override;
  void release(OpenFile* file) override;
  Result<std::size_t> read(InodeNo inode, std::uint64_t offset, std::span<std::byte> to) override;
  Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                 bool clear_set_id) override;
  Result<> allocate(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                    RangeFlags flags) override;
  Result<> punch(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                 RangeFlags flags) override;
  Result<> zero(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                RangeFlags flags) override;
  Result<std::uint64_t> copy_range(InodeNo from, std::uint64_t from_offset, InodeNo to,
                                   std::uint64_t to_offset, std::uint64_t length,
                                   bool clear_set_id) override;
  Result<std::uint64_t> find_data(InodeNo inode, std::uint64_t offset) override;
  Result<std::uint64_t> find_hole(InodeNo inode, std::uint64_t offset) override;
  Result<> flush(OpenFile* file) override;
  Result<> fsync(InodeNo inode, OpenFile* file, bool data_only) override;
  Result<> fsync_directory(InodeNo directory) override;
  Result<> sync() override;
  Result<std::string> get_xattr(InodeNo inode, std::string_view name) override;
  Result<bool> has_default_acl(InodeNo directory) override;
  Result<> set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                     XattrMode mode) override;
  Result<> remove_xattr(InodeNo inode, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(InodeNo inode) override;
  Result<SpaceReport> space() override;
  Result<> set_placement(PlacementChoice choice) override;
  Result<> collect_garbage() override;
  Result<ScrubStep> scrub(ScrubPlace from, std::size_t max_damaged) override;
  std::string stats_json() override;
  void tick() override;
  void shut_down() override;

 private:
  Result<> check_usable(bool for_change) const;
  Result<Attributes> attributes_with_lookup(const InodeRef& inode);
  Result<Attributes> make(InodeNo parent, std::string_view name, const InodeRecord& record,
                          const Directories::Extras& extras = {});
  Result<Directories::Extras> inherit_acl(InodeNo parent, InodeRecord& record);
  Result<> change_inode(const InodeRef& inode, const AttributeChange& change);
  void note_access(const InodeRef& inode);
  Result<> report_errors(OpenFile* file);
  Result<> finish_orphans();

  Result<> throttle(std::size_t bytes);
  Result<> wait_for_memory();
  void note_stall(std::chrono::nanoseconds start);
  bool make_space();
  void write_old(bool everything);
  void tell_if_read_only();
  bool keep_house(bool asked);
  void run_writer();
  void run_housekeeper();
  void stop_threads();
  void wake();

  device::Device& device_;
  const MountOptions options_;
  Clock& clock_;
  const std::unique_ptr<meta::Store> store_;
  const std::uint64_t seed_;
  const CounterRecord at_mount_;
  Counters counters_;

  data::PagePool pages_;
  data::BandTable bands_;
  std::atomic<std::uint64_t> random_state_;
  data::Appender appender_;
  Reaper reaper_;
  InodeTable inodes_;
  SharedInodes shared_;
  DirtyList dirty_;
  const Core core_;
  InodeNumbers numbers_;
  Directories directories_;
  Xattrs xattrs_;
  FileReader reader_;
  Collector collector_;
  WriteBack write_back_;
  FileWriter writer_;
  FileRanges ranges_;
  FileCopier copier_;
  Pacer pacer_;

  std::atomic<bool> shut_down_{false};
  std::atomic<bool> told_read_only_{false};
  std::atomic<std::int64_t> last_unlink_ns_{std::numeric_limits<std::int64_t>::min() / 2};
  Mutex wake_mu_;
  CondVar wake_writer_, wake_housekeeper_, pages_freed_, slowed_;
  bool stopping_ GUARDED_BY(wake_mu_) = false;
  bool work_waiting_ GUARDED_BY(wake_mu_) = false;
  std::uint64_t passes_ GUARDED_BY(wake_mu_) = 0;  // of writing back that have ended
  Result<> last_pass_ GUARDED_BY(wake_mu_) = ok();
  std::thread writer_thread_, housekeeper_thread_;
};

}  // namespace lazyfs::fs
