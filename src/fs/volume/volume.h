// A mounted volume: every operation on files, in terms of inode numbers. This is what src/fuse
// calls and what tests without a kernel call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "device/device.h"
#include "fs/item/attributes.h"
#include "fs/volume/mount_options.h"
#include "fs/volume/trim.h"
#include "gc/clean_step.h"

namespace lazyfs::fs {

// Inodes, and how many lookups of each are held.
using Lookups = std::vector<std::pair<InodeNo, std::uint64_t>>;

// One open file. Made by open() and create(), ended by release().
struct OpenFile;

struct Created {
  Attributes attributes;
  OpenFile* file = nullptr;
};

// Where a scrub continues: an inode, and a block of its file.
struct ScrubPlace {
  std::uint64_t inode = 1;
  std::uint64_t file_block = 0;
};
struct Damage {
  InodeNo inode;
  std::uint64_t offset = 0;  // in the file, of the damaged block
  Errc why = Errc::kDataChecksumBad;
  // Set when metadata cannot be read: it may belong to any inode from `inode` to this one.
  std::optional<InodeNo> last;
};
// What a volume is; volume_info.h makes and prints it.
struct VolumeInfo {
  std::array<std::uint8_t, 16> uuid{};
  std::string label;
  std::uint32_t compat = 0, ro_compat = 0, incompat = 0;  // feature words
  std::uint32_t block_bytes = 0, bands = 0, log_bands = 0;
  std::uint64_t largest_band_bytes = 0, total_bytes = 0;  // of all bands
  std::uint64_t created_seconds = 0;                      // since 1970; 0: unknown
  std::uint64_t last_mount_seconds = 0, last_check_seconds = 0;  // 0: never
  std::uint32_t mounts = 0;                                      // for writing
  std::string state;    // "writable", "clean", "not ended cleanly", ...
  std::string options;  // in force; empty if not mounted
};

struct ScrubStep {
  std::optional<ScrubPlace> next;  // nullopt: the scrub is complete
  std::uint64_t blocks = 0;        // read by this step
  std::vector<Damage> damaged;
};

// Thread-safe. REQUIRES: a caller that names an inode, other than the root, holds a lookup on it.
// lookup(), create(), link() and the like give one each; forget() gives lookups back. All functions
// can fail with the errors of the layers below (I/O, checksums, no space).
class Volume {
 public:
  virtual ~Volume() = default;

  // Recovers and mounts the filesystem on `device`. `device` and `clock` must outlive the volume.
  // `held`: the lookups that callers hold of the volume whose place this one takes.
  static Result<std::unique_ptr<Volume>> mount(device::Device& device, const MountOptions& options,
                                               Clock& clock = system_clock(),
                                               const Lookups& held = {});
  // Makes everything durable and ends the threads. Then only end_lookups() and the destructor may
  // be called. Error: why something could not be made durable.
  virtual Result<> unmount() = 0;
  // The lookups that callers hold. REQUIRES: every open file was released or detached.
  virtual Lookups end_lookups() { return {}; }

  // Makes a volume that was mounted for reading writable. Does nothing if it is writable. Error:
  // the reason why it stays read-only, such as an earlier error that made it so, or kShutDown.
  virtual Result<> make_writable() { return sync(); }
  // Makes everything durable, and the volume read-only until make_writable(): nothing is written to
  // the device any more, neither for a caller nor in the background. Inodes without a name are
  // deleted by the next make_writable() or mount. Does nothing on a volume that is read-only, also
  // after an error that made it so. Errors: kShutDown; those of sync(), after which the volume is
  // writable as before; those of the unmount and the mount that follow, after which it is not.
  virtual Result<> make_read_only();

  // Names. Each of these that returns Attributes takes a lookup on the inode.
  virtual Result<Attributes> lookup(InodeNo parent, std::string_view name) = 0;
  virtual void forget(InodeNo inode, std::uint64_t lookups) = 0;
  virtual Result<Attributes> make_node(InodeNo parent, std::string_view name, std::uint32_t mode,
                                       std::uint64_t rdev, Owner owner) = 0;  // no directory
  virtual Result<Attributes> make_directory(InodeNo parent, std::string_view name,
                                            std::uint32_t mode, Owner owner) = 0;
  virtual Result<Attributes> make_symlink(InodeNo parent, std::string_view name,
                                          std::string_view target, Owner owner) = 0;
  virtual Result<Attributes> link(InodeNo inode, InodeNo parent, std::string_view name) = 0;
  virtual Result<> unlink(InodeNo parent, std::string_view name) = 0;
  virtual Result<> remove_directory(InodeNo parent, std::string_view name) = 0;
  virtual Result<> rename(InodeNo from_parent, std::string_view from_name, InodeNo to_parent,
                          std::string_view to_name, RenameFlags flags) = 0;
  virtual Result<std::string> read_link(InodeNo inode) = 0;

  // At most `max_entries` entries that follow `cookie` (0: from the start), in the order of their
  // insertion, without "." and "..". An entry that exists during the whole reading of a directory
  // is returned exactly once, also when it is replaced, exchanged, or renamed within the directory.
  // Takes no lookups.
  // `note_access` as for read().
  virtual Result<std::vector<DirectoryEntry>> read_directory(InodeNo directory,
                                                             std::uint64_t cookie,
                                                             std::size_t max_entries,
                                                             bool note_access = true) = 0;
  // The directory's parent, for "..".
  virtual Result<InodeNo> parent_of(InodeNo directory) = 0;
  // As lookup() but by number, for readdirplus and file handles: takes a lookup. kStale when the
  // inode does not exist or has no name.
  virtual Result<Attributes> lookup_inode(InodeNo inode) = 0;

  virtual Result<Attributes> get_attributes(InodeNo inode) = 0;
  virtual Result<Attributes> set_attributes(InodeNo inode, const AttributeChange& change) = 0;

  // Files.
  virtual Result<Created> create(InodeNo parent, std::string_view name, std::uint32_t mode,
                                 Owner owner) = 0;
  // A file without a name, with what it would inherit from `directory`; link() may give it a name.
  virtual Result<Created> create_unnamed(InodeNo directory, std::uint32_t mode, Owner owner);
  virtual Result<OpenFile*> open(InodeNo inode) = 0;  // regular files
  virtual void release(OpenFile* file) = 0;
  // Reads up to to.size() bytes; fewer only at the end of the file. Holes read as zeros.
  // `note_access`: update the access time if the mount's options say so (false: O_NOATIME).
  virtual Result<std::size_t> read(InodeNo inode, std::uint64_t offset, std::span<std::byte> to,
                                   bool note_access = true) = 0;
  // Writes all of `from`. After an error a part may have been written, if `from` touches more than
  // 256 blocks (1 MiB).
  virtual Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                         WriteFlags flags = {}) = 0;

  // Ranges of files. punch: the range reads as zeros, and its whole blocks are freed; the size
  // stays. zero: as punch, but the file grows to hold the range. Space cannot be set aside for a
  // range: each write of a block gets a new place.
  // A volume may lack these two, copy_range(), find_data() and find_hole(): kNotSupported.
  virtual Result<> punch(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                         RangeFlags flags);
  virtual Result<> zero(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                        RangeFlags flags);
  // Copies up to `length` bytes between files, or within one. Returns how many: fewer at the end of
  // the source, after an error in the middle, or of a long range (then at least 1 MiB). If both
  // offsets are equally far into a block, whole blocks are shared instead of copied: they take no
  // space until one of the files overwrites them. kInvalid: the ranges overlap.
  virtual Result<std::uint64_t> copy_range(InodeNo from, std::uint64_t from_offset, InodeNo to,
                                           std::uint64_t to_offset, std::uint64_t length,
                                           bool clear_set_id);
  // The first offset, at or past `offset`, that is in data, or in a hole; the end of the file
  // counts as a hole. kNoSuchRange: none exists, or `offset` is not inside the file.
  virtual Result<std::uint64_t> find_data(InodeNo inode, std::uint64_t offset);
  virtual Result<std::uint64_t> find_hole(InodeNo inode, std::uint64_t offset);

  // At close: returns the write-back error that `file` has not reported yet. It stays pending.
  virtual Result<> flush(OpenFile* file) = 0;
  // Makes the file's data and metadata, and the names made before, durable. Returns a write-back
  // error that `file` has not reported yet.
  virtual Result<> fsync(InodeNo inode, OpenFile* file, bool data_only) = 0;
  virtual Result<> fsync_directory(InodeNo directory) = 0;
  virtual Result<> sync() = 0;  // everything

  // Extended attributes, with names as the kernel passes them ("user.x").
  virtual Result<std::string> get_xattr(InodeNo inode, std::string_view name) = 0;
  virtual Result<> set_xattr(InodeNo inode, std::string_view name, std::string_view value,
                             XattrMode mode) = 0;
  virtual Result<> remove_xattr(InodeNo inode, std::string_view name) = 0;
  // Whether files made in the directory inherit an access control list. If so, their mode is passed
  // without the caller's umask applied.
  virtual Result<bool> has_default_acl(InodeNo) { return false; }
  virtual Result<std::vector<std::string>> list_xattrs(InodeNo inode) = 0;

  // The blocks of inodes that wait to be deleted count as free.
  virtual Result<SpaceReport> space() = 0;
  // Applies other options from now on, except read_only, on_read_only and background.
  virtual Result<> change_options(const MountOptions& options);
  // Deletes waiting inodes and resets empty bands, then discards free bands (trim.h). Returns the
  // bytes discarded.
  virtual Result<std::uint64_t> trim(const TrimRange& range);
  // Deletes waiting inodes, writes dirty data back, and cleans each band once if it is worth it.
  virtual Result<> collect_garbage() = 0;
  // collect_garbage() in steps: this and the next two. Estimates the cleaning of the bands of which
  // at least so many percent of the written blocks are dead. Changes nothing.
  virtual Result<gc::CleanEstimate> estimate_garbage(unsigned least_dead_percent);
  // Deletes waiting inodes, writes dirty data back, and resets bands that hold nothing live.
  virtual Result<> prepare_cleaning();
  // Cleans for some 100 ms. Bands that are written or emptied meanwhile are cleaned too, so the
  // caller must limit the number of steps.
  virtual Result<gc::CleanStep> clean_step(unsigned least_dead_percent);
  // Grows the device (device::Device::grow()) and gives its new bands to files. Durable on return;
  // after a power cut the volume has all of the new bands, or none.
  virtual Result<> grow(std::uint64_t bytes);
  // Reads at most about 32 MiB of file data from the device, from `from` on in the order of inode
  // numbers, and verifies the checksums. Blocks and metadata that cannot be read are listed in the
  // result; they are no error of the call. A step also ends early rather than list more than
  // `max_damaged` blocks, but may list as many as an extent has. Files may change meanwhile.
  virtual Result<ScrubStep> scrub(ScrubPlace from, std::size_t max_damaged) = 0;
  // Every counter and state, as a JSON object (the keys are INTERFACE: see docs/stats.md).
  virtual std::string stats_json() = 0;
  virtual VolumeInfo info() { return {}; }
  // Does the background work that is due, on the caller's thread (for mounts without threads).
  virtual void tick() = 0;

  // Drops what is not durable, as a power cut would. Every later operation fails with kShutDown,
  // and nothing is written to the device any more.
  virtual void shut_down() = 0;
};

// The operations that a volume may lack.
inline Result<Created> Volume::create_unnamed(InodeNo, std::uint32_t, Owner) {
  return fail(Errc::kNotSupported);
}
inline Result<gc::CleanEstimate> Volume::estimate_garbage(unsigned) {
  return fail(Errc::kNotSupported);
}
inline Result<> Volume::prepare_cleaning() { return fail(Errc::kNotSupported); }
inline Result<gc::CleanStep> Volume::clean_step(unsigned) { return fail(Errc::kNotSupported); }
inline Result<> Volume::make_read_only() { return fail(Errc::kNotSupported); }
inline Result<> Volume::change_options(const MountOptions&) { return fail(Errc::kNotSupported); }
inline Result<> Volume::grow(std::uint64_t) { return fail(Errc::kNotSupported); }
inline Result<std::uint64_t> Volume::trim(const TrimRange&) { return fail(Errc::kNotSupported); }
inline Result<> Volume::punch(InodeNo, std::uint64_t, std::uint64_t, RangeFlags) {
  return fail(Errc::kNotSupported);
}
inline Result<> Volume::zero(InodeNo, std::uint64_t, std::uint64_t, RangeFlags) {
  return fail(Errc::kNotSupported);
}
inline Result<std::uint64_t> Volume::copy_range(InodeNo, std::uint64_t, InodeNo, std::uint64_t,
                                                std::uint64_t, bool) {
  return fail(Errc::kNotSupported);
}
inline Result<std::uint64_t> Volume::find_data(InodeNo, std::uint64_t) {
  return fail(Errc::kNotSupported);
}
inline Result<std::uint64_t> Volume::find_hole(InodeNo, std::uint64_t) {
  return fail(Errc::kNotSupported);
}

}  // namespace lazyfs::fs
