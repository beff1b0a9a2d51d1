#include "fs/volume/mounted_volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "fs/namespace/acl.h"
#include "meta/log/log_layout.h"

namespace lazyfs::fs {
namespace {

data::Placement policy_of(PlacementChoice choice) {
  switch (choice) {
    case PlacementChoice::kFirst: return data::Placement::kFirstFit;
    case PlacementChoice::kBest: return data::Placement::kBestFit;
    case PlacementChoice::kAge: return data::Placement::kAgeFit;
    case PlacementChoice::kRandom: return data::Placement::kRandom;
  }
  return data::Placement::kFirstFit;
}

// xorshift64*: cheap and good enough to spread placements.
std::uint64_t next_random(std::atomic<std::uint64_t>& state) {
  std::uint64_t x = state.load(std::memory_order_relaxed);
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  state.store(x, std::memory_order_relaxed);
  return x * 0x2545F4914F6CDD1Dull;
}

}  // namespace

MountedVolume::MountedVolume(device::Device& device, const MountOptions& options, Clock& clock,
                             std::unique_ptr<meta::Store> store)
    : device_(device),
      options_(options),
      clock_(clock),
      store_(std::move(store)),
      seed_(seed_of(store_->superblock().uuid)),
      at_mount_(read_counters(*store_).value_or(CounterRecord{})),
      bands_(device.geometry(), store_->superblock().super_bands, store_->log_bands()),
      random_state_(seed_ | 1),
      appender_(device, bands_, policy_of(options.placement),
                [this] { return next_random(random_state_); }),
      reaper_([this] { wake(); }),
      inodes_(*store_, [this](InodeRef inode) { reaper_.add(std::move(inode)); }),
      shared_(*store_, inodes_),
      core_{device_, *store_, clock_,  options_, bands_,   appender_,
            pages_,  inodes_, shared_, dirty_,   counters_},
      numbers_(*store_, at_mount_.next_inode),
      directories_(*store_, inodes_, numbers_, clock_, seed_),
      xattrs_(*store_, inodes_, clock_),
      reader_(core_),
      collector_(core_),
      write_back_(
          core_, [this] { return collector_.make_room(); },
          [this](std::uint64_t blocks) { collector_.keep_up(blocks); },
          [this] {
            MutexLock lock(wake_mu_);
            pages_freed_.notify_all();
          }),
      writer_(
          core_, reader_, [this] { return make_space(); },
          [this](std::size_t bytes) { return throttle(bytes); }),
      ranges_(core_, writer_, [this] { return make_space(); }),
      copier_(core_, reader_, writer_, write_back_, numbers_),
      pacer_(bands_, options_, clock_) {}

MountedVolume::~MountedVolume() {
  stop_threads();
  while (auto inode = dirty_.take(kEver, dirty_.end())) {
  }
  reaper_.drop_all();
}

Result<std::unique_ptr<Volume>> Volume::mount(device::Device& device, const MountOptions& options,
                                              Clock& clock) {
  meta::StoreOptions store_options;
  store_options.cache_bytes = options.cache_bytes;
  store_options.background = options.background;
  store_options.read_only = options.read_only;
  ASSIGN_OR_RETURN(auto store, meta::Store::open(device, store_options));
  TRY(read_counters(*store));
  auto volume = std::make_unique<MountedVolume>(device, options, clock, std::move(store));
  TRY(volume->start());
  return volume;
}

Result<> MountedVolume::start() {
  store_->set_band_source({[this] { return bands_.take_for_log(meta::kMinLogBandBlocks); },
                           [this](BandId band) { bands_.give_back_from_log(band); }});
  TRY(recover_bands(device_, *store_, bands_, options_.read_only));
  TRY(inodes_.get(kRootInode));
  if (!options_.read_only) {
    TRY(forget_lost_ranges(*store_));
    TRY(finish_orphans());
    TRY(store_->commit());
  }
  if (options_.background && !options_.read_only) {
    writer_thread_ = std::thread([this] { run_writer(); });
    housekeeper_thread_ = std::thread([this] { run_housekeeper(); });
  }
  return ok();
}

// Ends what a crash has interrupted. What cannot be ended now does not keep anybody from mounting:
// an inode that cannot be read is left for fsck, and a file's end is freed later (I7).
Result<> MountedVolume::finish_orphans() {
  ASSIGN_OR_RETURN(const auto orphans, read_orphans(*store_));
  for (const Orphan& orphan : orphans) {
    auto inode = inodes_.get(orphan.inode);
    if (!inode) {
      log::error("orphan {}: {}", orphan.inode.value, describe(inode.error()));
      continue;
    }
    // Its last reference ends here.
    if (orphan.record.work == OrphanRecord::Work::kDelete) continue;
    const auto cut = resume_cut(core_, *inode);
    if (!cut) {
      log::warn("inode {}: what was cut off is not freed yet: {}", orphan.inode.value,
                describe(cut.error()));
    }
  }
  reaper_.run(core_);
  return ok();
}

// ---- Ending -------------------------------------------------------------------------------------

void MountedVolume::stop_threads() {
  {
    MutexLock lock(wake_mu_);
    stopping_ = true;
    wake_writer_.notify_all();
    wake_housekeeper_.notify_all();
    pages_freed_.notify_all();
    slowed_.notify_all();
  }
  if (writer_thread_.joinable()) writer_thread_.join();
  if (housekeeper_thread_.joinable()) housekeeper_thread_.join();
}

Result<> MountedVolume::unmount() {
  stop_threads();
  if (shut_down_ || options_.read_only) return options_.read_only ? store_->close() : ok();
  const Result<> written = write_back_.write_dirty(kEver, true);
  reaper_.run(core_);
  const Result<> committed = store_->commit();
  ignore_error(collector_.reset_empty_bands(), "the next mount resets what is empty");
  const Result<> closed = store_->close();
  if (!written) return written;
  return committed ? closed : committed;
}

void MountedVolume::shut_down() {
  if (shut_down_.exchange(true)) return;  // two at once: who comes first ends the threads
  stop_threads();
  store_->abandon();
}

Result<> MountedVolume::set_placement(PlacementChoice choice) {
  TRY(check_usable(true));
  appender_.set_policy(policy_of(choice));
  return ok();
}

Result<> MountedVolume::check_usable(bool for_change) const {
  if (shut_down_.load(std::memory_order_relaxed)) return fail(Errc::kShutDown);
  if (for_change && options_.read_only) return fail(Errc::kReadOnly);
  if (for_change && store_->failed()) return fail(Errc::kReadOnly);
  return ok();
}

// ---- Names --------------------------------------------------------------------------------------

Result<Attributes> MountedVolume::attributes_with_lookup(const InodeRef& inode) {
  inodes_.take_lookup(*inode);
  ReaderLock lock(inode->mu);
  return attributes_of(*inode, *store_);
}

Result<Attributes> MountedVolume::lookup(InodeNo parent, std::string_view name) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.lookup(parent, name));
  return attributes_with_lookup(inode);
}

void MountedVolume::forget(InodeNo inode, std::uint64_t lookups) {
  if (inode == kRootInode) return;
  inodes_.give_back_lookups(inode, lookups);
}

Result<Attributes> MountedVolume::make(InodeNo parent, std::string_view name,
                                       const InodeRecord& record,
                                       const Directories::Extras& extras) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.make(parent, name, record, extras));
  return attributes_with_lookup(inode);
}

// A directory's default access control list becomes a new file's list, its mode narrowed by it, and
// a new directory's default list too. The kernel keeps the directory from changing meanwhile.
Result<Directories::Extras> MountedVolume::inherit_acl(InodeNo parent, InodeRecord& record) {
  ASSIGN_OR_RETURN(const InodeRef directory, inodes_.get(parent));
  std::string inherited;
  {
    ReaderLock lock(directory->mu);
    if (directory->record.xattrs == 0) return Directories::Extras{};
    auto value = xattrs_.get_locked(*directory, kDefaultAcl);
    if (!value && value.error() == Errc::kNoAttribute) return Directories::Extras{};
    if (!value) return fail(value.error());
    inherited = std::move(*value);
  }
  ASSIGN_OR_RETURN(Acl acl, decode_acl(inherited));
  acl = inherited_acl(std::move(acl), record.mode);
  record.mode = mode_with(record.mode, acl);
  std::vector<std::pair<std::string_view, std::string>> lists;
  if (!is_minimal(acl)) lists.emplace_back(kAccessAcl, encode(acl));
  if (S_ISDIR(record.mode)) lists.emplace_back(kDefaultAcl, std::move(inherited));
  record.xattrs = static_cast<std::uint32_t>(lists.size());
  return [lists = std::move(lists)](InodeNo inode, meta::Batch& batch) {
    std::uint64_t id = 0;
    for (const auto& [name, value] : lists) put_xattr(batch, inode, ++id, name, value);
  };
}

Result<Attributes> MountedVolume::make_node(InodeNo parent, std::string_view name,
                                            std::uint32_t mode, std::uint64_t rdev, Owner owner) {
  if (S_ISDIR(mode)) return fail(Errc::kInvalid);
  if ((mode & S_IFMT) == 0) mode |= S_IFREG;
  InodeRecord record;
  record.mode = mode;
  record.owner = owner;
  record.rdev = rdev;
  ASSIGN_OR_RETURN(const auto extras, inherit_acl(parent, record));
  return make(parent, name, record, extras);
}

Result<Attributes> MountedVolume::make_directory(InodeNo parent, std::string_view name,
                                                 std::uint32_t mode, Owner owner) {
  InodeRecord record;
  record.mode = S_IFDIR | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto extras, inherit_acl(parent, record));
  return make(parent, name, record, extras);
}

Result<Attributes> MountedVolume::make_symlink(InodeNo parent, std::string_view name,
                                               std::string_view target, Owner owner) {
  if (target.empty()) return fail(Errc::kNotFound);
  if (target.size() > kMaxSymlinkBytes) return fail(Errc::kNameTooLong);
  InodeRecord record;
  record.mode = S_IFLNK | 0777;
  record.owner = owner;
  record.size = target.size();
  return make(parent, name, record, [target](InodeNo inode, meta::Batch& batch) {
    std::string_view rest = target;
    for (std::uint64_t piece = 0; !rest.empty(); ++piece) {
      const auto part = rest.substr(0, meta::kMaxValueBytes);
      batch.put(key_of(inode, Kind::kSymlink, piece), std::as_bytes(std::span(part)));
      rest.remove_prefix(part.size());
    }
  });
}

Result<std::string> MountedVolume::read_link(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  std::string target;
  {
    ReaderLock lock(inode->mu);
    if (!S_ISLNK(inode->record.mode)) return fail(Errc::kInvalid);
    ASSIGN_OR_RETURN(
        const auto items,
        store_->scan(key_of(number, Kind::kSymlink),
                     key_of(number, Kind::kSymlink, meta::kMaxOffset), kMaxSymlinkBytes));
    for (const meta::Item& item : items) {
      // Pieces are full but for the last: what a repair takes for damage is not read either.
      const bool is_next = target.size() % meta::kMaxValueBytes == 0 &&
                           target.size() / meta::kMaxValueBytes == item.key.offset;
      if (!is_next) return fail(Errc::kItemBad);
      target.append(reinterpret_cast<const char*>(item.value.data()), item.value.size());
    }
    if (target.size() != inode->record.size) return fail(Errc::kItemBad);
  }
  note_access(inode);
  return target;
}

Result<Attributes> MountedVolume::link(InodeNo number, InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.link(number, parent, name));
  return attributes_with_lookup(inode);
}

Result<> MountedVolume::unlink(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  pacer_.note_request();
  last_unlink_ns_ = clock_.monotonic().count();
  return directories_.unlink(parent, name);
}

Result<> MountedVolume::remove_directory(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  return directories_.remove_directory(parent, name);
}

Result<> MountedVolume::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                               std::string_view to_name, RenameFlags flags) {
  TRY(check_usable(true));
  pacer_.note_request();
  last_unlink_ns_ = clock_.monotonic().count();  // what had the new name may be gone
  return directories_.rename(from_parent, from_name, to_parent, to_name, flags);
}

Result<std::vector<DirectoryEntry>> MountedVolume::read_directory(InodeNo directory,
                                                                  std::uint64_t cookie,
                                                                  std::size_t max_entries) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(auto entries, directories_.read(directory, cookie, max_entries));
  if (cookie == 0 && options_.directory_access_time) {
    ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(directory));
    note_access(inode);
  }
  return entries;
}

Result<InodeNo> MountedVolume::parent_of(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  if (!S_ISDIR(inode->record.mode)) return fail(Errc::kNotDirectory);
  return inode->record.parent;
}

Result<Attributes> MountedVolume::lookup_inode(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  {
    ReaderLock lock(inode->mu);
    const bool waits_to_be_deleted = inode->record.links == 0;
    if (waits_to_be_deleted || inode->record.mode == kSharedMode) return fail(Errc::kStale);
  }
  return attributes_with_lookup(inode);
}

// ---- Extended attributes ------------------------------------------------------------------------

Result<std::string> MountedVolume::get_xattr(InodeNo inode, std::string_view name) {
  TRY(check_usable(false));
  return xattrs_.get(inode, name);
}

Result<bool> MountedVolume::has_default_acl(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  const auto value = xattrs_.get_locked(*inode, kDefaultAcl);
  if (value || value.error() == Errc::kNoAttribute) return value.has_value();
  return fail(value.error());
}

Result<> MountedVolume::set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                                  XattrMode mode) {
  TRY(check_usable(true));
  return xattrs_.set(inode, name, value, mode);
}

Result<> MountedVolume::remove_xattr(InodeNo inode, std::string_view name) {
  TRY(check_usable(true));
  return xattrs_.remove(inode, name);
}

Result<std::vector<std::string>> MountedVolume::list_xattrs(InodeNo inode) {
  TRY(check_usable(false));
  return xattrs_.list(inode);
}

}  // namespace lazyfs::fs
