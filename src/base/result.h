// Errors as values. Every function that can fail returns Result<T>. Code in src/ never throws an
// exception on purpose.
#pragma once

#include <cerrno>
#include <expected>
#include <string_view>
#include <utility>

namespace lazyfs {

// One row per cause of failure: name, errno for the kernel, message for the user. The rows of a
// layer stand together.
#define LAZYFS_ERRORS(X)                                                                         \
  /* device: the banded device's contract */                                                     \
  X(kNotAtWritePointer, EIO, "write does not start at the band's write pointer")                 \
  X(kBandTooSmall, EINVAL, "a band is smaller than a block of 4096 bytes")                       \
  X(kPastBandEnd, EIO, "access reaches past the end of the band")                                \
  X(kPastWritePointer, EIO, "read reaches or passes the band's write pointer")                   \
  X(kBadBand, EIO, "the device has no band with that number")                                    \
  X(kBadGeometry, EINVAL, "impossible device geometry")                                          \
  X(kBadAlignment, EIO, "buffer or length is not aligned to whole blocks")                       \
  X(kBandOffline, EIO, "band is offline")                                                        \
  X(kBandReadOnly, EIO, "band is read-only")                                                     \
  X(kBandFailed, EIO, "an earlier append to this band failed; reset it first")                   \
  X(kUnsupported, EOPNOTSUPP, "the device does not support this operation")                      \
  X(kNotADisk, ENOTBLK, "is neither a block device nor a file")                                  \
  X(kDeviceRead, EIO, "reading the device failed")                                               \
  X(kDeviceWrite, EIO, "writing the device failed")                                              \
  X(kDeviceFlush, EIO, "flushing the device failed")                                             \
  X(kDeviceNoSpace, ENOSPC, "no space left where the device or image file is stored")            \
  X(kDeviceMissing, ENOENT, "no such file or device")                                            \
  X(kDeviceBusy, EBUSY, "the device is in use or mounted")                                       \
  X(kDeviceAccess, EACCES, "no permission to open the device")                                   \
  X(kDeviceReadOnly, EROFS, "the device is read-only")                                           \
  X(kDeviceTruncated, EIO, "the image or device is shorter than its header says")                \
  X(kDeviceZoned, EOPNOTSUPP, "a zoned block device: its zones are the bands")                   \
  X(kTooManyOpenBands, EIO, "the device allows no further partly written band (zone)")           \
  X(kFewOpenBands, EOPNOTSUPP,                                                                   \
    "the device allows fewer than 6 partly written bands (zones), which lazyfs needs")           \
  X(kZonesBad, EOPNOTSUPP,                                                                       \
    "the device's zones or sectors do not consist of whole blocks of 4096 bytes")                \
  X(kPowerCut, EIO, "the test device has lost power")                                            \
  X(kGrowNoRoom, ENOSPC, "no room for a further band: the device or image is not large enough")  \
  X(kGrowSmaller, EINVAL, "the size is less than the present one, and a volume cannot shrink")   \
  X(kGrowSize, EINVAL, "a block device is filled to its end: only a file can be given a size")   \
  /* edi: the image formats */                                                                   \
  X(kEdiBadMagic, EINVAL, "not an EDI: the magic number is missing")                             \
  X(kEdiBadVersion, EINVAL, "unknown EDI format version")                                        \
  X(kEdiBadChecksum, EIO, "checksum mismatch in the EDI header")                                 \
  X(kEdiBadHeader, EIO, "EDI header has impossible values")                                      \
  X(kEdiExists, EEXIST, "the file already exists")                                               \
  X(kBandNotEmpty, EBUSY, "only empty bands can be linked and unlinked")                         \
  X(kEdiTableFull, ENOSPC, "the image's table of write pointers has no room for further bands")  \
  /* plain: the identification block of a plain block device */                                  \
  X(kIdentityMissing, EINVAL, "no identification block of a lazyfs volume found")                \
  X(kIdentityBad, EIO, "the identification block of the lazyfs volume is damaged")               \
  X(kIdentityFeatures, EINVAL, "the volume has features that only a newer lazyfs knows")         \
  X(kIdentityReadOnly, EROFS, "a newer lazyfs is needed to write to this volume; mount it ro")   \
  X(kImageBehindLoop, EINVAL,                                                                    \
    "a loop device over an image: use the image file itself, which losetup --list names")        \
  X(kEdiOnBlockDevice, EINVAL, "an image (EDI) was copied onto this block device, or an older "  \
    "lazyfs made it there: copy it to a file with cp --sparse=always, and use that file")        \
  /* meta: superblock, log, tree */                                                              \
  X(kNoFilesystem, EINVAL, "no superblock of a lazyfs found on this device")                      \
  X(kSuperblockBad, EIO, "no valid superblock found")                                            \
  X(kSuperblockVersion, EINVAL,                                                                  \
    "an older lazyfs made this volume, and this one cannot read it: copy the files off with the " \
    "version that made it, then make the volume again")                                          \
  X(kSuperblockNewer, EINVAL, "a newer lazyfs made or changed this volume: use that version")    \
  X(kFeatureUnknown, EINVAL,                                                                     \
    "the volume has features that this lazyfs does not know: use a newer version")               \
  X(kFeatureReadOnly, EROFS,                                                                     \
    "the volume has features that this lazyfs does not know: it can be read (-o ro), and "       \
    "changed with a newer version only")                                                         \
  X(kLogBandHeaderBad, EIO, "log band header is damaged")                                        \
  X(kLogDescriptorBad, EIO, "log descriptor is damaged")                                         \
  X(kLogTorn, EIO, "log transaction is incomplete")                                              \
  X(kLogCheckpointBad, EIO, "checkpoint of the metadata map is damaged")                         \
  X(kLogTailLost, EIO, "the metadata log's tail cannot be read")                                 \
  X(kLogFull, ENOSPC, "the metadata log has no space left")                                      \
  X(kMustWait, EAGAIN, "the change must wait for a commit; internal: see Store::try_apply()")    \
  X(kLogFailed, EIO, "the metadata log could not be written; the volume is read-only now")       \
  X(kNodeChecksumBad, EIO, "checksum mismatch in a metadata node")                               \
  X(kNodeBad, EIO, "metadata node has impossible values")                                        \
  X(kNodeMissing, EIO, "metadata node is not in the map")                                        \
  X(kValueTooLarge, EIO, "metadata value exceeds the maximum item size")                         \
  X(kBatchTooLarge, ENOSPC, "update is too large for one metadata transaction")                  \
  X(kItemBad, EIO, "metadata item has impossible values")                                        \
  /* data: bands and blocks */                                                                   \
  X(kNoSpace, ENOSPC, "no space left for file data")                                             \
  X(kDataChecksumBad, EIO, "file data fails its checksum")                                       \
  X(kBandTableBad, EIO, "a band's summary contradicts the device")                               \
  /* fs: files and names */                                                                      \
  X(kNotFound, ENOENT, "no such file or directory")                                              \
  X(kExists, EEXIST, "the name already exists")                                                  \
  X(kNotDirectory, ENOTDIR, "not a directory")                                                   \
  X(kIsDirectory, EISDIR, "is a directory")                                                      \
  X(kNotEmpty, ENOTEMPTY, "directory is not empty")                                              \
  X(kNameTooLong, ENAMETOOLONG, "the name is longer than 255 bytes")                             \
  X(kTooManyLinks, EMLINK, "too many links")                                                     \
  X(kInvalid, EINVAL, "invalid argument")                                                        \
  X(kNotPermitted, EPERM, "operation is not permitted")                                          \
  X(kFileTooBig, EFBIG, "file would exceed the maximum size")                                    \
  X(kStale, ESTALE, "the inode no longer exists")                                                \
  X(kNoSuchRange, ENXIO, "no data or hole at or after that offset")                              \
  X(kNoAttribute, ENODATA, "no such extended attribute")                                         \
  X(kAttributeTooBig, E2BIG, "extended attribute is too large")                                  \
  X(kBufferTooSmall, ERANGE, "buffer is too small for the value")                                \
  X(kCrossDirectoryLoop, EINVAL, "a directory cannot be moved into itself")                      \
  X(kReadOnly, EROFS, "the filesystem is read-only")                                             \
  X(kNotSupported, EOPNOTSUPP, "operation is not supported")                                     \
  X(kShutDown, EIO, "the filesystem was shut down")                                              \
  X(kWouldWait, EAGAIN, "the data has to be read from the disk")                                 \
  X(kMemoryFull, ENOMEM, "memory is full of data of other files that cannot be written")         \
  /* fs: making a filesystem */                                                                  \
  X(kMkfsBlockSize, EINVAL, "the device's block size is not 4096 bytes")                       \
  X(kMkfsLabelTooLong, EINVAL, "the label is longer than 63 bytes")                            \
  X(kMkfsTooFewBands, ENOSPC, "the device has too few bands for a filesystem")                 \
  X(kMkfsSuperBands, EINVAL, "the super bands must be shingled, with at least 16 blocks")      \
  X(kMkfsLogTooLarge, ENOSPC, "a metadata log of that size leaves no space for files")         \
  /* any layer */                                                                                \
  X(kNoMemory, ENOMEM, "out of memory")                                                          \
  X(kNoThread, EAGAIN,                                                                           \
    "the system makes no further thread: a limit on processes is reached (RLIMIT_NPROC, which "    \
    "ulimit -u shows; pids.max of a control group or container; kernel.threads-max)")            \
  X(kInternal, EIO, "internal error: unexpected exception")

enum class Errc {
#define X(name, err, text) name,
  LAZYFS_ERRORS(X)
#undef X
};

constexpr std::string_view describe(Errc e) {
  switch (e) {
#define X(name, err, text) \
  case Errc::name:         \
    return text;
    LAZYFS_ERRORS(X)
#undef X
  }
  return "unknown error";
}

constexpr std::string_view name_of(Errc e) {
  switch (e) {
#define X(name, err, text) \
  case Errc::name:         \
    return #name;
    LAZYFS_ERRORS(X)
#undef X
  }
  return "unknown";
}

// REQUIRES: the caller is src/fuse or libedi's C API. No other code handles errno values.
constexpr int to_errno(Errc e) {
  switch (e) {
#define X(name, err, text) \
  case Errc::name:         \
    return err;
    LAZYFS_ERRORS(X)
#undef X
  }
  return EIO;
}

// A value, or the cause of the failure.
template <class T = void>
using Result = std::expected<T, Errc>;

inline Result<> ok() { return {}; }
inline std::unexpected<Errc> fail(Errc e) { return std::unexpected(e); }

// These macros return early on an error: TRY(expr) for a Result<>, and
// ASSIGN_OR_RETURN(auto x, expr) for a Result with a value. The project has no other control-flow
// macros.
#define TRY(...)                                               \
  do {                                                         \
    if (auto try_ = (__VA_ARGS__); !try_) return ::lazyfs::fail(try_.error()); \
  } while (false)

#define LAZYFS_CONCAT_(a, b) a##b
#define LAZYFS_CONCAT(a, b) LAZYFS_CONCAT_(a, b)
#define ASSIGN_OR_RETURN(declaration, ...) \
  ASSIGN_OR_RETURN_(LAZYFS_CONCAT(result_, __LINE__), declaration, __VA_ARGS__)
#define ASSIGN_OR_RETURN_(name, declaration, ...)        \
  auto name = (__VA_ARGS__);                             \
  if (!name) return ::lazyfs::fail(name.error());        \
  declaration = std::move(*name)

// Drops an error on purpose. `why` is mandatory, and every call can be found by name.
template <class T>
void ignore_error(const Result<T>&, std::string_view /*why*/) {}

}  // namespace lazyfs
