// A request of the kernel, as transports pass it to the session's handler.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace lazyfs::fuse {

// A request as the kernel sent it. The bytes are valid until the request is answered, or while it
// is handled if it needs no answer; the handler may change them. The data of a WRITE begins at a
// page boundary.
struct Request {
  std::span<std::byte> bytes;  // at least a fuse_in_header
  // Memory for the reply's data, from which it need not be copied once more. Valid until the
  // request is answered. Begins at a page boundary. Empty: there is none.
  std::span<std::byte> reply_space = {};

  const fuse_in_header& header() const {
    return *reinterpret_cast<const fuse_in_header*>(bytes.data());
  }
  // The argument that follows the header; null when the request is too short to hold a T.
  template <class T>
  const T* body() const {
    if (bytes.size() < sizeof(fuse_in_header) + sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(bytes.data() + sizeof(fuse_in_header));
  }
};

// The request that this thread is handling, or null.
const Request* current_request();

// Called by a handler that returns without a reply because this thread must not wait
// (base/before_wait.h). The transport passes the request to another thread, which handles it from
// the start.
void defer_current_request();
bool current_request_is_deferred();

// Makes `request` the one that this thread is handling. For transports.
class CurrentRequest {
 public:
  explicit CurrentRequest(const Request& request);
  ~CurrentRequest();
  CurrentRequest(const CurrentRequest&) = delete;
  CurrentRequest& operator=(const CurrentRequest&) = delete;
};

// Whether a request waits for the disk, as far as its kind tells.
enum class Wait : std::uint8_t {
  kNever,    // except to read metadata
  kSeldom,   // when memory, the log or the disk is full
  kOften,    // unless memory has what is read
  kLikely,
};

using RequestHandler = std::function<void(const Request&)>;  // on any thread; must not throw
using WaitOf = std::function<Wait(const Request&)>;

}  // namespace lazyfs::fuse
