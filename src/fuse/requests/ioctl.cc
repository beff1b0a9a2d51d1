// Control requests (control.h).
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/volume/volume_info.h"
#include "fuse/requests/caller.h"
#include "fuse/requests/control.h"
#include "fuse/requests/handlers.h"
#include "fuse/requests/inode_flags.h"

namespace lazyfs::fuse::handlers {
namespace {

// Whether the caller may ask for work on the mounted files. Requests about the device or the mount
// are for root only.
bool is_owner(fuse_req_t req) {
  const uid_t user = user_of(req);
  return user == 0 || user == context_of(req).owner;
}

void send_stats(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  RequestContext& context = context_of(req);
  StatsPiece piece;
  if (in_size < sizeof piece || out_size < sizeof piece) return reply_error(req, Errc::kInvalid);
  std::memcpy(&piece, in, sizeof piece);
  const auto got = call(req, Operation::ioctl, [&](fs::Volume&) -> Result<StatsTexts::Piece> {
    if (piece.number == 0) {
      piece.number = context.stats_texts.put(stats_json(context));
      piece.offset = 0;
    }
    auto found = context.stats_texts.get(piece.number, piece.offset, sizeof piece.text);
    if (!found) return fail(Errc::kStale);
    return std::move(*found);
  });
  if (!got) return reply_error(req, got.error());
  piece.length = static_cast<std::uint32_t>(got->text.size());
  piece.total = static_cast<std::uint32_t>(got->total_bytes);
  std::memcpy(piece.text, got->text.data(), got->text.size());
  fuse_reply_ioctl(req, 0, &piece, sizeof piece);
}

// The flag of FS_IOC_SHUTDOWN. The request is declared as if it returned a number, but it takes
// one. So FUSE does not send the number, and it is read from the caller's memory. If that fails,
// kShutDownNothing is assumed, which is what most callers mean.
std::uint32_t shut_down_flag(fuse_req_t req, void* argument) {
  std::uint32_t flag = kShutDownNothing;
  iovec here{&flag, sizeof flag};
  iovec there{argument, sizeof flag};
  const ssize_t got = process_vm_readv(fuse_req_ctx(req)->pid, &here, 1, &there, 1, 0);
  return got == sizeof flag ? flag : kShutDownNothing;
}

void shut_down(fuse_req_t req, void* argument) {
  if (!is_from_root(req)) return reply_error(req, Errc::kNotPermitted);
  const std::uint32_t flag = shut_down_flag(req, argument);
  const auto done = call(req, Operation::ioctl, [&](fs::Volume& volume) -> Result<> {
    if (flag > kShutDownNothing) return fail(Errc::kInvalid);
    if (flag != kShutDownNothing) TRY(volume.sync());
    volume.shut_down();
    return ok();
  });
  if (!done) return reply_error(req, done.error());
  log::warn("fuse: shut down by request (flag {})", flag);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

Result<CleanPiece> clean(fs::Volume& volume, CleanPiece piece) {
  if (piece.dead_percent < 1 || piece.dead_percent > 100) return fail(Errc::kInvalid);
  if (piece.what == CleanPiece::kStep) {
    ASSIGN_OR_RETURN(const gc::CleanStep step, volume.clean_step(piece.dead_percent));
    piece.bands = step.bands_cleaned;
    piece.blocks = step.blocks_moved;
    piece.gain = step.bands_freed;
    piece.is_done = step.is_done ? 1 : 0;
    return piece;
  }
  if (piece.what > CleanPiece::kStep) return fail(Errc::kInvalid);
  if (piece.what == CleanPiece::kPrepare) TRY(volume.prepare_cleaning());
  ASSIGN_OR_RETURN(const gc::CleanEstimate all, volume.estimate_garbage(piece.dead_percent));
  piece.bands = all.bands;
  piece.blocks = all.live_blocks;
  piece.gain = all.dead_blocks;
  return piece;
}

void clean(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  if (!is_owner(req)) return reply_error(req, Errc::kNotPermitted);
  CleanPiece piece;
  if (in_size < sizeof piece || out_size < sizeof piece) return reply_error(req, Errc::kInvalid);
  std::memcpy(&piece, in, sizeof piece);
  const auto done =
      call(req, Operation::ioctl, [&](fs::Volume& volume) { return clean(volume, piece); });
  if (!done) return reply_error(req, done.error());
  fuse_reply_ioctl(req, 0, &*done, sizeof *done);
}

ScrubPiece::Found found_of(const fs::Damage& damage) {
  if (damage.last) return {damage.inode.value, damage.last->value, ScrubPiece::kLostMetadata, 0};
  const bool is_checksum = damage.why == Errc::kDataChecksumBad;
  return {damage.inode.value, damage.offset,
          is_checksum ? ScrubPiece::kBadChecksum : ScrubPiece::kUnread, 0};
}

void scrub(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  if (!is_owner(req)) return reply_error(req, Errc::kNotPermitted);
  ScrubPiece piece;
  if (in_size < sizeof piece || out_size < sizeof piece) return reply_error(req, Errc::kInvalid);
  std::memcpy(&piece, in, sizeof piece);
  const auto step = call(req, Operation::ioctl, [&](fs::Volume& volume) {
    return volume.scrub({piece.inode, piece.file_block}, ScrubPiece::kMaxFound);
  });
  if (!step) return reply_error(req, step.error());
  piece.inode = step->next ? step->next->inode : 0;
  piece.file_block = step->next ? step->next->file_block : 0;
  piece.blocks = step->blocks;
  piece.damaged = 0;
  for (const fs::Damage& damage : step->damaged) {
    if (piece.damaged == ScrubPiece::kMaxFound) break;
    piece.found[piece.damaged++] = found_of(damage);
  }
  fuse_reply_ioctl(req, 0, &piece, sizeof piece);
}

// Follows earlier changes of the mount first. Followed later, they would undo this change.
void change_mount(fuse_req_t req, std::size_t out_size, Result<> (fs::Volume::*change)()) {
  ChangeAnswer answer;
  if (!is_from_root(req)) return reply_error(req, Errc::kNotPermitted);
  if (out_size < sizeof answer) return reply_error(req, Errc::kInvalid);
  const auto done = call(req, Operation::ioctl, [&](fs::Volume& volume) {
    context_of(req).settings.catch_up();
    return (volume.*change)();
  });
  if (!done) {
    const std::string_view reason = describe(done.error());
    reason.copy(answer.reason, sizeof answer.reason - 1);
  }
  fuse_reply_ioctl(req, 0, &answer, sizeof answer);
}

void grow(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  if (!is_from_root(req)) return reply_error(req, Errc::kNotPermitted);
  GrowRequest request;
  if (in_size < sizeof request || out_size < sizeof request) {
    return reply_error(req, Errc::kInvalid);
  }
  std::memcpy(&request, in, sizeof request);
  std::ranges::fill(request.reason, '\0');
  const auto done = call(req, Operation::ioctl, [&](fs::Volume& volume) -> Result<> {
    const fs::VolumeInfo before = volume.info();
    TRY(volume.grow(request.bytes));
    const fs::VolumeInfo after = volume.info();
    request.total_before = before.total_bytes;
    request.total_after = after.total_bytes;
    request.bands_before = before.bands;
    request.bands_after = after.bands;
    return ok();
  });
  if (!done) describe(done.error()).copy(request.reason, sizeof request.reason - 1);
  if (done) log::info("fuse: grown to {} bands by request", request.bands_after);
  fuse_reply_ioctl(req, 0, &request, sizeof request);
}

void change_options(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  if (!is_from_root(req)) return reply_error(req, Errc::kNotPermitted);
  OptionsChange change;
  if (in_size < sizeof change || out_size < sizeof change) return reply_error(req, Errc::kInvalid);
  std::memcpy(&change, in, sizeof change);
  std::ranges::fill(change.reason, '\0');
  RequestContext& context = context_of(req);
  const auto done = call(req, Operation::ioctl, [&](fs::Volume&) -> Result<> {
    const std::string_view options(change.options, strnlen(change.options, sizeof change.options));
    const auto sync = context.settings.change_options(options);
    if (sync) {
      context.sync = *sync;
    } else {
      sync.error().copy(change.reason, sizeof change.reason - 1);
    }
    return ok();
  });
  if (!done) return reply_error(req, done.error());
  fuse_reply_ioctl(req, 0, &change, sizeof change);
}

void trim(fuse_req_t req, const void* in, std::size_t in_size, std::size_t out_size) {
  if (!is_from_root(req)) return reply_error(req, Errc::kNotPermitted);
  TrimPiece piece;
  if (in_size < sizeof piece || out_size < sizeof piece) return reply_error(req, Errc::kInvalid);
  std::memcpy(&piece, in, sizeof piece);
  const auto bytes = call(req, Operation::ioctl, [&](fs::Volume& volume) {
    return volume.trim({piece.start, piece.length, piece.min_bytes});
  });
  if (!bytes) return reply_error(req, bytes.error());
  piece.length = *bytes;
  fuse_reply_ioctl(req, 0, &piece, sizeof piece);
}

void send_info(fuse_req_t req, std::size_t out_size) {
  InfoText answer;
  const auto got = call(req, Operation::ioctl, [&](fs::Volume& volume) -> Result<std::string> {
    if (out_size < sizeof answer) return fail(Errc::kInvalid);
    return fs::to_json(volume.info()).dump();
  });
  if (!got) return reply_error(req, got.error());
  got->copy(answer.text, sizeof answer.text - 1);
  fuse_reply_ioctl(req, 0, &answer, sizeof answer);
}

void send_label(fuse_req_t req, std::size_t out_size) {
  std::array<char, kLabelBytes> label{};
  const auto got = call(req, Operation::ioctl, [&](fs::Volume& volume) -> Result<std::string> {
    if (out_size < label.size()) return fail(Errc::kInvalid);
    return volume.info().label;
  });
  if (!got) return reply_error(req, got.error());
  got->copy(label.data(), label.size() - 1);
  fuse_reply_ioctl(req, 0, label.data(), label.size());
}

void send_uuid(fuse_req_t req, std::size_t out_size) {
  UuidAnswer answer;
  const auto got = call(req, Operation::ioctl, [&](fs::Volume& volume) -> Result<> {
    if (out_size < sizeof answer) return fail(Errc::kInvalid);
    const auto uuid = volume.info().uuid;
    answer.length = static_cast<std::uint8_t>(uuid.size());
    std::ranges::copy(uuid, answer.uuid);
    return ok();
  });
  if (!got) return reply_error(req, got.error());
  fuse_reply_ioctl(req, 0, &answer, sizeof answer);
}

void sync_all(fuse_req_t req) {
  const auto done = call(req, Operation::syncfs, [](fs::Volume& volume) { return volume.sync(); });
  if (!done) return reply_error(req, done.error());
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

}  // namespace

void ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void* argument, fuse_file_info*,
           unsigned, const void* in, std::size_t in_size, std::size_t out_size) {
  if (command == kStatsRequest) return send_stats(req, in, in_size, out_size);
  if (command == kCleanRequest) return clean(req, in, in_size, out_size);
  if (command == kScrubRequest) return scrub(req, in, in_size, out_size);
  if (command == kSyncRequest) return sync_all(req);
  if (command == kMakeWritableRequest) {
    return change_mount(req, out_size, &fs::Volume::make_writable);
  }
  if (command == kMakeReadOnlyRequest) {
    return change_mount(req, out_size, &fs::Volume::make_read_only);
  }
  if (command == kGrowRequest) return grow(req, in, in_size, out_size);
  if (command == kChangeOptionsRequest) return change_options(req, in, in_size, out_size);
  if (command == kTrimRequest) return trim(req, in, in_size, out_size);
  if (command == kInfoRequest) return send_info(req, out_size);
  if (command == kLabelRequest) return send_label(req, out_size);
  if (command == kUuidRequest) return send_uuid(req, out_size);
  if (command == kShutDownRequest) return shut_down(req, argument);
  if (answer_flags_request(req, ino, command, in, in_size, out_size)) return;
  fuse_reply_err(req, ENOTTY);
}

}  // namespace lazyfs::fuse::handlers
