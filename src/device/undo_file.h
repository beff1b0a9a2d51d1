// An undo file: what a repair has overwritten on a device, so that the repair can be taken back. It
// works on bytes of the file or block device, so it covers every structure on it.
//
// A file of records. A record of old bytes is durable before the bytes change:
//
//   offset size field
//        0    4 magic     "LZUN"
//        4    4 crc32c    of bytes 8 to the end of the record
//        8    4 kind      1 start, 2 bytes, 3 zeros, 4 state, 5 end
//       12    4 length    of the range, at most 1 MiB; 0 in start and end
//       16    8 offset    of the range on the device; in start: the device's size in bytes
//       24    4 contents  state: crc32c of what the range held at the end; else 0
//       28    4 reserved  0
//       32      bytes: what the range held before (kind 2 only)
//
// The start comes first. Each block of 4096 bytes is in one range of kind 2 or 3 at most. After the
// last change follow a state for each of these ranges, in the same order, and the end.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "device/backing.h"

namespace lazyfs::device {

// Thread-safe. mu_ is a leaf lock, held over the I/O of the undo file: the changes of a repair wait
// for it anyway.
class UndoFile {
 public:
  // Makes the file, and its name durable. Errors: those of Backing::make(); kDeviceAccess and
  // kDeviceFlush, of its folder.
  static Result<std::unique_ptr<UndoFile>> make(const std::string& path);
  explicit UndoFile(Backing file) : file_(std::move(file)) {}

  // The caller calls it before these bytes of `device` change. Saves their present contents
  // durably, each block once. Errors: those of reading the device and of writing the file.
  Result<> keep(const Backing& device, std::uint64_t at, std::uint64_t length_bytes)
      EXCLUDES(mu_);
  // The caller calls it after the last change of the device. Notes the present contents of the
  // saved ranges, so that later changes by others can be detected. Errors: as keep().
  Result<> finish(const Backing& device) EXCLUDES(mu_);
  // Whether keep() has saved nothing.
  bool is_empty() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return file_bytes_ == 0;
  }

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };
  Result<> start(const Backing& device) REQUIRES(mu_);
  Result<> keep_run(const Backing& device, std::uint64_t block, std::uint64_t end) REQUIRES(mu_);
  Result<> add(std::uint32_t kind, Range range, std::uint32_t contents, Piece bytes) REQUIRES(mu_);
  Result<> sync() REQUIRES(mu_);

  Mutex mu_;
  const Backing file_;
  std::uint64_t file_bytes_ GUARDED_BY(mu_) = 0;
  bool is_synced_ GUARDED_BY(mu_) = false;   // everything added is durable
  bool has_failed_ GUARDED_BY(mu_) = false;  // a sync failed: parts of the file may be lost
  std::vector<Range> ranges_ GUARDED_BY(mu_);
  std::unordered_set<std::uint64_t> kept_ GUARDED_BY(mu_);  // blocks
};

// Writes back the contents in the undo file at `undo_path`, and makes them durable. Returns the
// number of bytes written. May be repeated after an interruption. Refuses, without any change, a
// device of another size. Without `force` it also refuses a device that was changed after the
// repair, and an undo file of an interrupted repair, which cannot show such changes. `claim`: kNone
// if the caller has claimed the device. Error: a sentence for users.
std::expected<std::uint64_t, std::string> undo(
    const std::string& undo_path, const std::string& device_path, bool force,
    Backing::Claim claim = Backing::Claim::kExclusive);

}  // namespace lazyfs::device
