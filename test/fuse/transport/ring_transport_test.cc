// What only the transport by rings does. transport_test.cc has what both transports promise.
#include "fuse/transport/ring_transport.h"

#include <gtest/gtest.h>

#include <array>

#include "base/before_wait.h"
#include "socket_ring.h"

namespace lazyfs::fuse {
namespace {

class RingTransportTest : public testing::Test {
 protected:
  RingTransportTest() {
    for (auto& pair : pairs_) {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
    }
  }
  ~RingTransportTest() override {
    transport_.reset();
    for (const auto& pair : pairs_) {
      for (const int end : pair) close(end);
    }
  }

  // Two rings; those of `broken` cannot begin. Each has the requests of some CPUs' programs.
  bool start(RequestHandler handler, std::array<bool, 2> broken = {},
             std::array<std::vector<unsigned>, 2> cpus = {}) {
    std::vector<std::unique_ptr<RequestRing>> rings;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      auto ring = std::make_unique<SocketRing>(pairs_[i][1], !broken[i], cpus[i]);
      rings_[i] = ring.get();
      rings.push_back(std::move(ring));
    }
    rings_[0]->share_with(*rings_[1]);
    rings_[1]->share_with(*rings_[0]);
    const auto kind = [](const Request& request) {
      switch (request.header().opcode) {
        case FUSE_FSYNC: return Wait::kLikely;
        case FUSE_READ: return Wait::kOften;
        default: return Wait::kNever;
      }
    };
    transport_ = std::make_unique<RingTransport>(
        std::move(rings), TransportOptions{.threads_max = 8}, std::move(handler), kind,
        [this] { has_ended_ = true; });
    return transport_->start();
  }
  void send(std::size_t ring, std::uint32_t opcode, std::uint64_t unique) {
    const fuse_in_header header{.len = sizeof header, .opcode = opcode, .unique = unique};
    ASSERT_EQ(::send(pairs_[ring][0], &header, sizeof header, 0),
              static_cast<ssize_t>(sizeof header));
  }
  bool reply(std::uint64_t unique, std::size_t payload_bytes = 0) {
    fuse_out_header header{.len = sizeof header, .error = 0, .unique = unique};
    std::vector<std::byte> payload(payload_bytes);
    const iovec pieces[] = {{&header, sizeof header}, {payload.data(), payload.size()}};
    return transport_->reply(pieces);
  }
  // Handled, and perhaps not answered.
  void note(const Request&) {
    MutexLock lock(mu_);
    ++handled_;
    changed_.notify_all();
  }
  void wait_for(unsigned count) {
    MutexLock lock(mu_);
    while (handled_ < count) changed_.wait(mu_);
  }

  std::array<std::array<int, 2>, 2> pairs_{};
  std::array<SocketRing*, 2> rings_{};
  std::unique_ptr<RingTransport> transport_;
  Mutex mu_;
  CondVar changed_;
  std::atomic<bool> has_ended_{false};
  unsigned handled_ GUARDED_BY(mu_) = 0;
};

TEST_F(RingTransportTest, EachRingIsServed) {
  ASSERT_TRUE(start([&](const Request& request) {
    const std::uint64_t unique = request.header().unique;
    EXPECT_TRUE(reply(unique));
    note(request);
  }));
  for (std::uint64_t i = 1; i <= 1000; ++i) send(i % 2, i % 7 == 0 ? FUSE_FSYNC : FUSE_LOOKUP, i);
  wait_for(1000);
  EXPECT_EQ(transport_->counts().requests, 1000u);
}

TEST_F(RingTransportTest, ARingThatCannotBeginMakesAllDecline) {
  for (const std::array<bool, 2> broken : {std::array{true, false}, std::array{false, true}}) {
    EXPECT_FALSE(start([](const Request&) {}, broken));
    EXPECT_TRUE(rings_[0]->has_declined());
    EXPECT_TRUE(rings_[1]->has_declined());
    EXPECT_TRUE(transport_->has_ended());
  }
}

TEST_F(RingTransportTest, AnyThreadMayReplyLaterAndOnlyOnce) {
  ASSERT_TRUE(start([&](const Request& request) { note(request); }));
  for (std::uint64_t i = 1; i <= 100; ++i) send(0, FUSE_LSEEK, i);
  for (std::uint64_t i = 1; i <= 100; ++i) {  // a ring has fewer slots
    wait_for(static_cast<unsigned>(i));
    EXPECT_TRUE(reply(i));
    EXPECT_FALSE(reply(i));
  }
}

TEST_F(RingTransportTest, NotificationsAndRepliesToOthersAreNotTaken) {
  ASSERT_TRUE(start([&](const Request& request) { note(request); }));
  send(0, FUSE_LSEEK, 7);
  wait_for(1);
  EXPECT_FALSE(reply(0));
  EXPECT_FALSE(reply(8));
  EXPECT_TRUE(reply(7));
}

TEST_F(RingTransportTest, TheEndOfARingEndsAll) {
  ASSERT_TRUE(start([](const Request&) {}));
  shutdown(pairs_[1][0], SHUT_RDWR);
  transport_->join();
  EXPECT_TRUE(has_ended_);
}

TEST_F(RingTransportTest, ARequestMayBeAnsweredAfterTheEnd) {
  ASSERT_TRUE(start([&](const Request& request) { note(request); }));
  send(1, FUSE_DESTROY, 1);
  wait_for(1);
  transport_->stop();
  transport_->join();
  EXPECT_TRUE(reply(1));
  transport_->send_late_replies();
}

// The kernel copies a long reply on the CPU of the worker that has made it; the slot goes home with
// its next short one.
TEST_F(RingTransportTest, ALongReplyIsGivenBackWhereItWasMade) {
  std::vector<unsigned> all;  // CPUs that workers may run on
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) all.push_back(cpu);
  std::atomic<std::size_t> payload_bytes{0};
  const auto handle = [&](const Request& request) {
    EXPECT_TRUE(reply(request.header().unique, payload_bytes));
    note(request);
  };
  ASSERT_TRUE(start(handle, {}, {std::vector<unsigned>{}, all}));
  unsigned sent = 0;
  const auto ask = [&](std::size_t ring, std::size_t bytes) {
    payload_bytes = bytes;
    for (unsigned i = 0; i < 10; ++i) {
      send(ring, FUSE_FSYNC, ++sent);
      wait_for(sent);
    }
  };
  ask(0, 1 << 20);
  while (rings_[0]->puts() + rings_[1]->puts() < 10) std::this_thread::yield();
  EXPECT_EQ(rings_[1]->puts(), 10u);
  ask(1, 0);  // in the slots that were put there last
  while (rings_[0]->puts() + rings_[1]->puts() < 20) std::this_thread::yield();
  EXPECT_EQ(rings_[0]->puts(), 10u);
}

// While a request keeps its ring's owner busy, the others of its kind go to workers at once.
TEST_F(RingTransportTest, AKindThatTakesLongIsLeftToWorkers) {
  std::atomic<bool> may_end{false};
  ASSERT_TRUE(start([&](const Request& request) {
    const std::uint64_t unique = request.header().unique;
    while (unique == 1 && !may_end) std::this_thread::yield();
    EXPECT_TRUE(reply(unique));
    note(request);
  }));
  send(0, FUSE_MKDIR, 1);
  while (transport_->counts().stuck == 0) std::this_thread::yield();
  for (std::uint64_t i = 2; i <= 5; ++i) send(0, FUSE_MKDIR, i);
  send(0, FUSE_LOOKUP, 6);
  wait_for(5);
  EXPECT_EQ(transport_->counts().handovers, 4u);
  may_end = true;
  wait_for(6);
}

// Its owner tries a read, and may not wait.
TEST_F(RingTransportTest, AReadThatWouldWaitIsHandledAgainByAWorker) {
  std::atomic<unsigned> tries{0};
  ASSERT_TRUE(start([&](const Request& request) {
    const bool is_read = request.header().opcode == FUSE_READ;
    if (is_read) ++tries;
    EXPECT_TRUE(is_read || may_wait());
    if (!may_wait()) return defer_current_request();
    EXPECT_TRUE(reply(request.header().unique));
    note(request);
  }));
  for (std::uint64_t i = 1; i <= 10; ++i) {
    send(i % 2, FUSE_READ, i);
    wait_for(static_cast<unsigned>(i));
  }
  send(0, FUSE_LOOKUP, 11);
  wait_for(11);
  EXPECT_GT(tries, 10u);
  EXPECT_EQ(transport_->counts().handovers, 10u);
}

TEST_F(RingTransportTest, AReadThatNeedsNotWaitStaysWithTheOwner) {
  ASSERT_TRUE(start([&](const Request& request) {
    EXPECT_FALSE(may_wait());
    EXPECT_TRUE(reply(request.header().unique));
    note(request);
  }));
  for (std::uint64_t i = 1; i <= 10; ++i) send(i % 2, FUSE_READ, i);
  wait_for(10);
  EXPECT_EQ(transport_->counts().handovers, 0u);
}

}  // namespace
}  // namespace lazyfs::fuse
