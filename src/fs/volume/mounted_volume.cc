#include "fs/volume/mounted_volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/size.h"
#include "fs/file/file_attributes.h"
#include "fs/file/protected_contents.h"
#include "fs/inode/protection.h"
#include "fs/namespace/acl.h"
#include "fs/namespace/new_inode.h"
#include "fs/volume/attribute_changes.h"
#include "fs/volume/recovery.h"
#include "fs/volume/volume_info.h"
#include "meta/log/log_layout.h"

namespace lazyfs::fs {
namespace {

// xorshift64*: cheap and good enough to spread placements.
std::uint64_t next_random(std::atomic<std::uint64_t>& state) {
  std::uint64_t x = state.load(std::memory_order_relaxed);
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  state.store(x, std::memory_order_relaxed);
  return x * 0x2545F4914F6CDD1Dull;
}

// REQUIRES: they can be read.
CounterRecord counters_of(meta::Store& store) {
  return read_counters(store).value_or(CounterRecord{});
}

constexpr std::uint64_t kFilesABlock = 8;
// Batches of deletion that an unmount waits for: some seconds. The next mount continues.
constexpr std::size_t kBatchesAtUnmount = 1024;

AccessTimes::Mode access_times_of(const MountOptions& options) {
  return {options.read_only ? AccessTime::kNone : options.access_time,
          options.directory_access_time};
}

gc::PacerOptions pacer_options_of(const MountOptions& options) {
  return {.on_idle = options.gc_idle,
          .on_space = options.gc_space,
          .low_percent = static_cast<std::uint8_t>(options.gc_low_percent),
          .high_percent = static_cast<std::uint8_t>(options.gc_high_percent),
          .idle = {.quiet_for = options.gc_idle_after,
                   .rate_below = static_cast<double>(options.gc_idle_rate) / kBlockBytes}};
}

}  // namespace

MountedVolume::MountedVolume(std::unique_ptr<device::DiscardingDevice> disk,
                             const MountOptions& options, Clock& clock,
                             std::unique_ptr<meta::Store> store)
    : read_only_(options.read_only),
      background_(options.background),
      clock_(clock),
      disk_(std::move(disk)),
      store_(std::move(store)),
      device_(*disk_),
      options_(options),
      bands_(device_.ahead.geometry(), store_->superblock().super_bands, store_->log_bands()),
      random_state_(seed_of(store_->superblock().uuid) | 1),
      appender_(device_.ahead, bands_, options.placement,
                [this] { return next_random(random_state_); }),
      inodes_(*store_, [this](Unnamed inode) { orphans_.add(std::move(inode)); }),
      shared_(*store_, inodes_),
      maps_(*store_, bands_, shared_),
      orphans_(*store_, inodes_, maps_, bands_, clock_, [this] { housekeeper_.wake(); }),
      inode_numbers_(*store_, counters_of(*store_).next_inode),
      directories_(*store_, inodes_, inode_numbers_, clock_,
                   seed_of(store_->superblock().uuid)),
      xattrs_(*store_, inodes_, clock_),
      access_times_(dirty_, clock_, access_times_of(options)),
      reader_(device_.ahead, *store_, bands_, shared_, counters_, options.background),
      reserver_(*store_, shared_, bands_,
                {.throttle = [this](const Inode& file, std::size_t bytes) {
                   return throttle_.admit(file, bytes);
                 },
                 .make_space = [this] { return space_maker_.make_space(); }}),
      truncation_(*store_, maps_, reader_, reserver_, bands_, pages_, dirty_, clock_),
      recovery_(*store_, inodes_, truncation_, clock_),
      live_data_(*store_, inodes_, bands_),
      collector_(live_data_, device_.ahead, bands_, appender_, clock_, options.clean),
      pacer_(bands_, pacer_options_of(options), clock_),
      throttle_(pacer_, pages_, *store_, clock_, stalls_, options.dirty_bytes, options.background,
                {.write_back_soon = [this] { flusher_.wake(); },
                 .clean_soon = [this] { housekeeper_.wake(); },
                 .write_back = [this] { return write_back_.write_dirty(kEver); }}),
      write_back_(*store_, inodes_, maps_, truncation_, bands_, appender_, pages_, dirty_,
                  counters_, clock_,
                  {.make_room = [this] { return collector_.make_room(); },
                   .keep_up = [this](std::uint64_t blocks) { collector_.help(blocks); },
                   .progress = [this] { throttle_.pages_freed(); }},
                  options.background),
      space_maker_(*store_, bands_, orphans_, recovery_, write_back_, collector_, throttle_,
                   stalls_, clock_, options.background),
      writer_(reader_, truncation_, reserver_, pages_, dirty_, clock_),
      ranges_(*store_, maps_, writer_, truncation_, bands_, dirty_, clock_),
      copier_(*store_, maps_, reader_, writer_, truncation_, write_back_, bands_, counters_, clock_,
              [this] { return meta::when_room(*store_, [&] { return inode_numbers_.take(); }); }),
      scrubber_(device_.switched, *store_, bands_, inodes_, shared_, counters_),
      stats_(*store_, bands_, appender_, pages_, dirty_, inodes_, orphans_, collector_, counters_,
             counters_of(*store_), stalls_, *disk_),
      flusher_(*store_, write_back_, throttle_, clock_, options.commit_interval,
               options.on_read_only),
      housekeeper_(bands_, orphans_, recovery_, collector_, pacer_, *disk_, clock_) {}

MountedVolume::~MountedVolume() {
  stop_threads();
  drop_inodes();
}

void MountedVolume::drop_inodes() {
  while (auto inode = dirty_.take(kEver, dirty_.end())) {
  }
  orphans_.drop_all();
}

Result<std::unique_ptr<Volume>> Volume::mount(device::Device& device, const MountOptions& options,
                                              Clock& clock, const Lookups& held) {
  if (!options.read_only && !data::allows_enough_open_bands(device.capabilities())) {
    return fail(Errc::kFewOpenBands);
  }
  meta::StoreOptions store_options;
  store_options.cache_bytes = options.cache_bytes;
  store_options.background = options.background;
  store_options.read_only = options.read_only;
  store_options.mount_seconds =
      static_cast<std::uint64_t>(std::max<std::int64_t>(clock.now().seconds, 0));
  const auto report = [name = device.name()](Errc error) {
    log::info("{}: bands are reset, but not discarded: {}", name, describe(error));
  };
  const bool discards = options.discard && device.capabilities().discards;
  auto disk = std::make_unique<device::DiscardingDevice>(device, discards, report);
  ASSIGN_OR_RETURN(auto store, meta::Store::open(*disk, store_options));
  TRY(read_counters(*store));
  auto volume = std::make_unique<MountedVolume>(std::move(disk), options, clock, std::move(store));
  TRY(volume->start(held));
  return volume;
}

Result<> MountedVolume::start(const Lookups& held) {
  for (const auto& [inode, count] : held) inodes_.adopt_lookups(inode, count);
  store_->promise_with([this] { return bands_.space().reserved; });
  store_->set_band_source({[this] { return bands_.take_for_log(meta::kMinLogBandBlocks); },
                           [this](BandId band) { bands_.give_back_from_log(band); }});
  const std::uint64_t log_blocks = store_->stats().log_blocks_after_checkpoint;
  ASSIGN_OR_RETURN(const RecoveredBands recovered,
                   recover_bands(device_.ahead, *store_, bands_, read_only_));
  TRY(inodes_.get(kRootInode));
  if (read_only_) return ok();
  appender_.seal_surplus();
  TRY(erase_lost_ranges(*store_));
  TRY(recovery_.begin());
  TRY(store_->commit());
  if (!store_->was_clean()) {
    log::info("recovered after a crash: {} of the log read, {} blocks in {} bands given up, {} "
              "bands reset",
              size_text(log_blocks * kBlockBytes), recovered.lost_blocks,
              recovered.with_lost_blocks, recovered.reset);
  }
  if (background_) {
    TRY(flusher_.start());
    TRY(housekeeper_.start());
    if (recovery_.is_due()) housekeeper_.wake();
  }
  return ok();
}

// ---- Ending -------------------------------------------------------------------------------------

void MountedVolume::stop_threads() {
  throttle_.stop();
  flusher_.stop();
  housekeeper_.stop();
}

Result<> MountedVolume::unmount() {
  stop_threads();
  if (device_.switched.is_off()) return ok();
  if (read_only_) return store_->close();
  const Result<> written = write_back_.write_dirty(kEver, WriteBack::Which::kAll);
  orphans_.run(kBatchesAtUnmount);
  const Result<> committed = store_->commit();
  ignore_error(collector_.reset_empty_bands(), "the next mount resets what is empty");
  // A band that was set aside may have been written past what is recorded of it.
  store_->set_data_ends_known(bands_.bad_bands().empty());
  const Result<> closed = store_->close();
  if (closed) disk_->discard_ready();
  if (!written) return written;
  return committed ? closed : committed;
}

Lookups MountedVolume::end_lookups() {
  drop_inodes();
  return inodes_.lookups();
}

void MountedVolume::shut_down() {
  device_.switched.switch_off();
  MutexLock lock(ending_mu_);
  stop_threads();
  store_->abandon();
}

Result<> MountedVolume::check_usable(bool for_change) const {
  if (device_.switched.is_off()) return fail(Errc::kShutDown);
  if (for_change && read_only_) return fail(Errc::kReadOnly);
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
                                       const Directories::AddItems& add_items) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, space_maker_.with_log_room([&] {
    return directories_.make(parent, name, record, add_items);
  }));
  return attributes_with_lookup(inode);
}

Result<Attributes> MountedVolume::make_node(InodeNo parent, std::string_view name,
                                            std::uint32_t mode, std::uint64_t rdev, Owner owner) {
  if (S_ISDIR(mode)) return fail(Errc::kInvalid);
  if ((mode & S_IFMT) == 0) mode |= S_IFREG;
  InodeRecord record;
  record.mode = mode;
  record.owner = owner;
  record.rdev = rdev;
  ASSIGN_OR_RETURN(const auto add_items, inherit_acl(inodes_, xattrs_, parent, record));
  return make(parent, name, record, add_items);
}

Result<Attributes> MountedVolume::make_directory(InodeNo parent, std::string_view name,
                                                 std::uint32_t mode, Owner owner) {
  InodeRecord record;
  record.mode = S_IFDIR | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto add_items, inherit_acl(inodes_, xattrs_, parent, record));
  return make(parent, name, record, add_items);
}

Result<Attributes> MountedVolume::make_symlink(InodeNo parent, std::string_view name,
                                               std::string_view target, Owner owner) {
  if (target.empty()) return fail(Errc::kNotFound);
  if (target.size() > kMaxSymlinkBytes) return fail(Errc::kNameTooLong);
  InodeRecord record;
  record.mode = S_IFLNK | 0777;
  record.owner = owner;
  record.size = target.size();
  return make(parent, name, record, symlink_target(target));
}

Result<std::string> MountedVolume::read_link(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ASSIGN_OR_RETURN(std::string target, read_symlink(*store_, *inode));
  access_times_.note(inode);
  return target;
}

Result<Attributes> MountedVolume::link(InodeNo number, InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, space_maker_.with_log_room([&] {
    return directories_.link(number, parent, name);
  }));
  return attributes_with_lookup(inode);
}

Result<> MountedVolume::unlink(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  pacer_.note_request();
  space_maker_.note_unlink();
  orphans_.help();
  return space_maker_.with_log_room([&] { return directories_.unlink(parent, name); });
}

Result<> MountedVolume::remove_directory(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  return space_maker_.with_log_room([&] { return directories_.remove_directory(parent, name); });
}

Result<> MountedVolume::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                               std::string_view to_name, RenameFlags flags) {
  TRY(check_usable(true));
  pacer_.note_request();
  space_maker_.note_unlink();  // the inode that had the new name
  return space_maker_.with_log_room(
      [&] { return directories_.rename(from_parent, from_name, to_parent, to_name, flags); });
}

Result<std::vector<DirectoryEntry>> MountedVolume::read_directory(InodeNo directory,
                                                                  std::uint64_t cookie,
                                                                  std::size_t max_entries,
                                                                  bool is_noted) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(auto entries, directories_.read(directory, cookie, max_entries));
  if (is_noted && cookie == 0) {
    ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(directory));
    access_times_.note_directory(inode);
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
  ASSIGN_OR_RETURN(const LookedUp inode, inodes_.look_up(number));
  ReaderLock lock(inode->mu);
  return attributes_of(*inode, *store_);
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
  return space_maker_.with_log_room([&] { return xattrs_.set(inode, name, value, mode); });
}

Result<> MountedVolume::remove_xattr(InodeNo inode, std::string_view name) {
  TRY(check_usable(true));
  return space_maker_.with_log_room([&] { return xattrs_.remove(inode, name); });
}

Result<std::vector<std::string>> MountedVolume::list_xattrs(InodeNo inode) {
  TRY(check_usable(false));
  return xattrs_.list(inode);
}

// ---- Attributes ---------------------------------------------------------------------------------

Result<Attributes> MountedVolume::get_attributes(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  return attributes_of(*inode, *store_);
}

Result<Attributes> MountedVolume::set_attributes(InodeNo number, const AttributeChange& change) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  {
    ReaderLock lock(inode->mu);
    TRY(check_change(inode->record, change));
    if (is_ignored(inode->record, change)) return attributes_of(*inode, *store_);
    if (change.size && S_ISDIR(inode->record.mode)) return fail(Errc::kIsDirectory);
  }
  if (change.size) {
    TRY(space_maker_.with_log_room([&] { return truncation_.set_size(inode, *change.size); }));
  }
  const bool others = change.mode || change.flags || change.uid || change.gid || change.access ||
                      change.modification || change.change || change.access_now ||
                      change.modification_now || change.clear_set_id;
  if (others) {
    TRY(space_maker_.with_log_room(
        [&] { return change_attributes(*store_, xattrs_, clock_, *inode, change); }));
  }
  ReaderLock lock(inode->mu);
  return attributes_of(*inode, *store_);
}

// ---- Files --------------------------------------------------------------------------------------

Result<Created> MountedVolume::open_new(const InodeRef& inode) {
  auto file = std::make_unique<OpenFile>(inode);  // before the lookup, which nobody could give back
  ASSIGN_OR_RETURN(const Attributes attributes, attributes_with_lookup(inode));
  return Created{attributes, file.release()};
}

Result<Created> MountedVolume::create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                      Owner owner) {
  TRY(check_usable(true));
  InodeRecord record;
  record.mode = S_IFREG | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto add_items, inherit_acl(inodes_, xattrs_, parent, record));
  ASSIGN_OR_RETURN(const InodeRef inode, space_maker_.with_log_room([&] {
    return directories_.make(parent, name, record, add_items);
  }));
  return open_new(inode);
}

Result<Created> MountedVolume::create_unnamed(InodeNo directory, std::uint32_t mode, Owner owner) {
  TRY(check_usable(true));
  InodeRecord record;
  record.mode = S_IFREG | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto add_items, inherit_acl(inodes_, xattrs_, directory, record));
  ASSIGN_OR_RETURN(const InodeRef inode, space_maker_.with_log_room([&] {
    return directories_.make_unnamed(directory, record, add_items);
  }));
  return open_new(inode);
}

Result<OpenFile*> MountedVolume::open(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return new OpenFile(inode);
}

void MountedVolume::release(OpenFile* file) { delete file; }

Result<std::size_t> MountedVolume::read(InodeNo number, std::uint64_t offset,
                                        std::span<std::byte> to, bool is_noted) {
  TRY(check_usable(false));
  pacer_.note_request();
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ASSIGN_OR_RETURN(const std::size_t length, reader_.read(*inode, offset, to));
  if (is_noted) access_times_.note(inode);
  return length;
}

Result<> MountedVolume::write(InodeNo number, std::uint64_t offset, std::span<const std::byte> from,
                              WriteFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  TRY(check_write(reader_, *inode, offset, from));
  // A write that grows a file over a pending truncation finishes it.
  return space_maker_.with_log_room([&] { return writer_.write(inode, offset, from, flags); });
}

Result<> MountedVolume::punch(InodeNo number, std::uint64_t offset, std::uint64_t length,
                              RangeFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  TRY(check_contents(*inode));
  return space_maker_.with_log_room(
      [&] { return ranges_.punch(inode, offset, length, flags); });
}

Result<> MountedVolume::zero(InodeNo number, std::uint64_t offset, std::uint64_t length,
                             RangeFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  TRY(check_contents(*inode));
  return space_maker_.with_log_room(
      [&] { return ranges_.zero(inode, offset, length, flags); });
}

Result<std::uint64_t> MountedVolume::copy_range(InodeNo from_number, std::uint64_t from_offset,
                                                InodeNo to_number, std::uint64_t to_offset,
                                                std::uint64_t length, bool clear_set_id) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef from, inodes_.get(from_number));
  ASSIGN_OR_RETURN(const InodeRef to, inodes_.get(to_number));
  TRY(check_contents(*to));
  ASSIGN_OR_RETURN(const std::uint64_t copied, space_maker_.with_log_room([&] {
    return copier_.copy({from, from_offset}, {to, to_offset}, length, clear_set_id);
  }));
  if (copied > 0) access_times_.note(from);
  return copied;
}

Result<std::uint64_t> MountedVolume::find_data(InodeNo number, std::uint64_t offset) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return ranges_.find_data(*inode, offset);
}

Result<std::uint64_t> MountedVolume::find_hole(InodeNo number, std::uint64_t offset) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return ranges_.find_hole(*inode, offset);
}

Result<> MountedVolume::flush(OpenFile* file) { return file->pending_error(); }

Result<> MountedVolume::fsync(InodeNo number, OpenFile* file, bool) {
  TRY(check_usable(false));
  if (read_only_) return ok();
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  const Result<> written = write_back_.write_inode(inode, InlineRule::kLastParts);
  const Result<> reported = file ? file->take_error() : ok();
  TRY(written);
  TRY(store_->commit());
  return reported;
}

Result<> MountedVolume::fsync_directory(InodeNo) {
  TRY(check_usable(false));
  return read_only_ ? ok() : store_->commit();
}

Result<> MountedVolume::sync() {
  TRY(check_usable(false));
  if (read_only_) return ok();
  const Result<> written = write_back_.write_dirty(kEver, WriteBack::Which::kAll);
  TRY(store_->commit());
  return written;
}

// ---- Space, and work on the whole volume --------------------------------------------------------

Result<SpaceReport> MountedVolume::space() {
  TRY(check_usable(false));
  const OrphanCleanup::Waiting waiting = orphans_.waiting();  // pending deletions count as free
  const data::SpaceCounts counts = bands_.space();
  SpaceReport report;
  report.total_blocks = counts.capacity;
  report.free_blocks = report.available_blocks =
      std::min(counts.capacity, counts.available + waiting.blocks);
  ASSIGN_OR_RETURN(const CounterRecord counters, read_counters(*store_));
  // An inode takes some hundred bytes of the log, which grows as long as bands are free.
  report.free_files = report.free_blocks * kFilesABlock;
  report.total_files =
      counters.inodes - std::min(counters.inodes, waiting.inodes) + report.free_files;
  return report;
}

Result<> MountedVolume::change_options(const MountOptions& options) {
  TRY(check_usable(false));
  appender_.set_policy(options.placement);
  collector_.set_mode(options.clean);
  pacer_.set_options(pacer_options_of(options));
  throttle_.set_limit(options.dirty_bytes);
  flusher_.set_commit_interval(options.commit_interval);
  store_->set_cache_bytes(options.cache_bytes);
  disk_->set_on(options.discard);
  MutexLock lock(options_mu_);
  options_ = options;
  options_.read_only = read_only_;
  access_times_.set_mode(access_times_of(options_));
  return ok();
}

Result<std::uint64_t> MountedVolume::trim(const TrimRange& range) {
  TRY(check_usable(true));
  orphans_.run();
  ignore_error(collector_.reset_empty_bands(), "logged; the bands that are free are discarded");
  TRY(store_->commit());
  TRY(device_.ahead.flush());
  return trim_free_bands(device_.ahead, bands_, range);
}

Result<> MountedVolume::collect_garbage() {
  TRY(check_usable(true));
  return space_maker_.collect_garbage();
}

// The superblock counts the new bands before anything is written to them: from then on an older
// copy of the device's header, which knows fewer, does not open the volume.
Result<> MountedVolume::grow(std::uint64_t bytes) {
  TRY(check_usable(true));
  const Result<> grown = device_.ahead.grow(bytes);
  // An earlier attempt may have enlarged the device and failed then.
  const bool has_new = device_.ahead.geometry().band_count() > bands_.band_count();
  if (!grown && (grown.error() != Errc::kGrowNoRoom || !has_new)) return grown;
  TRY(store_->extend());
  bands_.add_new(device_.ahead.geometry());
  return ok();
}

Result<gc::CleanEstimate> MountedVolume::estimate_garbage(unsigned least_dead_percent) {
  TRY(check_usable(false));
  return collector_.estimate({.with_open = true, .least_dead_percent = least_dead_percent});
}

Result<> MountedVolume::prepare_cleaning() {
  TRY(check_usable(true));
  return space_maker_.prepare_cleaning();
}

Result<gc::CleanStep> MountedVolume::clean_step(unsigned least_dead_percent) {
  TRY(check_usable(true));
  return collector_.clean_step({.with_open = true, .least_dead_percent = least_dead_percent});
}

Result<ScrubStep> MountedVolume::scrub(ScrubPlace from, std::size_t max_damaged) {
  TRY(check_usable(false));
  return scrubber_.step(from, max_damaged);
}

std::string MountedVolume::stats_json() {
  return stats_.json(state());
}

std::string MountedVolume::state() const {
  return device_.switched.is_off() ? "shut down"
         : store_->failed()        ? "read-only after an error"
         : read_only_              ? "read-only"
                                   : "writable";
}

VolumeInfo MountedVolume::info() {
  VolumeInfo info = describe_volume(store_->superblock(), device_.ahead.geometry());
  info.state = state();
  MutexLock lock(options_mu_);
  info.options = describe_options(options_);
  return info;
}

void MountedVolume::tick() {
  flusher_.run_once();
  housekeeper_.run_due();
}

}  // namespace lazyfs::fs
