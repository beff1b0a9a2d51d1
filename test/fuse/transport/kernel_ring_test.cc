// The ring and the kernel, over a mount whose daemon is the test.
#include "fuse/transport/kernel_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "../enable_uring.h"
#include "base/types.h"

namespace lazyfs::fuse {
namespace {

constexpr std::size_t kPayloadBytes = 64 << 10;

class KernelRingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EnableUring::is_possible()) GTEST_SKIP() << "needs root and FUSE over io_uring";
    char name[] = "/tmp/lazyfs-ring-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    mnt_ = name;
    fd_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd_, 0);
    const std::string options =
        "fd=" + std::to_string(fd_) + ",rootmode=40000,user_id=0,group_id=0";
    ASSERT_EQ(::mount("ring-test", mnt_.c_str(), "fuse.ring-test", 0, options.c_str()), 0);
    answer_init();
  }
  void TearDown() override {
    if (mnt_.empty()) return;
    close(fd_);
    umount2(mnt_.c_str(), MNT_DETACH);
    rings_.clear();  // the last that holds /dev/fuse: the connection ends
    if (program_.joinable()) program_.join();
    rmdir(mnt_.c_str());
  }

  void answer_init() {
    const EnableUring enable;
    alignas(8) std::byte request[FUSE_MIN_READ_BUFFER + kPayloadBytes];
    ASSERT_GT(::read(fd_, request, sizeof request), 0);
    fuse_in_header asked{};
    std::memcpy(&asked, request, sizeof asked);
    ASSERT_EQ(asked.opcode, static_cast<std::uint32_t>(FUSE_INIT));
    struct {
      fuse_out_header header;
      fuse_init_out body;
    } answer{};
    answer.header.len = sizeof answer;
    answer.header.unique = asked.unique;
    answer.body.major = FUSE_KERNEL_VERSION;
    answer.body.minor = FUSE_KERNEL_MINOR_VERSION;
    answer.body.flags = FUSE_INIT_EXT | FUSE_MAX_PAGES;
    answer.body.flags2 = kOverUringFlag2;
    answer.body.max_write = kPayloadBytes;
    answer.body.max_pages = kPayloadBytes / 4096;
    ASSERT_EQ(::write(fd_, &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
  }
  void make_rings(unsigned count, std::size_t payload_bytes) {
    auto rings = make_kernel_rings(fd_, count, payload_bytes);
    ASSERT_TRUE(rings) << rings.error();
    rings_ = *std::move(rings);
  }
  // A program calls stat(2) of the root; the result is in error_.
  void begin_stat() {
    program_ = std::thread([this] {
      struct stat st {};
      error_ = stat(mnt_.c_str(), &st) == 0 ? 0 : errno;
    });
  }
  void expect_requests_by_the_device() {
    if (!program_.joinable()) begin_stat();
    alignas(8) std::byte request[FUSE_MIN_READ_BUFFER + kPayloadBytes];
    ASSERT_GT(::read(fd_, request, sizeof request), 0);
    fuse_in_header asked{};
    std::memcpy(&asked, request, sizeof asked);
    EXPECT_EQ(asked.opcode, static_cast<std::uint32_t>(FUSE_GETATTR));
    const fuse_out_header answer{.len = sizeof answer, .error = -EBADMSG, .unique = asked.unique};
    ASSERT_EQ(::write(fd_, &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
    program_.join();
    EXPECT_EQ(error_, EBADMSG);
  }
  // Whichever ring gets the request. The ring's owner is this thread.
  RingSlot* wait_for_request(RequestRing*& by) {
    for (;;) {
      for (auto& ring : rings_) {
        by = ring.get();
        if (RingSlot* const slot = ring->take()) return slot;
      }
      std::this_thread::yield();
    }
  }

  std::string mnt_;
  int fd_ = -1;
  std::vector<std::unique_ptr<RequestRing>> rings_;
  std::thread program_;
  int error_ = -1;
};

TEST_F(KernelRingTest, ARequestComesAndItsReplyGoes) {
  make_rings(2, kPayloadBytes);
  for (auto& ring : rings_) ASSERT_TRUE(ring->begin());
  begin_stat();
  RequestRing* ring = nullptr;
  RingSlot* const slot = wait_for_request(ring);
  EXPECT_EQ(slot->request.header().opcode, static_cast<std::uint32_t>(FUSE_GETATTR));
  EXPECT_EQ(slot->request.bytes.size(), sizeof(fuse_in_header) + sizeof(fuse_getattr_in));
  EXPECT_EQ(slot->unique, slot->request.header().unique);
  fuse_out_header header{.len = sizeof header, .error = -EBADMSG, .unique = slot->unique};
  const iovec piece{&header, sizeof header};
  ring->fill(*slot, {&piece, 1});
  ring->put(*slot);
  ring->flush();
  program_.join();
  EXPECT_EQ(error_, EBADMSG);
}

// A program lists the root's extended attributes.
TEST_F(KernelRingTest, DataThatLiesInTheReplySpaceArrives) {
  make_rings(2, kPayloadBytes);
  for (auto& ring : rings_) ASSERT_TRUE(ring->begin());
  std::string found(kPayloadBytes, '?');
  program_ = std::thread([&] {
    const ssize_t length = listxattr(mnt_.c_str(), found.data(), found.size());
    found.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  });
  RequestRing* ring = nullptr;
  RingSlot* const slot = wait_for_request(ring);
  ASSERT_EQ(slot->request.header().opcode, static_cast<std::uint32_t>(FUSE_LISTXATTR));
  const std::span<std::byte> space = slot->request.reply_space;
  ASSERT_EQ(space.size(), kPayloadBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(space.data()) % kBlockBytes, 0u);
  const std::string names("user.one\0user.two\0", 18);
  std::memcpy(space.data(), names.data(), names.size());
  fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof header + names.size()),
                         .error = 0,
                         .unique = slot->unique};
  const iovec pieces[] = {{&header, sizeof header}, {space.data(), names.size()}};
  ring->fill(*slot, pieces);
  ring->put(*slot);
  ring->flush();
  program_.join();
  EXPECT_EQ(found, names);
}

// A slot that another ring gives back comes there with its next request.
TEST_F(KernelRingTest, AnotherRingMayLendASlot) {
  make_rings(2, kPayloadBytes);
  for (auto& ring : rings_) ASSERT_TRUE(ring->begin());
  RequestRing* ring = nullptr;
  RingSlot* slot = nullptr;
  const auto answer = [&](RequestRing& by, int error) {
    fuse_out_header header{.len = sizeof header, .error = -error, .unique = slot->unique};
    const iovec piece{&header, sizeof header};
    for (auto& each : rings_) {
      const std::span<RingSlot> own = each->slots();
      if (slot >= own.data() && slot < own.data() + own.size()) each->fill(*slot, {&piece, 1});
    }
    by.put(*slot);
    by.flush();
    program_.join();
    EXPECT_EQ(error_, error);
  };
  begin_stat();
  slot = wait_for_request(ring);
  RequestRing& home = *ring;
  RequestRing& other = *rings_[ring == rings_[0].get() ? 1 : 0];
  answer(other, EBADMSG);
  const RingSlot* const lent = slot;
  for (int tries = 0; tries < 1000; ++tries) {  // until a stat runs on the same CPU
    begin_stat();
    slot = wait_for_request(ring);
    const bool is_lent = slot == lent;
    if (is_lent) {
      EXPECT_EQ(ring, &other);
      return answer(home, EBADMSG);
    }
    answer(*ring, EBADMSG);
  }
  FAIL() << "the kernel has not used the slot again";
}

TEST_F(KernelRingTest, ASleepingOwnerIsWoken) {
  make_rings(1, kPayloadBytes);
  ASSERT_TRUE(rings_[0]->begin());
  std::thread waker([this] { rings_[0]->wake(); });
  rings_[0]->wait();
  waker.join();
  EXPECT_EQ(rings_[0]->take(), nullptr);
  EXPECT_FALSE(rings_[0]->has_ended());
}

// Slots too small for the kernel's largest request.
TEST_F(KernelRingTest, ARefusedRingLeavesRequestsToTheDevice) {
  make_rings(2, kPayloadBytes / 2);
  for (auto& ring : rings_) EXPECT_FALSE(ring->begin());
  expect_requests_by_the_device();
}

TEST_F(KernelRingTest, ADeclinedRingLeavesRequestsToTheDevice) {
  make_rings(2, kPayloadBytes);
  ASSERT_TRUE(rings_[0]->begin());  // and the other ring never begins
  begin_stat();
  rings_[0]->decline();
  expect_requests_by_the_device();
}

TEST_F(KernelRingTest, EndsWithTheConnection) {
  make_rings(1, kPayloadBytes);
  ASSERT_TRUE(rings_[0]->begin());
  umount2(mnt_.c_str(), MNT_FORCE);
  while (!rings_[0]->has_ended()) rings_[0]->take();
}

}  // namespace
}  // namespace lazyfs::fuse
