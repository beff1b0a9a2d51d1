// Both transports over a socket pair, which keeps messages apart as /dev/fuse does.
#include "fuse/transport/transport.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/before_wait.h"
#include "fuse/transport/ring_transport.h"
#include "socket_ring.h"
#include "test/support/thread_refusal.h"

namespace lazyfs::fuse {
namespace {

constexpr std::uint32_t kShort = FUSE_LOOKUP;
constexpr std::uint32_t kLong = FUSE_FSYNC;
constexpr std::uint32_t kPerhapsLong = FUSE_MKDIR;
constexpr std::uint32_t kOftenLong = FUSE_READ;

Wait wait_of(const Request& request) {
  switch (request.header().opcode) {
    case kLong: return Wait::kLikely;
    case kPerhapsLong: return Wait::kSeldom;
    case kOftenLong: return Wait::kOften;
    default: return Wait::kNever;
  }
}

enum class Way { kRead, kRing };

// What both transports promise.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void stop() = 0;
  virtual void join() = 0;
  virtual TransportCounts counts() const = 0;
  virtual bool ended() const = 0;
};

class ReadSubject final : public Subject {
 public:
  ReadSubject(int fd, const TransportOptions& options, RequestHandler handler)
      : transport_(fd, options, std::move(handler), wait_of) {
    EXPECT_TRUE(transport_.start());
  }
  void stop() override { transport_.stop(); }
  void join() override { transport_.join(); }
  TransportCounts counts() const override { return transport_.counts(); }
  bool ended() const override {
    pollfd end{.fd = transport_.ended_fd(), .events = POLLIN};
    return poll(&end, 1, 0) == 1;
  }

 private:
  Transport transport_;
};

// Each request gets an empty reply when it has been handled, unless it was deferred.
class RingSubject final : public Subject {
 public:
  RingSubject(int fd, const TransportOptions& options, RequestHandler handler)
      : transport_(one_ring(fd), options,
                   [this, theirs = std::move(handler)](const Request& request) {
                     fuse_out_header header{.len = sizeof header, .error = 0, .unique = 0};
                     header.unique = request.header().unique;
                     theirs(request);
                     if (current_request_is_deferred()) return;
                     const iovec piece{&header, sizeof header};
                     EXPECT_TRUE(transport_.reply({&piece, 1}));
                   },
                   wait_of) {
    EXPECT_TRUE(transport_.start());
  }
  void stop() override { transport_.stop(); }
  void join() override { transport_.join(); }
  TransportCounts counts() const override { return transport_.counts(); }
  bool ended() const override { return transport_.has_ended(); }

 private:
  static std::vector<std::unique_ptr<RequestRing>> one_ring(int fd) {
    std::vector<std::unique_ptr<RequestRing>> rings;
    rings.push_back(std::make_unique<SocketRing>(fd));
    return rings;
  }
  RingTransport transport_;
};

class TransportTest : public testing::TestWithParam<Way> {
 protected:
  TransportTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_.data()), 0); }
  ~TransportTest() override {
    transport_.reset();
    for (const int end : ends_) close(end);
  }

  void start(RequestHandler handler, TransportOptions options = {.threads_max = 4}) {
    if (GetParam() == Way::kRead) {
      transport_ = std::make_unique<ReadSubject>(ends_[1], options, std::move(handler));
    } else {
      transport_ = std::make_unique<RingSubject>(ends_[1], options, std::move(handler));
    }
  }
  void send(std::uint32_t opcode, std::uint64_t unique, std::size_t payload_bytes = 0) {
    std::vector<std::byte> bytes(sizeof(fuse_in_header) + payload_bytes);
    fuse_in_header header{};
    header.len = static_cast<std::uint32_t>(bytes.size());
    header.opcode = opcode;
    header.unique = unique;
    std::memcpy(bytes.data(), &header, sizeof header);
    ASSERT_EQ(::send(ends_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void note(std::uint64_t unique) {
    {
      MutexLock lock(mu_);
      seen_.insert(unique);
    }
    ++changes_;
    changes_.notify_all();
  }
  void wait_for(std::uint64_t unique) {
    wait_until([&]() REQUIRES(mu_) { return seen_.contains(unique); });
  }
  void wait_for_count(std::size_t count) {
    wait_until([&]() REQUIRES(mu_) { return seen_.size() >= count; });
  }
  // Without saying so: with a CondVar a handler would announce that it waits.
  template <class Condition>
  void wait_until(Condition condition) {
    for (;;) {
      const unsigned before = changes_;
      {
        MutexLock lock(mu_);
        if (condition()) return;
      }
      changes_.wait(before);
    }
  }

  std::array<int, 2> ends_{};
  std::unique_ptr<Subject> transport_;
  Mutex mu_;
  std::set<std::uint64_t> seen_ GUARDED_BY(mu_);
  std::atomic<unsigned> changes_{0};  // of seen_
};

std::string name_of_way(const testing::TestParamInfo<Way>& info) {
  return info.param == Way::kRead ? "Read" : "Ring";
}
INSTANTIATE_TEST_SUITE_P(Ways, TransportTest, testing::Values(Way::kRead, Way::kRing), name_of_way);

TEST_P(TransportTest, HandlesEveryRequestOnce) {
  std::atomic<std::uint64_t> handled{0};
  start([&](const Request& request) {
    ++handled;
    note(request.header().unique);
  });
  for (std::uint64_t i = 1; i <= 5000; ++i) send(kShort, i);
  wait_for_count(5000);
  transport_->stop();
  transport_->join();
  EXPECT_EQ(handled, 5000u);
  EXPECT_EQ(transport_->counts().requests, 5000u);
}

TEST_P(TransportTest, TheRequestInHandIsKnownToItsThreadOnly) {
  std::atomic<bool> right{false};
  start([&](const Request& request) {
    right = current_request() == &request;
    note(request.header().unique);
  });
  EXPECT_EQ(current_request(), nullptr);
  send(kShort, 1);
  wait_for(1);
  EXPECT_TRUE(right);
}

TEST_P(TransportTest, WhatAWriteBringsLiesOnAPageBoundary) {
  std::atomic<std::uintptr_t> at{1};
  start([&](const Request& request) {
    at = reinterpret_cast<std::uintptr_t>(request.bytes.data() + sizeof(fuse_in_header) +
                                          sizeof(fuse_write_in));
    note(request.header().unique);
  });
  send(FUSE_WRITE, 1, sizeof(fuse_write_in) + 4096);
  wait_for(1);
  EXPECT_EQ(at % 4096, 0u);
}

TEST_P(TransportTest, ARequestTooShortForItsBodyHasNone) {
  std::atomic<bool> has_body{true};
  start([&](const Request& request) {
    has_body = request.body<fuse_write_in>() != nullptr;
    note(request.header().unique);
  });
  send(FUSE_WRITE, 1, sizeof(fuse_write_in) - 1);
  wait_for(1);
  EXPECT_FALSE(has_body);
}

// Blocks requests `long_ones` until `release` was handled; that can only be if another thread
// serves.
TEST_P(TransportTest, AnAnnouncedLongRequestDelaysNoOther) {
  start([&](const Request& request) {
    if (request.header().opcode == kLong) wait_for(100);
    note(request.header().unique);
  });
  for (std::uint64_t i = 1; i <= 3; ++i) send(kLong, i);
  for (std::uint64_t i = 10; i < 20; ++i) send(kShort, i);
  send(kShort, 100);
  wait_for_count(14);
  EXPECT_EQ(transport_->counts().handovers, 3u);
}

TEST_P(TransportTest, AReadThatSaysThatItWaitsDelaysNoOther) {
  start([&](const Request& request) {
    if (request.header().opcode == kOftenLong) {
      if (!may_wait()) return defer_current_request();
      about_to_wait();
      wait_for(100);
    }
    note(request.header().unique);
  });
  for (std::uint64_t i = 1; i <= 3; ++i) send(kOftenLong, i);
  send(kShort, 100);
  wait_for_count(4);
  EXPECT_GT(transport_->counts().handovers, 0u);  // 3, unless the watchdog was faster with some
}

TEST_P(TransportTest, AShortRequestThatTakesLongDelaysNoOther) {
  start([&](const Request& request) {
    if (request.header().unique <= 3) wait_for(100);
    note(request.header().unique);
  });
  for (std::uint64_t i = 1; i <= 3; ++i) send(kShort, i);
  send(kShort, 100);
  wait_for_count(4);
  EXPECT_GE(transport_->counts().stuck, 1u);  // or the watchdog had added a thread before
}

TEST_P(TransportTest, GoesOnAfterEveryThreadWasBusy) {
  start(
      [&](const Request& request) {
        if (request.header().unique <= 2) wait_for(1000);
        note(request.header().unique);
      },
      {.threads_max = 2});
  send(kShort, 1);
  send(kShort, 2);
  send(kShort, 3);  // waits: two threads are all there are
  note(1000);
  wait_for(3);
  EXPECT_LE(transport_->counts().threads, 2u);
  for (std::uint64_t i = 10; i < 1000; ++i) send(kShort, i);
  wait_for_count(4 + 990);
}

TEST_P(TransportTest, LongRequestsLeaveThreadsToOthers) {
  start(
      [&](const Request& request) {
        if (request.header().opcode == kLong) wait_for(1000);
        note(request.header().unique);
      },
      {.threads_max = 4});
  for (std::uint64_t i = 1; i <= 20; ++i) send(kLong, i);
  send(kShort, 100);
  wait_for(100);
  EXPECT_EQ(transport_->counts().parked, 17u);
  note(1000);
  wait_for_count(22);
  send(kLong, 200);  // none of the threads is lost
  wait_for(200);
  EXPECT_EQ(transport_->counts().parked, 17u);
}

// Those that turn out to wait, and writes with their data.
TEST_P(TransportTest, RequestsThatMayWaitLeaveThreadsToOthers) {
  start(
      [&](const Request& request) {
        if (request.header().opcode != kShort) wait_for(1000);
        note(request.header().unique);
      },
      {.threads_max = 4});
  for (std::uint64_t i = 1; i <= 20; ++i) send(i % 2 == 0 ? kLong : kPerhapsLong, i, i * 1000);
  send(kShort, 100);
  wait_for(100);
  EXPECT_EQ(transport_->counts().parked, 17u);
  note(1000);
  wait_for_count(22);
  for (std::uint64_t i = 200; i < 220; ++i) send(kPerhapsLong, i);  // none of the threads is lost
  wait_for_count(42);
  EXPECT_LE(transport_->counts().threads, 4u);
}

TEST_P(TransportTest, AParkedWriteKeepsItsDataOnAPageBoundary) {
  std::atomic<int> right{0};
  start(
      [&](const Request& request) {
        wait_for(1000);
        const auto data = request.bytes.subspan(sizeof(fuse_in_header) + sizeof(fuse_write_in));
        if (reinterpret_cast<std::uintptr_t>(data.data()) % 4096 == 0 && data.size() == 8192) {
          ++right;
        }
        note(request.header().unique);
      },
      {.threads_max = 2});
  for (std::uint64_t i = 1; i <= 10; ++i) send(kLong, i, sizeof(fuse_write_in) + 8192);
  while (transport_->counts().parked < 9) usleep(1000);
  note(1000);
  wait_for_count(11);
  EXPECT_EQ(right, 10);
}

TEST_P(TransportTest, ParkedRequestsAreHandledAfterTheEnd) {
  start(
      [&](const Request& request) {
        wait_for(1000);
        note(request.header().unique);
      },
      {.threads_max = 2});
  for (std::uint64_t i = 1; i <= 5; ++i) send(kLong, i);
  while (transport_->counts().parked < 4) usleep(1000);
  transport_->stop();
  note(1000);
  transport_->join();
  EXPECT_EQ(seen_.size(), 6u);
}

// Besides the thread that runs the test: a watchdog, a thread that reads or owns the ring, and one
// that waits.
constexpr unsigned kFewestThreads = 3;

TEST_P(TransportTest, ServesWithTheThreadsThatTheSystemGives) {
  if (!can_refuse_threads()) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(with_threads(kFewestThreads, [&] {
              start(
                  [&](const Request& request) {
                    if (request.header().opcode == kLong) wait_for(1000);
                    note(request.header().unique);
                  },
                  {.threads_max = 16});
              for (std::uint64_t i = 1; i <= 20; ++i) send(kLong, i);
              send(kShort, 100);
              wait_for(100);
              const bool are_few = transport_->counts().threads == 2;
              note(1000);
              wait_for_count(22);
              return are_few;
            }), 0);
}

TEST_P(TransportTest, TriesLaterToHaveMoreThreads) {
  if (!can_refuse_threads()) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(with_threads(kFewestThreads, [&] {
              start(
                  [&](const Request& request) {
                    const std::uint64_t unique = request.header().unique;
                    if (request.header().opcode == kLong) wait_for(unique < 10 ? 1000 : 2000);
                    note(unique);
                  },
                  {.threads_max = 16, .try_threads_after = std::chrono::milliseconds(0)});
              for (std::uint64_t i = 1; i <= 3; ++i) send(kLong, i);
              send(kShort, 100);
              wait_for(100);
              allow_threads(30);
              note(1000);
              wait_for_count(5);
              for (std::uint64_t i = 11; i <= 15; ++i) send(kLong, i);
              while (transport_->counts().threads < 6) std::this_thread::yield();
              note(2000);
              wait_for_count(11);
              return true;
            }), 0);
}

TEST_P(TransportTest, DoesNotStartWithTooFewThreads) {
  if (!can_refuse_threads()) GTEST_SKIP() << "only root can become another user";
  for (unsigned possible = 0; possible < kFewestThreads; ++possible) {
    EXPECT_EQ(with_threads(possible, [&] {
                if (GetParam() == Way::kRead) {
                  Transport transport(ends_[1], {}, [](const Request&) {}, wait_of);
                  const auto started = transport.start();
                  return !started && started.error() == Errc::kNoThread;
                }
                std::vector<std::unique_ptr<RequestRing>> rings;
                rings.push_back(std::make_unique<SocketRing>(ends_[1]));
                return !RingTransport(std::move(rings), {}, [](const Request&) {}, wait_of).start();
              }), 0) << possible;
  }
}

TEST_P(TransportTest, NeverHasMoreThreadsThanAllowed) {
  start([&](const Request& request) { note(request.header().unique); }, {.threads_max = 3});
  for (std::uint64_t i = 1; i <= 3000; ++i) send(i % 3 == 0 ? kLong : kShort, i);
  wait_for_count(3000);
  EXPECT_LE(transport_->counts().threads, 3u);
}

TEST_P(TransportTest, ServesWithoutSpinning) {
  start([&](const Request& request) { note(request.header().unique); },
        {.threads_max = 4, .spin = std::chrono::microseconds(0)});
  for (std::uint64_t i = 1; i <= 200; ++i) {
    send(kShort, i);
    wait_for(i);
  }
  EXPECT_EQ(transport_->counts().spins, 0u);
  EXPECT_GT(transport_->counts().sleeps, 0u);
}

TEST_P(TransportTest, EndsWhenTheOtherSideIsGone) {
  start([&](const Request& request) { note(request.header().unique); });
  send(kShort, 1);
  wait_for(1);
  EXPECT_FALSE(transport_->ended());
  shutdown(ends_[0], SHUT_RDWR);
  transport_->join();
  EXPECT_TRUE(transport_->ended());
}

TEST_P(TransportTest, StopLetsTheRunningRequestFinish) {
  start([&](const Request& request) {
    if (request.header().unique == 1) wait_for(2);
    note(request.header().unique);
  });
  send(kLong, 1);
  while (transport_->counts().handovers == 0) std::this_thread::yield();
  transport_->stop();
  note(2);
  transport_->join();
  wait_for(1);
}

class ReadTransportTest : public TransportTest {};
INSTANTIATE_TEST_SUITE_P(Ways, ReadTransportTest, testing::Values(Way::kRead), name_of_way);

TEST_P(ReadTransportTest, AReadThatDoesNotWaitCallsNoOtherThread) {
  start([&](const Request& request) { note(request.header().unique); });
  for (std::uint64_t i = 1; i <= 100; ++i) send(kOftenLong, i);
  wait_for_count(100);
  EXPECT_EQ(transport_->counts().handovers, 0u);
}

// T3. The only thread that has ended its request is not active: it handed over, and the others,
// which the watchdog gave the turn to, are all held.
TEST_P(ReadTransportTest, AThreadThatHandedOverTakesTheNextRequestsItself) {
  start([&](const Request& request) {
    const std::uint64_t unique = request.header().unique;
    if (unique == 1) wait_for(100);
    if (unique >= 2 && unique <= 4) {
      note(unique + 100);
      wait_for(200);
    }
    note(unique);
  });
  send(kLong, 1);
  for (std::uint64_t i = 2; i <= 4; ++i) send(kShort, i);
  for (std::uint64_t i = 102; i <= 104; ++i) wait_for(i);
  for (std::uint64_t i = 10; i < 20; ++i) send(kLong, i);
  note(100);
  for (std::uint64_t i = 10; i < 20; ++i) wait_for(i);
  EXPECT_EQ(transport_->counts().handovers, 1u);
  note(200);
}

// T2. With a tick of 0 the watchdog retires workers all the time, also those whose request is just
// about to end. Were such a worker to lead, an active one would read all the time and never rest.
TEST_P(ReadTransportTest, AtRestAllThreadsButTheLeaderRest) {
  start(
      [&](const Request& request) {
        for (auto i = request.header().unique % 64; i > 0; --i) std::this_thread::yield();
        note(request.header().unique);
      },
      {.threads_max = 4, .tick = std::chrono::milliseconds(0)});
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    send(kShort, i);
    wait_for(i);
    for (auto counts = transport_->counts(); counts.resting + 1 != counts.threads;) {
      std::this_thread::yield();
      counts = transport_->counts();
    }
  }
}

constexpr std::chrono::hours kNoTick{1};  // the watchdog helps nobody

// T3. Many threads that have waited end at once, while more requests are in the queue than threads.
TEST_P(ReadTransportTest, OnlyAsManyThreadsGoOnAsThereAreCpus) {
  const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
  const unsigned waiting = 2 * cpus + 4;
  std::atomic<unsigned> running{0};
  start(
      [&](const Request& request) {
        if (request.header().opcode == kLong) return wait_for(1000);
        ++running;
        wait_for(2000);
      },
      {.threads_max = 2 * waiting, .tick = kNoTick});
  for (std::uint64_t i = 1; i <= waiting; ++i) send(kLong, i);
  while (transport_->counts().handovers < waiting) std::this_thread::yield();
  for (std::uint64_t i = 1; i <= 2 * waiting; ++i) send(kShort, 100 + i);
  note(1000);
  TransportCounts counts = transport_->counts();
  while (counts.resting + running < counts.threads) {
    std::this_thread::yield();
    counts = transport_->counts();
  }
  EXPECT_EQ(running, cpus + 1);  // and the active one
  note(2000);
}

// T6. A long request ends while all assistants work, so that its thread rests. Then one of them
// waits.
TEST_P(ReadTransportTest, AnAssistantThatWaitsLeavesParkedRequestsToAnotherThread) {
  const unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
  const unsigned kept = cpus + 4, longs = 3 * kept;
  constexpr std::uint64_t kParked = 10'000, kBegun = 100'000, kRelease = 200'000, kWait = 300'000;
  constexpr std::uint64_t kHoldsTheActiveThread = 20'000;
  start(
      [&](const Request& request) {
        const std::uint64_t unique = request.header().unique;
        note(kBegun + unique);
        if (unique == kParked) {
          wait_for(kWait);
          about_to_wait();
        }
        wait_for(kRelease + unique);
      },
      {.threads_max = 4 * kept, .tick = kNoTick});
  for (std::uint64_t i = 1; i <= longs; ++i) send(kLong, i);
  for (std::uint64_t i = 1; i <= longs; ++i) wait_for(kBegun + i);
  for (std::uint64_t i = 0; i <= cpus; ++i) send(kOftenLong, kParked + i);
  send(kShort, kHoldsTheActiveThread);
  wait_for(kBegun + kHoldsTheActiveThread);
  EXPECT_EQ(transport_->counts().parked, cpus + 1);
  for (std::uint64_t i = 1; i <= cpus; ++i) note(kRelease + i);
  for (std::uint64_t i = 0; i < cpus; ++i) wait_for(kBegun + kParked + i);
  note(kRelease + cpus + 1);
  while (transport_->counts().resting == 0) std::this_thread::yield();
  note(kWait);
  wait_for(kBegun + kParked + cpus);
  for (std::uint64_t i = 1; i <= longs; ++i) note(kRelease + i);
  for (std::uint64_t i = 0; i <= cpus; ++i) note(kRelease + kParked + i);
  note(kRelease + kHoldsTheActiveThread);
}

// T5. Only buffers are too large for the memory that is left.
TEST_P(ReadTransportTest, ARequestThatCannotBeParkedForLackOfMemoryIsHandledAtOnce) {
  if (!can_refuse_threads()) GTEST_SKIP() << "sanitizers need memory of their own";
  EXPECT_EQ(with_threads(kFewestThreads, [&] {
              start(
                  [&](const Request& request) {
                    note(100 + request.header().unique);
                    wait_for(1000);
                    note(request.header().unique);
                  },
                  {.threads_max = 2, .payload_bytes_max = std::size_t{1} << 30, .tick = kNoTick});
              send(kLong, 1, 8192);
              wait_for(101);
              const rlimit none{};
              setrlimit(RLIMIT_AS, &none);
              send(kLong, 2, 8192);
              wait_for(102);
              send(kPerhapsLong, 3, 8192);
              note(1000);
              for (std::uint64_t i = 1; i <= 3; ++i) wait_for(i);
              return true;
            }), 0);
}

// T6. A request that is left over would be handled by nobody.
TEST_P(ReadTransportTest, NoParkedRequestIsLeftOver) {
  Mutex mu;
  CondVar never;
  start(
      [&](const Request& request) {
        const std::uint64_t unique = request.header().unique;
        if (unique % 3 == 0) {
          MutexLock lock(mu);
          never.wait_for(mu, std::chrono::microseconds(unique % 64));
        }
        note(unique);
      },
      {.threads_max = 6, .tick = kNoTick});
  constexpr std::uint64_t kRounds = 300, kAtOnce = 40;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (std::uint64_t i = 0; i < kAtOnce; ++i) {
      send(i % 4 == 3 ? kLong : kPerhapsLong, round * kAtOnce + i + 1);
    }
    wait_for_count((round + 1) * kAtOnce);
  }
  EXPECT_GT(transport_->counts().parked, 0u);
}

}  // namespace
}  // namespace lazyfs::fuse
