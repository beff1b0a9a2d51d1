// A volume that may become read-only, and writable again, while it is in use.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/mutex.h"
#include "fs/volume/volume.h"

namespace lazyfs::fs {

// make_writable() and make_read_only() end the volume and mount the same filesystem again: for
// writing, which recovers it after a crash, or for reading. Inode numbers keep their meaning, and
// callers keep their lookups. Counters begin at 0.
//
// Invariants:
//   W1  nothing is written to the device while is_writable_ is false
//   W2  volume_ has all lookups that callers hold
//   W3  an OpenFile* that open() returned while the volume was read-only is null: nothing is
//       written through it. open_files_ has all others that are not released and not detached
// Thread-safe. make_writable() and make_read_only() wait for running operations, and exclude new
// ones.
class RemountableVolume final : public Volume {
 public:
  // Opens the device of the filesystem, also while it is still open for reading. For writing it is
  // opened once at most.
  using OpenDevice = std::function<Result<std::unique_ptr<device::Device>>(bool read_only)>;

  // As Volume::mount().
  static Result<std::unique_ptr<RemountableVolume>> mount(OpenDevice open_device,
                                                          MountOptions options,
                                                          Clock& clock = system_clock());
  RemountableVolume(OpenDevice open_device, MountOptions options, Clock& clock)
      : open_device_(std::move(open_device)), clock_(clock), options_(std::move(options)) {}

  // Does nothing when the volume is writable. When the device cannot be opened for writing, or the
  // filesystem cannot be mounted, the volume continues to serve readers.
  Result<> make_writable() override EXCLUDES(mu_);
  // When the filesystem cannot be mounted again, each operation fails with kShutDown.
  Result<> make_read_only() override EXCLUDES(mu_);

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
                                                     std::size_t max_entries,
                                                     bool note_access) override;
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
                           bool note_access) override;
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
  Result<> change_options(const MountOptions& options) override EXCLUDES(mu_);
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
  template <class F>
  auto with(F&& operation);
  template <class F>
  Result<Attributes> with_lookup(F&& operation);
  template <class F>
  Result<Created> with_new_file(F&& operation);
  Result<> mount_again(bool read_only) REQUIRES(mu_);
  void note_open(OpenFile* file);
  void detach_files();

  const OpenDevice open_device_;
  Clock& clock_;

  SharedMutex mu_;  // shared by each operation; exclusive while the volume is replaced
  MountOptions options_ GUARDED_BY(mu_);
  std::unique_ptr<device::Device> device_ GUARDED_BY(mu_);
  bool is_device_writable_ GUARDED_BY(mu_) = false;
  std::unique_ptr<Volume> volume_ GUARDED_BY(mu_);  // null: it could not be mounted again
  bool is_writable_ GUARDED_BY(mu_) = false;

  Mutex lookups_mu_;  // leaf
  // Lookups that callers hold; not counted while the volume is writable.
  std::unordered_map<InodeNo, std::uint64_t> lookups_ GUARDED_BY(lookups_mu_);

  Mutex files_mu_;  // leaf
  std::unordered_set<OpenFile*> open_files_ GUARDED_BY(files_mu_);
};

}  // namespace lazyfs::fs
