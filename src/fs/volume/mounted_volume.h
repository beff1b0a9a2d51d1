// The mounted volume: puts its parts together, checks that it may be used, and hands each operation
// to the part that does it.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/time_histogram.h"
#include "device/discarding.h"
#include "fs/file/counters.h"
#include "fs/file/file_copier.h"
#include "fs/file/file_ranges.h"
#include "fs/file/file_reader.h"
#include "fs/file/file_writer.h"
#include "fs/file/orphan_cleanup.h"
#include "fs/file/orphan_recovery.h"
#include "fs/file/page_reserver.h"
#include "fs/file/truncation.h"
#include "fs/file/write_back.h"
#include "fs/namespace/directory.h"
#include "fs/namespace/inode_numbers.h"
#include "fs/namespace/xattr.h"
#include "fs/space/live_data.h"
#include "fs/volume/access_times.h"
#include "fs/volume/data_device.h"
#include "fs/volume/flusher.h"
#include "fs/volume/housekeeper.h"
#include "fs/volume/open_file.h"
#include "fs/volume/scrub.h"
#include "fs/volume/space_maker.h"
#include "fs/volume/throttle.h"
#include "fs/volume/volume.h"
#include "fs/volume/volume_stats.h"
#include "gc/collector.h"
#include "gc/pacer.h"

namespace lazyfs::fs {

// Invariants:
//   V1  once shut_down() has begun, operations fail with kShutDown; once it has returned, no thread
//       of the volume runs, and nothing reaches the device, not even from operations that had begun
//       before
//   V2  a read-only volume has no threads and never writes to the device
// Thread-safe as Volume says: each part has its own locks. ending_mu_ is held while a shutdown ends
// the threads, so that a second shutdown returns after the first; nothing else takes it.
class MountedVolume final : public Volume {
 public:
  // REQUIRES: `store` is on `disk`, and the volume's counters in it can be read. Nothing else is
  // read, and nothing is written, before start().
  MountedVolume(std::unique_ptr<device::DiscardingDevice> disk, const MountOptions& options,
                Clock& clock, std::unique_ptr<meta::Store> store);
  ~MountedVolume() override;
  // Recovers the volume, then starts the threads.
  Result<> start(const Lookups& held);

  Result<> unmount() override;
  Lookups end_lookups() override;
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
                                                     std::size_t max_entries,
                                                     bool is_noted) override;
  Result<InodeNo> parent_of(InodeNo directory) override;
  Result<Attributes> lookup_inode(InodeNo inode) override;
  Result<Attributes> get_attributes(InodeNo inode) override;
  Result<Attributes> set_attributes(InodeNo inode, const AttributeChange& change) override;
  Result<Created> create(InodeNo parent, std::string_view name, std::uint32_t mode,
                         Owner owner) override;
  Result<Created> create_unnamed(InodeNo directory, std::uint32_t mode, Owner owner) override;
  Result<OpenFile*> open(InodeNo inode) override;
  void release(OpenFile* file) override;
  Result<std::size_t> read(InodeNo inode, std::uint64_t offset, std::span<std::byte> to,
                           bool is_noted) override;
  Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                 WriteFlags flags) override;
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
  Result<> change_options(const MountOptions& options) override;
  Result<std::uint64_t> trim(const TrimRange& range) override;
  Result<> collect_garbage() override;
  Result<gc::CleanEstimate> estimate_garbage(unsigned least_dead_percent) override;
  Result<> prepare_cleaning() override;
  Result<gc::CleanStep> clean_step(unsigned least_dead_percent) override;
  Result<> grow(std::uint64_t bytes) override;
  Result<ScrubStep> scrub(ScrubPlace from, std::size_t max_damaged) override;
  std::string stats_json() override;
  VolumeInfo info() override;
  void tick() override;
  void shut_down() override;

 private:
  Result<> check_usable(bool for_change) const;
  std::string state() const;
  Result<Attributes> attributes_with_lookup(const InodeRef& inode);
  Result<Attributes> make(InodeNo parent, std::string_view name, const InodeRecord& record,
                          const Directories::AddItems& add_items);
  Result<Created> open_new(const InodeRef& inode);
  void stop_threads();
  void drop_inodes();

  const bool read_only_, background_;
  Clock& clock_;
  const std::unique_ptr<device::DiscardingDevice> disk_;
  const std::unique_ptr<meta::Store> store_;
  Counters counters_;
  TimeHistogram stalls_;

  // The parts, each after those that it uses. The store uses disk_ itself: abandon() stops it.
  DataDevice device_;  // disk_
  Mutex ending_mu_;
  Mutex options_mu_;  // leaf
  MountOptions options_ GUARDED_BY(options_mu_);
  data::PagePool pages_;
  data::BandTable bands_;
  std::atomic<std::uint64_t> random_state_;
  data::Appender appender_;
  InodeTable inodes_;
  SharedExtents shared_;
  FileMaps maps_;
  OrphanCleanup orphans_;
  DirtyList dirty_;
  InodeNumbers inode_numbers_;
  Directories directories_;
  Xattrs xattrs_;
  AccessTimes access_times_;
  FileReader reader_;
  PageReserver reserver_;
  Truncation truncation_;
  OrphanRecovery recovery_;
  LiveData live_data_;
  gc::Collector collector_;
  gc::Pacer pacer_;
  Throttle throttle_;
  WriteBack write_back_;
  SpaceMaker space_maker_;
  FileWriter writer_;
  FileRanges ranges_;
  FileCopier copier_;
  Scrubber scrubber_;
  VolumeStats stats_;
  Flusher flusher_;
  Housekeeper housekeeper_;
};

}  // namespace lazyfs::fs
