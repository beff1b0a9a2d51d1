#include "fuse/session/session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "fuse/requests/low_level.h"
#include "fuse/requests/handlers.h"
#include "fuse/requests/operations.h"
#include "fuse/transport/kernel_ring.h"

namespace lazyfs::fuse {
namespace {

constexpr std::uint32_t kLargeWriteBytes = 128 << 10;
constexpr std::uint32_t kSmallReadBytes = 128 << 10;

// libfuse reports why a mount failed only by a line of its log.
Mutex g_mount_error_mu;
std::string g_mount_error GUARDED_BY(g_mount_error_mu);

void take_log(fuse_log_level level, const char* format, va_list arguments) {
  char line[512];
  vsnprintf(line, sizeof line, format, arguments);
  std::string text(line);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (level > FUSE_LOG_ERR) return log::debug("libfuse: {}", text);
  MutexLock lock(g_mount_error_mu);
  g_mount_error = text.starts_with("fuse: ") ? text.substr(6) : text;
}

std::string mount_error() {
  MutexLock lock(g_mount_error_mu);
  return g_mount_error.empty() ? "the kernel refused the mount" : g_mount_error;
}

bool offers(const fuse_init_in& asked, std::uint32_t flag2) {
  return (asked.flags & FUSE_INIT_EXT) != 0 && (asked.flags2 & flag2) != 0;
}

// What this system's copy of linux/fuse.h lacks.
// Of Linux 6.12 and later: idmapped mounts are possible, and only requests that make an inode say
// who asks (requests/caller.h).
constexpr std::uint32_t kAllowIdmapFlag2 = 1u << 8;
// Of Linux 6.15 and later (protocol 7.43): a number of seconds in 2 bytes of the answer to INIT.
constexpr std::uint32_t kRequestTimeoutFlag2 = 1u << 10;
constexpr std::size_t kRequestTimeoutOffset = 40;
static_assert(offsetof(fuse_init_out, unused) < kRequestTimeoutOffset);

void allow_idmapped_mounts(const fuse_init_in& asked, fuse_init_out& given) {
  if (!offers(asked, kAllowIdmapFlag2)) return log::warn("fuse: no idmap, which needs Linux 6.12");
  given.flags |= FUSE_INIT_EXT;
  given.flags2 |= kAllowIdmapFlag2;
}

void limit_requests(const fuse_init_in& asked, unsigned seconds, fuse_init_out& given) {
  if (!offers(asked, kRequestTimeoutFlag2)) {
    return log::warn("fuse: no request_timeout, which needs Linux 6.15");
  }
  const auto limit = static_cast<std::uint16_t>(seconds);
  std::memcpy(reinterpret_cast<std::byte*>(&given) + kRequestTimeoutOffset, &limit, sizeof limit);
  given.flags |= FUSE_INIT_EXT;
  given.flags2 |= kRequestTimeoutFlag2;
}

ssize_t write_answer(int, iovec* pieces, int count, void* context) {
  return static_cast<RequestContext*>(context)->send(
      std::span(pieces, static_cast<std::size_t>(count)));
}

ssize_t read_request(int fd, void* to, std::size_t size, void*) { return ::read(fd, to, size); }

bool is_synchronous(const Request& write) {
  const auto* body = write.body<fuse_write_in>();
  return body && (body->flags & O_DSYNC) != 0;
}

Wait wait_of(const Request& request) {
  switch (request.header().opcode) {
    case FUSE_READ: return Wait::kOften;
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_SYNCFS:
    case FUSE_COPY_FILE_RANGE:
    case FUSE_IOCTL: return Wait::kLikely;
    case FUSE_WRITE: {
      const bool is_large = request.bytes.size() >= kLargeWriteBytes;
      return is_large || is_synchronous(request) ? Wait::kLikely : Wait::kSeldom;
    }
    case FUSE_CREATE:
    case FUSE_FALLOCATE:
    case FUSE_LINK:
    case FUSE_MKDIR:
    case FUSE_MKNOD:
    case FUSE_REMOVEXATTR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_RMDIR:
    case FUSE_SETATTR:
    case FUSE_SETXATTR:
    case FUSE_SYMLINK:
    case FUSE_TMPFILE:
    case FUSE_UNLINK: return Wait::kSeldom;
    default: return Wait::kNever;
  }
}

// With rings, the thread that takes a WRITE handles it, however large, unless WRITEs take long:
// passing the data to another thread costs more than handling it. The reply to a long READ is
// copied by the CPU of the thread that read the data, while the program's CPU copies an earlier
// reply.
Wait ring_wait_of(const Request& request) {
  const Wait wait = wait_of(request);
  if (const auto* read = request.body<fuse_read_in>(); request.header().opcode == FUSE_READ) {
    return read && read->size <= kSmallReadBytes ? wait : Wait::kLikely;
  }
  if (request.header().opcode != FUSE_WRITE || is_synchronous(request)) return wait;
  return Wait::kSeldom;
}

std::string header_text(const fuse_in_header& header) {
  return fmt::format("unique: {}, opcode: {}, nodeid: {}, insize: {}, pid: {}", header.unique,
                     header.opcode, header.nodeid, header.len, header.pid);
}

std::string mount_options(const SessionOptions& options, const MountPlace& place) {
  char* text = nullptr;
  for (const std::string& option : options.kernel) fuse_opt_add_opt(&text, option.c_str());
  fuse_opt_add_opt_escaped(&text, ("fsname=" + place.source).c_str());
  fuse_opt_add_opt(&text, "subtype=lazyfs");
  fuse_opt_add_opt(&text, "default_permissions");
  if (options.allow_other) fuse_opt_add_opt(&text, "allow_other");
  if (options.debug) fuse_opt_add_opt(&text, "debug");
  if (place.block_device) {
    fuse_opt_add_opt(&text, "blkdev");
    fuse_opt_add_opt(&text, "blksize=4096");
  }
  std::string owned = text ? text : "";
  free(text);
  return owned;
}

}  // namespace

Session::Session(fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
                 std::shared_ptr<MountKeeper> keeper)
    : options_(options),
      place_(place),
      keeper_(std::move(keeper)),
      context_(volume, options.requests) {
  context_.transport_json = [this] { return transport_json(); };
  context_.send = [this](std::span<const iovec> pieces) { return send(pieces); };
}

std::expected<std::unique_ptr<Session>, std::string> Session::mount(
    fs::Volume& volume, const SessionOptions& options, const MountPlace& place,
    std::shared_ptr<MountKeeper> keeper) {
  std::unique_ptr<Session> session(new Session(volume, options, place, std::move(keeper)));
  if (auto made = session->make_threads(); !made) return std::unexpected(made.error());
  if (auto attached = session->attach(); !attached) return std::unexpected(attached.error());
  if (!session->wait_until_ready()) {
    return std::unexpected(std::string("the kernel ended the connection at once"));
  }
  session->raise_read_ahead();
  return session;
}

std::expected<void, std::string> Session::make_threads() {
  auto unmounter = Unmounter::make(keeper_, place_.mount_point);
  if (!unmounter) return std::unexpected(std::string(describe(unmounter.error())));
  unmounter_ = *std::move(unmounter);
  if (const auto made = context_.side_thread.start(); !made) {
    return std::unexpected(std::string(describe(made.error())));
  }
  return {};
}

std::expected<void, std::string> Session::attach() {
  fuse_set_log_func(take_log);
  std::string program = "lazyfs", dash_o = "-o", options = mount_options(options_, place_);
  std::array<char*, 3> words{program.data(), dash_o.data(), options.data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(words.size()), words.data());
  session_ = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), &context_);
  fuse_opt_free_args(&arguments);
  if (!session_) return std::unexpected(mount_error());
  context_.session = session_;
  if (fuse_session_mount(session_, place_.mount_point.c_str()) != 0) {
    return std::unexpected(mount_error());
  }
  mounted_ = true;
  fd_ = fuse_session_fd(session_);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
  static constexpr fuse_custom_io kIo{.writev = write_answer, .read = read_request};
  if (fuse_session_custom_io(session_, &kIo, fd_) != 0) return std::unexpected(mount_error());
  prepare_rings();
  transport_ = std::make_unique<Transport>(
      fd_, options_.transport, [this](const Request& request) { handle(request); }, wait_of);
  if (const auto started = transport_->start(); !started) {
    return std::unexpected(std::string(describe(started.error())));
  }
  return {};
}

// All that may fail is done before the answer to INIT, after which the kernel waits for the rings.
void Session::prepare_rings() {
  if (options_.transport.choice != TransportChoice::kIoUring) return;
  if (const auto offers = kernel_offers_rings(); !offers) {
    return log::warn("fuse: no transport by io_uring: {}", offers.error());
  }
  const unsigned count_max = std::max(1u, options_.transport.threads_max / 2);
  auto rings = make_kernel_rings(fd_, count_max, options_.transport.payload_bytes_max);
  if (!rings) return log::warn("fuse: no transport by io_uring: {}", rings.error());
  rings_ = std::make_unique<RingTransport>(
      *std::move(rings), options_.transport, [this](const Request& request) { handle(request); },
      ring_wait_of, [this] { transport_->stop(); });
}

// Adds to the answer to INIT what libfuse 3.14 does not know but the kernel offers:
// FUSE_HANDLE_KILLPRIV_V2 makes the daemon drop set-user-ID bits (requests/set_id.h) and saves a
// request for security.capability before every write.
void Session::amend_init(const Request& request, std::span<const iovec> answer) {
  const auto* asked = request.body<fuse_init_in>();
  if (!asked || answer.size() < 2 || answer[1].iov_len < offsetof(fuse_init_out, unused)) return;
  auto* given = static_cast<fuse_init_out*>(answer[1].iov_base);
  given->flags |= asked->flags & FUSE_HANDLE_KILLPRIV_V2;
  if (options_.request_timeout_s != 0 && answer[1].iov_len == sizeof(fuse_init_out)) {
    limit_requests(*asked, options_.request_timeout_s, *given);
  }
  if (options_.idmap) allow_idmapped_mounts(*asked, *given);
  if (!rings_) return;
  rings_agreed_ = offers(*asked, kOverUringFlag2);
  if (!rings_agreed_) return log::warn("fuse: the kernel does not offer requests by io_uring");
  given->flags |= FUSE_INIT_EXT;
  given->flags2 |= kOverUringFlag2;
}

// After INIT: the kernel holds all requests back until the rings have begun, or one was refused.
void Session::begin_rings() {
  if (!rings_agreed_) return;
  if (rings_->start()) {
    rings_carry_ = true;
    log::info("fuse: requests come by io_uring");
  } else {
    log::warn("fuse: requests come by /dev/fuse, because a ring could not begin");
  }
}

bool Session::wait_until_ready() {
  MutexLock lock(mu_);
  while (!ready_) {
    ready_changed_.wait_for(mu_, std::chrono::milliseconds(100));
    pollfd ended{.fd = transport_->ended_fd(), .events = POLLIN};
    if (!ready_ && poll(&ended, 1, 0) == 1) return false;
  }
  return true;
}

Session::~Session() {
  context_.side_thread.finish();
  context_.name_thread.finish();
  if (transport_) {
    transport_->stop();
    transport_->join();
  }
  if (rings_) {
    rings_->stop();
    rings_->join();
  }
  if (session_) fuse_session_destroy(session_);  // ends the connection, and with it every request
  if (mounted_) detach(*keeper_, place_.mount_point);  // serve() has not returned
}

// The kernel reads ahead 128 KiB by default, and libfuse has no option for more. Best effort: a
// smaller window costs speed only.
void Session::raise_read_ahead() const {
  struct stat st {};
  if (stat(place_.mount_point.c_str(), &st) != 0) return;
  const std::string device =
      std::to_string(major(st.st_dev)) + ":" + std::to_string(minor(st.st_dev));
  const std::string suffix = place_.block_device ? "-fuseblk" : "";
  std::ofstream knob("/sys/class/bdi/" + device + suffix + "/read_ahead_kb");
  knob << options_.read_ahead_kib << std::flush;
  if (!knob) log::debug("fuse: the read-ahead window of {} stays as it is", device);
}

// --- requests ------------------------------------------------------------------------------------

void Session::handle(const Request& request) {
  const fuse_in_header header = request.header();  // the bytes are not valid after the reply
  if (header.opcode == FUSE_DESTROY) {
    destroy_unique_ = header.unique;
    if (rings_) rings_->stop();
    return transport_->stop();  // answered by farewell()
  }
  if (answer_low_level(context_, request)) {
    if (options_.debug) log::debug("{} (answered without libfuse)", header_text(header));
    return;
  }
  fuse_buf buffer{};
  buffer.size = request.bytes.size();
  buffer.mem = request.bytes.data();
  fuse_session_process_buf(session_, &buffer);
  if (header.opcode != FUSE_INIT) return;
  begin_rings();
  set_ready();
}

ssize_t Session::send(std::span<const iovec> pieces) {
  if (rings_ && rings_->reply(pieces)) return 0;
  const Request* request = current_request();
  if (request && request->header().opcode == FUSE_INIT) amend_init(*request, pieces);
  return writev(fd_, pieces.data(), static_cast<int>(pieces.size()));
}

void Session::set_ready() {
  MutexLock lock(mu_);
  ready_ = true;
  ready_changed_.notify_all();
}

Json Session::transport_json() const {
  TransportCounts counts = transport_->counts();
  if (rings_) counts += rings_->counts();  // /dev/fuse is read all the same
  return Json::object({{"kind", rings_carry_ ? "io_uring" : "read"},
                       {"requests", counts.requests},
                       {"threads", counts.threads},
                       {"spins", counts.spins},
                       {"spins_won", counts.spins_won},
                       {"sleeps", counts.sleeps},
                       {"handovers", counts.handovers},
                       {"parked", counts.parked},
                       {"stuck", counts.stuck},
                       {"awake", counts.latency_limits}});
}

// --- the end -------------------------------------------------------------------------------------

void Session::serve() {
  if (unmounter_->wait_for_end(transport_->ended_fd())) keeper_->note_end();
  context_.side_thread.finish();  // while workers run: its jobs wait for requests
  context_.name_thread.finish();
  transport_->stop();
  transport_->join();
  if (rings_) {
    rings_->stop();
    rings_->join();
  }
  mounted_ = false;
}

void Session::farewell() {
  if (const std::uint64_t unique = destroy_unique_.exchange(0); unique != 0) {
    answer_error(context_, unique, 0);
  }
  if (rings_) rings_->send_late_replies();
}

}  // namespace lazyfs::fuse
