// FUSE over io_uring as Linux 6.14 and later have it (include/uapi/linux/fuse.h, protocol 7.42),
// which this system's copy of that header lacks.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace lazyfs::fuse {

// In flags2 of INIT: offered by the kernel, taken by the answer (with FUSE_INIT_EXT in flags).
inline constexpr std::uint32_t kOverUringFlag2 = 1u << 9;

// Commands of IORING_OP_URING_CMD on /dev/fuse.
inline constexpr std::uint32_t kUringRegister = 1;        // lends a slot to the kernel
inline constexpr std::uint32_t kUringCommitAndFetch = 2;  // replies, and lends the slot again

// The last part of UringHeader.
struct UringInOut {
  std::uint64_t flags;          // 0
  std::uint64_t commit_id;      // names the request in kUringCommitAndFetch
  std::uint32_t payload_bytes;  // of the request; in the reply: of the reply
  std::uint32_t padding;
  std::uint64_t reserved;
};
static_assert(sizeof(UringInOut) == 32);

// What the kernel fills in for a request besides the payload, and reads in the reply.
struct UringHeader {
  std::byte in_out[128];    // fuse_in_header; in the reply: fuse_out_header
  std::byte operation[128];  // the structure of the request's kind
  UringInOut info;
};
static_assert(sizeof(UringHeader) == 288);

// In the last 80 bytes of the submission.
struct UringCommand {
  std::uint64_t flags;  // 0
  std::uint64_t commit_id;
  std::uint16_t queue;  // of the CPU on which the requests are made
  std::uint8_t padding[6];
};
static_assert(sizeof(UringCommand) == 24);

}  // namespace lazyfs::fuse
