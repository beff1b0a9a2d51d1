#include "fs/volume/remountable_volume.h"

#include <utility>

#include "base/log.h"
#include "fs/volume/open_file.h"

namespace lazyfs::fs {
namespace {

// The error of a sync before the volume becomes read-only. None, if an error has made it so.
Result<> before_read_only(const Result<>& synced) {
  return synced || synced.error() == Errc::kLogFailed ? ok() : synced;
}

}  // namespace

// ---- Becoming writable, and read-only -----------------------------------------------------------

Result<std::unique_ptr<RemountableVolume>> RemountableVolume::mount(OpenDevice open_device,
                                                                    MountOptions options,
                                                                    Clock& clock) {
  const bool read_only = options.read_only;
  auto volume =
      std::make_unique<RemountableVolume>(std::move(open_device), std::move(options), clock);
  WriterLock lock(volume->mu_);
  ASSIGN_OR_RETURN(volume->device_, volume->open_device_(read_only));
  volume->is_device_writable_ = !read_only;
  TRY(volume->mount_again(read_only));
  return volume;
}

Result<> RemountableVolume::mount_again(bool read_only) {
  MountOptions options = options_;
  options.read_only = read_only;
  Lookups held;
  {
    MutexLock lock(lookups_mu_);
    held.assign(lookups_.begin(), lookups_.end());
  }
  ASSIGN_OR_RETURN(volume_, Volume::mount(*device_, options, clock_, held));  // W2
  is_writable_ = !read_only;
  MutexLock lock(lookups_mu_);
  if (is_writable_) lookups_.clear();
  return ok();
}

Result<> RemountableVolume::make_writable() {
  WriterLock lock(mu_);
  if (!volume_) return fail(Errc::kShutDown);
  TRY(volume_->sync());  // fails after a shutdown or an error
  if (is_writable_) return ok();
  std::unique_ptr<device::Device> opened;
  if (!is_device_writable_) {
    ASSIGN_OR_RETURN(opened, open_device_(false));
  }
  ignore_error(volume_->unmount(), "a volume mounted for reading has nothing to write");
  volume_.reset();
  if (opened) {
    device_ = std::move(opened);
    is_device_writable_ = true;
  }
  const Result<> mounted = mount_again(false);
  if (!mounted) {
    // The device that is open for writing knows what the failed attempt has written.
    const Result<> restored = mount_again(true);
    if (!restored) log::error("mounting again for reading failed: {}", describe(restored.error()));
  }
  return mounted;
}

Result<> RemountableVolume::make_read_only() {
  // Syncs first without the lock, so that operations need not wait. After an error nothing is
  // written any more.
  const Result<> synced = sync();
  if (!synced) return before_read_only(synced);
  WriterLock lock(mu_);
  if (!volume_) return fail(Errc::kShutDown);
  if (!is_writable_) return ok();
  if (const Result<> again = volume_->sync(); !again) return before_read_only(again);
  detach_files();
  const Result<> ended = volume_->unmount();
  const Lookups held = volume_->end_lookups();
  volume_.reset();
  {
    MutexLock lookups_lock(lookups_mu_);
    lookups_.insert(held.begin(), held.end());
  }
  const Result<> mounted = mount_again(true);
  if (!mounted) log::error("mounting again for reading failed: {}", describe(mounted.error()));
  return ended ? mounted : ended;
}

void RemountableVolume::detach_files() {
  MutexLock lock(files_mu_);
  for (OpenFile* const file : open_files_) file->detach();
  open_files_.clear();
}

// ---- Operations ---------------------------------------------------------------------------------

template <class F>
auto RemountableVolume::with(F&& operation) {
  ReaderLock lock(mu_);
  using Outcome = decltype(operation(*volume_));
  if (!volume_) return Outcome(fail(Errc::kShutDown));
  return operation(*volume_);
}

// For operations that take a lookup.
template <class F>
Result<Attributes> RemountableVolume::with_lookup(F&& operation) {
  ReaderLock lock(mu_);
  if (!volume_) return fail(Errc::kShutDown);
  Result<Attributes> found = operation(*volume_);
  if (found && !is_writable_) {
    MutexLock lookups_lock(lookups_mu_);
    ++lookups_[found->inode];
  }
  return found;
}

// For operations that make and open a file.
template <class F>
Result<Created> RemountableVolume::with_new_file(F&& operation) {
  return with([&](Volume& volume) -> Result<Created> {
    ASSIGN_OR_RETURN(const Created created, operation(volume));
    note_open(created.file);
    return created;
  });
}

void RemountableVolume::note_open(OpenFile* file) {
  MutexLock lock(files_mu_);
  open_files_.insert(file);
}

Result<Attributes> RemountableVolume::lookup(InodeNo parent, std::string_view name) {
  return with_lookup([&](Volume& volume) { return volume.lookup(parent, name); });
}

Result<Attributes> RemountableVolume::lookup_inode(InodeNo inode) {
  return with_lookup([&](Volume& volume) { return volume.lookup_inode(inode); });
}

void RemountableVolume::forget(InodeNo inode, std::uint64_t lookups) {
  ReaderLock lock(mu_);
  if (!is_writable_) {
    MutexLock lookups_lock(lookups_mu_);
    const auto found = lookups_.find(inode);
    if (found != lookups_.end() && found->second > lookups) {
      found->second -= lookups;
    } else if (found != lookups_.end()) {
      lookups_.erase(found);
    }
  }
  if (volume_) volume_->forget(inode, lookups);
}

Result<OpenFile*> RemountableVolume::open(InodeNo inode) {
  ReaderLock lock(mu_);
  if (!volume_) return fail(Errc::kShutDown);
  ASSIGN_OR_RETURN(OpenFile* const file, volume_->open(inode));
  if (is_writable_) {
    note_open(file);
    return file;
  }
  volume_->release(file);
  return nullptr;  // W3
}

void RemountableVolume::release(OpenFile* file) {
  ReaderLock lock(mu_);
  if (!file) return;
  {
    MutexLock files_lock(files_mu_);
    open_files_.erase(file);
  }
  volume_ ? volume_->release(file) : delete file;  // detached: a remount has failed
}

Result<> RemountableVolume::flush(OpenFile* file) {
  return with([&](Volume& volume) { return file ? volume.flush(file) : ok(); });
}

Result<> RemountableVolume::unmount() {
  ReaderLock lock(mu_);
  return volume_ ? volume_->unmount() : ok();
}

std::string RemountableVolume::stats_json() {
  ReaderLock lock(mu_);
  return volume_ ? volume_->stats_json() : "{}";
}

VolumeInfo RemountableVolume::info() {
  ReaderLock lock(mu_);
  return volume_ ? volume_->info() : VolumeInfo{};
}

void RemountableVolume::tick() {
  ReaderLock lock(mu_);
  if (volume_) volume_->tick();
}

void RemountableVolume::shut_down() {
  ReaderLock lock(mu_);
  if (volume_) volume_->shut_down();
}

Result<Attributes> RemountableVolume::make_node(InodeNo parent, std::string_view name,
                                                std::uint32_t mode, std::uint64_t rdev,
                                                Owner owner) {
  return with([&](Volume& volume) { return volume.make_node(parent, name, mode, rdev, owner); });
}

Result<Attributes> RemountableVolume::make_directory(InodeNo parent, std::string_view name,
                                                     std::uint32_t mode, Owner owner) {
  return with([&](Volume& volume) { return volume.make_directory(parent, name, mode, owner); });
}

Result<Attributes> RemountableVolume::make_symlink(InodeNo parent, std::string_view name,
                                                   std::string_view target, Owner owner) {
  return with([&](Volume& volume) { return volume.make_symlink(parent, name, target, owner); });
}

Result<Attributes> RemountableVolume::link(InodeNo inode, InodeNo parent, std::string_view name) {
  return with([&](Volume& volume) { return volume.link(inode, parent, name); });
}

Result<> RemountableVolume::unlink(InodeNo parent, std::string_view name) {
  return with([&](Volume& volume) { return volume.unlink(parent, name); });
}

Result<> RemountableVolume::remove_directory(InodeNo parent, std::string_view name) {
  return with([&](Volume& volume) { return volume.remove_directory(parent, name); });
}

Result<> RemountableVolume::rename(InodeNo from_parent, std::string_view from_name,
                                   InodeNo to_parent, std::string_view to_name, RenameFlags flags) {
  return with([&](Volume& volume) {
    return volume.rename(from_parent, from_name, to_parent, to_name, flags);
  });
}

Result<std::string> RemountableVolume::read_link(InodeNo inode) {
  return with([&](Volume& volume) { return volume.read_link(inode); });
}

Result<std::vector<DirectoryEntry>> RemountableVolume::read_directory(
    InodeNo directory, std::uint64_t cookie, std::size_t max_entries, bool note_access) {
  return with([&](Volume& volume) {
    return volume.read_directory(directory, cookie, max_entries, note_access);
  });
}

Result<InodeNo> RemountableVolume::parent_of(InodeNo directory) {
  return with([&](Volume& volume) { return volume.parent_of(directory); });
}

Result<Attributes> RemountableVolume::get_attributes(InodeNo inode) {
  return with([&](Volume& volume) { return volume.get_attributes(inode); });
}

Result<Attributes> RemountableVolume::set_attributes(InodeNo inode, const AttributeChange& change) {
  return with([&](Volume& volume) { return volume.set_attributes(inode, change); });
}

Result<Created> RemountableVolume::create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                          Owner owner) {
  return with_new_file([&](Volume& volume) { return volume.create(parent, name, mode, owner); });
}

Result<Created> RemountableVolume::create_unnamed(InodeNo directory, std::uint32_t mode,
                                                  Owner owner) {
  return with_new_file(
      [&](Volume& volume) { return volume.create_unnamed(directory, mode, owner); });
}

Result<std::size_t> RemountableVolume::read(InodeNo inode, std::uint64_t offset,
                                            std::span<std::byte> to, bool note_access) {
  return with([&](Volume& volume) { return volume.read(inode, offset, to, note_access); });
}

Result<> RemountableVolume::write(InodeNo inode, std::uint64_t offset,
                                  std::span<const std::byte> from, WriteFlags flags) {
  return with([&](Volume& volume) { return volume.write(inode, offset, from, flags); });
}

Result<> RemountableVolume::punch(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                                  RangeFlags flags) {
  return with([&](Volume& volume) { return volume.punch(inode, offset, length, flags); });
}

Result<> RemountableVolume::zero(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                                 RangeFlags flags) {
  return with([&](Volume& volume) { return volume.zero(inode, offset, length, flags); });
}

Result<std::uint64_t> RemountableVolume::copy_range(InodeNo from, std::uint64_t from_offset,
                                                    InodeNo to, std::uint64_t to_offset,
                                                    std::uint64_t length, bool clear_set_id) {
  return with([&](Volume& volume) {
    return volume.copy_range(from, from_offset, to, to_offset, length, clear_set_id);
  });
}

Result<std::uint64_t> RemountableVolume::find_data(InodeNo inode, std::uint64_t offset) {
  return with([&](Volume& volume) { return volume.find_data(inode, offset); });
}

Result<std::uint64_t> RemountableVolume::find_hole(InodeNo inode, std::uint64_t offset) {
  return with([&](Volume& volume) { return volume.find_hole(inode, offset); });
}

Result<> RemountableVolume::fsync(InodeNo inode, OpenFile* file, bool data_only) {
  return with([&](Volume& volume) { return volume.fsync(inode, file, data_only); });
}

Result<> RemountableVolume::fsync_directory(InodeNo directory) {
  return with([&](Volume& volume) { return volume.fsync_directory(directory); });
}

Result<> RemountableVolume::sync() {
  return with([](Volume& volume) { return volume.sync(); });
}

Result<std::string> RemountableVolume::get_xattr(InodeNo inode, std::string_view name) {
  return with([&](Volume& volume) { return volume.get_xattr(inode, name); });
}

Result<bool> RemountableVolume::has_default_acl(InodeNo directory) {
  return with([&](Volume& volume) { return volume.has_default_acl(directory); });
}

Result<> RemountableVolume::set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                                      XattrMode mode) {
  return with([&](Volume& volume) { return volume.set_xattr(inode, name, value, mode); });
}

Result<> RemountableVolume::remove_xattr(InodeNo inode, std::string_view name) {
  return with([&](Volume& volume) { return volume.remove_xattr(inode, name); });
}

Result<std::vector<std::string>> RemountableVolume::list_xattrs(InodeNo inode) {
  return with([&](Volume& volume) { return volume.list_xattrs(inode); });
}

Result<SpaceReport> RemountableVolume::space() {
  return with([](Volume& volume) { return volume.space(); });
}

// Changes the options of the present volume, and of those that take its place.
Result<> RemountableVolume::change_options(const MountOptions& options) {
  WriterLock lock(mu_);
  if (!volume_) return fail(Errc::kShutDown);
  TRY(volume_->change_options(options));
  const MountOptions old = std::exchange(options_, options);
  options_.read_only = old.read_only;
  options_.on_read_only = old.on_read_only;
  options_.background = old.background;
  return ok();
}

Result<std::uint64_t> RemountableVolume::trim(const TrimRange& range) {
  return with([&](Volume& volume) { return volume.trim(range); });
}

Result<> RemountableVolume::collect_garbage() {
  return with([](Volume& volume) { return volume.collect_garbage(); });
}

Result<> RemountableVolume::grow(std::uint64_t bytes) {
  return with([&](Volume& volume) { return volume.grow(bytes); });
}

Result<gc::CleanEstimate> RemountableVolume::estimate_garbage(unsigned least_dead_percent) {
  return with([&](Volume& volume) { return volume.estimate_garbage(least_dead_percent); });
}

Result<> RemountableVolume::prepare_cleaning() {
  return with([](Volume& volume) { return volume.prepare_cleaning(); });
}

Result<gc::CleanStep> RemountableVolume::clean_step(unsigned least_dead_percent) {
  return with([&](Volume& volume) { return volume.clean_step(least_dead_percent); });
}

Result<ScrubStep> RemountableVolume::scrub(ScrubPlace from, std::size_t max_damaged) {
  return with([&](Volume& volume) { return volume.scrub(from, max_damaged); });
}

}  // namespace lazyfs::fs
