// Attributes and contents of files (fs/volume/mounted_volume.h).
#include <sys/stat.h>

#include "fs/volume/mounted_volume.h"

namespace lazyfs::fs {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;

}  // namespace

// ---- Attributes ---------------------------------------------------------------------------------

Result<Attributes> MountedVolume::get_attributes(InodeNo number) {
  TRY(check_usable(false));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  return attributes_of(*inode, *store_);
}

Result<> MountedVolume::change_inode(const InodeRef& inode, const AttributeChange& change) {
  WriterLock lock(inode->mu);
  if (inode->gone) return fail(Errc::kStale);
  InodeRecord record = inode->record;
  const Timestamp now = clock_.now();
  if (change.clear_set_id && !S_ISDIR(record.mode)) drop_set_id(record);  // as Linux does
  if (change.mode) record.mode = (record.mode & S_IFMT) | (*change.mode & 07777);
  if (change.uid) record.owner.uid = *change.uid;
  if (change.gid) record.owner.gid = *change.gid;
  if (change.access) record.access = *change.access;
  if (change.access_now) record.access = now;
  if (change.modification) record.modification = *change.modification;
  if (change.modification_now) record.modification = now;
  meta::Batch batch;
  if (change.mode) TRY(xattrs_.follow_mode(batch, *inode, record));
  record.change = change.change.value_or(now);
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
  return attributes_of(*inode, *store_);
}

// ---- Files --------------------------------------------------------------------------------------

Result<Created> MountedVolume::create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                      Owner owner) {
  TRY(check_usable(true));
  InodeRecord record;
  record.mode = S_IFREG | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto extras, inherit_acl(parent, record));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.make(parent, name, record, extras));
  ASSIGN_OR_RETURN(const Attributes attributes, attributes_with_lookup(inode));
  return Created{attributes, new OpenFile{inode}};
}

Result<Created> MountedVolume::create_unnamed(InodeNo directory, std::uint32_t mode, Owner owner) {
  TRY(check_usable(true));
  InodeRecord record;
  record.mode = S_IFREG | (mode & 07777);
  record.owner = owner;
  ASSIGN_OR_RETURN(const auto extras, inherit_acl(directory, record));
  ASSIGN_OR_RETURN(const InodeRef inode, directories_.make_unnamed(directory, record, extras));
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
           now.seconds - r.access.seconds >= kDaySeconds;
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

Result<> MountedVolume::write(InodeNo number, std::uint64_t offset, std::span<const std::byte> from,
                              bool clear_set_id) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return writer_.write(inode, offset, from, clear_set_id);
}

Result<> MountedVolume::allocate(InodeNo number, std::uint64_t offset, std::uint64_t length,
                                 RangeFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return ranges_.allocate(inode, offset, length, flags);
}

Result<> MountedVolume::punch(InodeNo number, std::uint64_t offset, std::uint64_t length,
                              RangeFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return ranges_.punch(inode, offset, length, flags);
}

Result<> MountedVolume::zero(InodeNo number, std::uint64_t offset, std::uint64_t length,
                             RangeFlags flags) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  return ranges_.zero(inode, offset, length, flags);
}

Result<std::uint64_t> MountedVolume::copy_range(InodeNo from_number, std::uint64_t from_offset,
                                                InodeNo to_number, std::uint64_t to_offset,
                                                std::uint64_t length, bool clear_set_id) {
  TRY(check_usable(true));
  ASSIGN_OR_RETURN(const InodeRef from, inodes_.get(from_number));
  ASSIGN_OR_RETURN(const InodeRef to, inodes_.get(to_number));
  ASSIGN_OR_RETURN(const std::uint64_t copied,
                   copier_.copy({from, from_offset}, {to, to_offset}, length, clear_set_id));
  if (copied > 0) note_access(from);
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

// Each open file hears once of each error that came after it was opened.
Result<> MountedVolume::report_errors(OpenFile* file) {
  if (!file) return ok();
  const std::uint64_t errors = file->inode->write_errors.load();
  if (file->errors_seen.exchange(errors) == errors) return ok();
  return fail(file->inode->last_write_error.load());
}

// An error that is reported here is still to be reported by fsync: of several duplicates of a
// descriptor one may be closed long before.
Result<> MountedVolume::flush(OpenFile* file) {
  const bool is_news = file->errors_seen.load() != file->inode->write_errors.load();
  return is_news ? fail(file->inode->last_write_error.load()) : ok();
}

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
  const Result<> written = write_back_.write_dirty(kEver, true);
  TRY(store_->commit());
  return written;
}

}  // namespace lazyfs::fs
