#include "fs/mounted_volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "base/log.h"

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

constexpr std::chrono::nanoseconds kEver = std::chrono::nanoseconds::max();
constexpr auto kWriterPeriod = std::chrono::milliseconds(200);
constexpr auto kHousePeriod = std::chrono::milliseconds(500);

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
      core_{device_, *store_, clock_, options_, bands_, appender_, pages_, inodes_, dirty_,
            counters_},
      numbers_(*store_, at_mount_.next_inode),
      directories_(*store_, inodes_, numbers_, clock_, seed_),
      xattrs_(*store_, inodes_, clock_),
      reader_(core_),
      collector_(core_),
      write_back_(core_, [this] { return collector_.make_room(); },
                  [this] {
                    MutexLock lock(wake_mu_);
                    pages_freed_.notify_all();
                  }),
      writer_(core_, reader_, [this] { return make_space(); },
              [this](std::size_t bytes) { throttle(bytes); }),
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
  store_->set_band_source({[this] { return bands_.take_for_log(); },
                           [this](BandId band) { bands_.give_back_from_log(band); }});
  TRY(recover_bands(device_, *store_, bands_, options_.read_only));
  TRY(inodes_.get(kRootInode));
  if (!options_.read_only) {
    TRY(finish_orphans());
    TRY(store_->commit());
  }
  if (options_.background && !options_.read_only) {
    writer_thread_ = std::thread([this] { run_writer(); });
    housekeeper_thread_ = std::thread([this] { run_housekeeper(); });
  }
  return ok();
}

// Ends what a crash has interrupted. An inode that cannot be read is left for fsck.
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
    std::uint64_t size = 0;
    {
      ReaderLock lock((*inode)->mu);
      size = (*inode)->record.size;
    }
    TRY(writer_.truncate(*inode, size));
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
  }
  if (writer_thread_.joinable()) writer_thread_.join();
  if (housekeeper_thread_.joinable()) housekeeper_thread_.join();
}

Result<> MountedVolume::unmount() {
  stop_threads();
  if (shut_down_ || options_.read_only) return options_.read_only ? store_->close() : ok();
  const Result<> written = write_back_.write_dirty(kEver);
  reaper_.run(core_);
  const Result<> committed = store_->commit();
  ignore_error(collector_.reset_empty_bands(), "the next mount resets what is empty");
  const Result<> closed = store_->close();
  if (!written) return written;
  return committed ? closed : committed;
}

void MountedVolume::shut_down() {
  shut_down_ = true;
  stop_threads();
}

Result<> MountedVolume::check_usable(bool for_change) const {
  if (shut_down_.load(std::memory_order_relaxed)) return fail(Errc::kShutDown);
  if (for_change && options_.read_only) return fail(Errc::kReadOnly);
  return ok();
}

// ---- Names --------------------------------------------------------------------------------------

Result<Attributes> MountedVolume::attributes_with_lookup(const InodeRef& inode) {
  inodes_.take_lookup(*inode);
  ReaderLock lock(inode->mu);
  return attributes_of(*inode);
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

Result<Attributes> MountedVolume::make_node(InodeNo parent, std::string_view name,
                                            std::uint32_t mode, std::uint64_t rdev, Owner owner) {
  if (S_ISDIR(mode)) return fail(Errc::kInvalid);
  if ((mode & S_IFMT) == 0) mode |= S_IFREG;
  InodeRecord record;
  record.mode = mode;
  record.owner = owner;
  record.rdev = rdev;
  return make(parent, name, record);
}

Result<Attributes> MountedVolume::make_directory(InodeNo parent, std::string_view name,
                                                 std::uint32_t mode, Owner owner) {
  InodeRecord record;
  record.mode = S_IFDIR | (mode & 07777);
  record.owner = owner;
  return make(parent, name, record);
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
  ReaderLock lock(inode->mu);
  if (!S_ISLNK(inode->record.mode)) return fail(Errc::kInvalid);
  ASSIGN_OR_RETURN(const auto items, store_->scan(key_of(number, Kind::kSymlink),
                                                  key_of(number, Kind::kSymlink, meta::kMaxOffset),
                                                  kMaxSymlinkBytes));
  std::string target;
  for (const meta::Item& item : items) {
    target.append(reinterpret_cast<const char*>(item.value.data()), item.value.size());
  }
  if (target.size() != inode->record.size) return fail(Errc::kItemBad);
  return target;
}

Result<Attributes> MountedVolume::link(InodeNo number, InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.link(number, parent, name));
  return attributes_with_lookup(inode);
}

Result<> MountedVolume::unlink(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  return directories_.unlink(parent, name);
}

Result<> MountedVolume::remove_directory(InodeNo parent, std::string_view name) {
  TRY(check_usable(true));
  return directories_.remove_directory(parent, name);
}

Result<> MountedVolume::rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                               std::string_view to_name, RenameFlags flags) {
  TRY(check_usable(true));
  return directories_.rename(from_parent, from_name, to_parent, to_name, flags);
}

Result<std::vector<DirectoryEntry>> MountedVolume::read_directory(InodeNo directory,
                                                                  std::uint64_t cookie,
                                                                  std::size_t max_entries) {
  TRY(check_usable(false));
  return directories_.read(directory, cookie, max_entries);
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
  return attributes_with_lookup(inode);
}

// ---- Attributes ---------------------------------------------------------------------------------

Result<Attributes> MountedVolume::get_attributes(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  return attributes_of(*inode);
}

Result<> MountedVolume::change_inode(const InodeRef& inode, const AttributeChange& change) {
  WriterLock lock(inode->mu);
  if (inode->gone) return fail(Errc::kStale);
  InodeRecord record = inode->record;
  const Timestamp now = clock_.now();
  if (change.clear_set_id && S_ISREG(record.mode)) {
    record.mode &= ~static_cast<std::uint32_t>(S_ISUID);
    if (record.mode & S_IXGRP) record.mode &= ~static_cast<std::uint32_t>(S_ISGID);
  }
  if (change.mode) record.mode = (record.mode & S_IFMT) | (*change.mode & 07777);
  if (change.uid) record.owner.uid = *change.uid;
  if (change.gid) record.owner.gid = *change.gid;
  if (change.access) record.access = *change.access;
  if (change.access_now) record.access = now;
  if (change.modification) record.modification = *change.modification;
  if (change.modification_now) record.modification = now;
  record.change = change.change.value_or(now);
  meta::Batch batch;
  batch.put(key_of(inode->no, Kind::kInode), encode(for_tree(*inode, record)));
  TRY(store_->apply(batch));
  inode->record = record;
  inode->record_dirty = inode->tree_size != record.size;
  return ok();
}

Result<Attributes> MountedVolume::set_attributes(InodeNo number, const AttributeChange& change) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  if (change.size) {
    {
      ReaderLock lock(inode->mu);
      if (S_ISDIR(inode->record.mode)) return fail(Errc::kIsDirectory);
    }
    TRY(writer_.truncate(inode, *change.size));
  }
  const bool others = change.mode || change.uid || change.gid || change.access ||
                      change.modification || change.change || change.access_now ||
                      change.modification_now || change.clear_set_id;
  if (others) TRY(change_inode(inode, change));
  ReaderLock lock(inode->mu);
  return attributes_of(*inode);
}

// ---- Files --------------------------------------------------------------------------------------

Result<Created> MountedVolume::create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                      Owner owner) {
  TRY(check_usable(true));
  InodeRecord record;
  record.mode = S_IFREG | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.make(parent, name, record));
  ASSIGN_OR_RETURN(const Attributes attributes, attributes_with_lookup(inode));
  return Created{attributes, new OpenFile{inode}};
}

Result<OpenFile*> MountedVolume::open(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  auto* file = new OpenFile{inode};
  file->errors_seen = inode->write_errors.load();
  return file;
}

void MountedVolume::release(OpenFile* file) { delete file; }

// relatime: a read is noted when the last one noted is not newer than the last change, or is a day
// old.
void MountedVolume::note_access(const InodeRef& inode) {
  if (options_.access_time == AccessTime::kNone || options_.read_only) return;
  const Timestamp now = clock_.now();
  const auto is_due = [&](const InodeRecord& r) REQUIRES_SHARED(inode->mu) {
    if (options_.access_time == AccessTime::kStrict) return r.access != now;
    return r.access <= r.modification || r.access <= r.change ||
           now.seconds - r.access.seconds >= 24 * 3600;
  };
  {
    ReaderLock lock(inode->mu);
    if (!is_due(inode->record)) return;
  }
  WriterLock lock(inode->mu);
  if (inode->gone || !is_due(inode->record)) return;
  inode->record.access = now;
  inode->record_dirty = true;
  dirty_.add(inode, clock_.monotonic());
}

Result<std::size_t> MountedVolume::read(InodeNo number, std::uint64_t offset,
                                        std::span<std::byte> to) {
  TRY(check_usable(false));
  pacer_.note_request();
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ASSIGN_OR_RETURN(const std::size_t length, reader_.read(*inode, offset, to));
  note_access(inode);
  return length;
}

Result<> MountedVolume::write(InodeNo number, std::uint64_t offset,
                              std::span<const std::byte> from, bool clear_set_id) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return writer_.write(inode, offset, from, clear_set_id);
}

// Each open file hears once of each error that came after it was opened.
Result<> MountedVolume::report_errors(OpenFile* file) {
  if (!file) return ok();
  const std::uint64_t errors = file->inode->write_errors.load();
  if (file->errors_seen.exchange(errors) == errors) return ok();
  return fail(file->inode->last_write_error.load());
}

Result<> MountedVolume::flush(OpenFile* file) { return report_errors(file); }

Result<> MountedVolume::fsync(InodeNo number, OpenFile* file, bool) {
  TRY(check_usable(false));
  if (options_.read_only) return ok();
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  const Result<> written = write_back_.write_inode(inode);
  const Result<> reported = report_errors(file);
  TRY(written);
  TRY(store_->commit());
  return reported;
}

Result<> MountedVolume::fsync_directory(InodeNo) {
  TRY(check_usable(false));
  return options_.read_only ? ok() : store_->commit();
}

Result<> MountedVolume::sync() {
  TRY(check_usable(false));
  if (options_.read_only) return ok();
  const Result<> written = write_back_.write_dirty(kEver);
  TRY(store_->commit());
  return written;
}

// ---- Extended attributes ------------------------------------------------------------------------

Result<std::string> MountedVolume::get_xattr(InodeNo inode, std::string_view name) {
  TRY(check_usable(false));
  return xattrs_.get(inode, name);
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

// ---- Space --------------------------------------------------------------------------------------

Result<SpaceReport> MountedVolume::space() {
  TRY(check_usable(false));
  if (!options_.read_only) reaper_.run(core_);  // what was deleted is free
  const data::SpaceCounts counts = bands_.space();
  SpaceReport report;
  report.total_blocks = counts.total > counts.kept_back ? counts.total - counts.kept_back : 0;
  report.free_blocks = report.available_blocks = counts.available;
  // An inode takes some hundred bytes of the log, which grows as long as bands are free.
  report.total_files = report.total_blocks * 8;
  report.free_files = report.free_blocks * 8;
  return report;
}

// For a writer that finds no space: ends deletions and overwrites that are under way.
bool MountedVolume::make_space() {
  const std::uint64_t before = bands_.space().available;
  reaper_.run(core_);
  ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
  return bands_.space().available > before;
}

Result<> MountedVolume::collect_garbage() {
  TRY(check_usable(true));
  reaper_.run(core_);
  TRY(write_back_.write_dirty(kEver));
  TRY(collector_.reset_empty_bands());
  // Each pass takes one band's dead blocks away; there are no more passes than bands.
  for (std::uint32_t i = 0; i < bands_.band_count(); ++i) {
    ASSIGN_OR_RETURN(const bool cleaned, collector_.clean_one(true));
    if (!cleaned) break;
  }
  return ok();
}

// Before a write: what it brings must have room in memory, and on the device. Where the collector has to
// make the room, writers are slowed more the less is left, so that none ever waits for a whole band.
void MountedVolume::throttle(std::size_t bytes) {
  pacer_.note_request();
  if (!options_.background) {
    if (pages_.used() >= options_.dirty_bytes / kBlockBytes) {
      ignore_error(write_back_.write_dirty(kEver), "each inode keeps its error");
    }
    return;
  }
  const auto delay = pacer_.delay(blocks_for(bytes));
  if (delay.count() > 0) {
    const auto start = clock_.monotonic();
    wake();
    std::this_thread::sleep_for(delay);
    note_stall(start);
  }
  wait_for_memory();
}

void MountedVolume::wait_for_memory() {
  const std::size_t limit = options_.dirty_bytes / kBlockBytes;
  if (pages_.used() < limit) {
    if (pages_.used() > limit / 8) wake_writer_.notify_one();
    return;
  }
  const auto start = clock_.monotonic();
  {
    MutexLock lock(wake_mu_);
    while (pages_.used() >= limit && !stopping_ && !store_->failed()) {
      wake_writer_.notify_one();
      pages_freed_.wait_for(wake_mu_, std::chrono::milliseconds(20));
    }
  }
  note_stall(start);
}

void MountedVolume::note_stall(std::chrono::nanoseconds start) {
  ++counters_.stalls;
  const auto waited = static_cast<std::uint64_t>((clock_.monotonic() - start).count());
  std::uint64_t longest = counters_.stall_ns_max.load();
  while (waited > longest && !counters_.stall_ns_max.compare_exchange_weak(longest, waited)) {
  }
}

// ---- Threads ------------------------------------------------------------------------------------

void MountedVolume::wake() {
  MutexLock lock(wake_mu_);
  work_waiting_ = true;
  wake_housekeeper_.notify_one();
}

void MountedVolume::write_old(bool everything) {
  const auto before = everything ? kEver : clock_.monotonic() - options_.commit_interval;
  ignore_error(write_back_.write_dirty(before), "each inode keeps its error");
}

void MountedVolume::run_writer() {
  auto last_commit = clock_.monotonic();
  for (;;) {
    {
      MutexLock lock(wake_mu_);
      if (stopping_) return;
      wake_writer_.wait_for(wake_mu_, kWriterPeriod);
      if (stopping_) return;
    }
    const bool pressed = pages_.used() > options_.dirty_bytes / kBlockBytes / 8;
    write_old(pressed);
    if (clock_.monotonic() - last_commit < options_.commit_interval) continue;
    write_old(false);
    const auto done = store_->commit();
    if (!done) log::error("commit failed: {}", describe(done.error()));
    last_commit = clock_.monotonic();
  }
}

// True when there is more to do at once.
bool MountedVolume::keep_house() {
  reaper_.run(core_);
  if (!bands_.empty_bands().empty()) {
    ignore_error(collector_.reset_empty_bands(), "logged, and tried again");
  }
  const gc::Urgency urgency = pacer_.urgency();
  if (urgency != gc::Urgency::kHigh && !pacer_.is_idle_work_due()) return false;
  const auto cleaned = collector_.clean_one(urgency == gc::Urgency::kHigh);
  if (!cleaned) log::error("cleaning failed: {}", describe(cleaned.error()));
  return cleaned && *cleaned;
}

void MountedVolume::run_housekeeper() {
  bool more = false;
  for (;;) {
    {
      MutexLock lock(wake_mu_);
      if (!work_waiting_ && !stopping_ && !more) wake_housekeeper_.wait_for(wake_mu_, kHousePeriod);
      if (stopping_) return;
      work_waiting_ = false;
    }
    more = keep_house();
  }
}

void MountedVolume::tick() {
  write_old(false);
  keep_house();
}

}  // namespace lazyfs::fs
