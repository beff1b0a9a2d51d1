// Mounts, in another process, a volume in memory whose operations fail when the test wants it.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "bench/memory_volume.h"
#include "fuse/session/daemon.h"
#include "mount_fixture.h"

namespace lazyfs::fuse {

// Shared by the test and the daemon.
struct Faults {
  std::atomic<bool> commits = false;     // every commit fails
  std::atomic<bool> memory = false;      // every commit lacks memory
  std::atomic<unsigned> commit_us = 0;   // how long every commit takes
  std::atomic<bool> ranges = false;      // punch, zero and copies fail half-way
  std::atomic<bool> attributes = false;  // a truncation fails when the size is already changed
  std::atomic<bool> writes = false;      // every write is refused
  std::atomic<std::uint64_t> size = 0;   // the volume's, of the file changed last
  std::atomic<int> dropped = 0;          // inodes that have neither names nor lookups any more
  std::atomic<int> open_files = 0;
  std::atomic<unsigned> starved = 0;     // opcode of requests that get no memory (some tests)
  std::atomic<int> data_syncs = 0;       // fsyncs of a file's data only
  std::atomic<int> forgets = 0;          // so many forgets end for lack of memory
};

class FailingVolume : public bench::MemoryVolume {
 public:
  explicit FailingVolume(Faults& faults) : MemoryVolume(true), faults_(faults) {}

  Result<> fsync(InodeNo, fs::OpenFile*, bool data_only) override {
    if (data_only) ++faults_.data_syncs;
    return commit();
  }
  Result<> fsync_directory(InodeNo) override { return commit(); }
  Result<> punch(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                 fs::RangeFlags flags) override {
    return zero(inode, offset, length, flags);  // the tests punch within the file
  }
  Result<> zero(InodeNo inode, std::uint64_t offset, std::uint64_t length,
                fs::RangeFlags) override {
    const std::vector<std::byte> zeros(faults_.ranges ? length / 2 : length);
    TRY(MemoryVolume::write(inode, offset, zeros, {}));
    TRY(note_size(inode));
    return faults_.ranges ? Result<>(fail(Errc::kDeviceWrite)) : ok();
  }
  Result<std::uint64_t> copy_range(InodeNo from, std::uint64_t from_offset, InodeNo to,
                                   std::uint64_t to_offset, std::uint64_t length, bool) override {
    std::vector<std::byte> bytes(faults_.ranges ? length / 2 : length);
    ASSIGN_OR_RETURN(const std::size_t got, read(from, from_offset, bytes, false));
    TRY(MemoryVolume::write(to, to_offset, std::span(bytes).first(got), {}));
    TRY(note_size(to));
    if (faults_.ranges) return fail(Errc::kDeviceWrite);
    return got;
  }
  Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                 fs::WriteFlags flags) override {
    if (faults_.writes) return fail(Errc::kDeviceWrite);
    TRY(MemoryVolume::write(inode, offset, from, flags));
    return note_size(inode);
  }
  Result<fs::Attributes> set_attributes(InodeNo inode, const fs::AttributeChange& change) override {
    const auto changed = MemoryVolume::set_attributes(inode, change);
    TRY(note_size(inode));
    if (change.size && faults_.attributes.exchange(false)) return fail(Errc::kDeviceWrite);
    return changed;
  }
  Result<fs::Created> create(InodeNo parent, std::string_view name, std::uint32_t mode,
                             fs::Owner owner) override {
    const auto created = MemoryVolume::create(parent, name, mode, owner);
    if (created) ++faults_.open_files;
    return created;
  }
  Result<fs::Created> create_unnamed(InodeNo parent, std::uint32_t mode,
                                     fs::Owner owner) override {
    const std::string_view name = "will have no name";
    ASSIGN_OR_RETURN(fs::Created created, create(parent, name, mode, owner));
    TRY(unlink(parent, name));
    ASSIGN_OR_RETURN(created.attributes, get_attributes(created.attributes.inode));
    return created;
  }
  Result<fs::OpenFile*> open(InodeNo inode) override {
    const auto opened = MemoryVolume::open(inode);
    if (opened) ++faults_.open_files;
    return opened;
  }
  void forget(InodeNo inode, std::uint64_t lookups) override {
    MemoryVolume::forget(inode, lookups);
    if (faults_.forgets > 0 && faults_.forgets-- > 0) throw std::bad_alloc();
  }
  void release(fs::OpenFile* file) override {
    MemoryVolume::release(file);
    --faults_.open_files;
  }

 protected:
  void dropped(InodeNo, std::uint32_t) override { ++faults_.dropped; }

 private:
  Result<> commit() {
    usleep(faults_.commit_us);
    if (faults_.memory) throw std::bad_alloc();
    return faults_.commits ? Result<>(fail(Errc::kDeviceWrite)) : ok();
  }
  Result<> note_size(InodeNo inode) {
    ASSIGN_OR_RETURN(const fs::Attributes now, get_attributes(inode));
    faults_.size = now.size;
    return ok();
  }

  Faults& faults_;
};

class FailingMount : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    void* const memory = mmap(nullptr, sizeof(Faults), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    faults_ = new (memory) Faults;
  }
  void TearDown() override {
    if (daemon_ > 0) {
      if (mounted()) umount2(mnt_.c_str(), MNT_DETACH);
      waitpid(daemon_, nullptr, 0);
    }
    if (faults_) munmap(faults_, sizeof(Faults));
    MountTest::TearDown();
  }

  void mount_failing(const std::string& options) {
    daemon_ = fork();
    if (daemon_ == 0) _exit(serve(options));
    while (!mounted() && waitpid(daemon_, nullptr, WNOHANG) == 0) usleep(1000);
    ASSERT_TRUE(mounted());
  }
  bool exists(const std::string& name) const {
    struct stat st {};
    return lstat(at(name).c_str(), &st) == 0;
  }
  // Runs `action` while the daemon is stopped: what the kernel sends meanwhile comes together.
  template <class Action>
  void while_stopped(Action&& action) {
    kill(daemon_, SIGSTOP);
    EXPECT_EQ(waitpid(daemon_, nullptr, WUNTRACED), daemon_);
    action();
    kill(daemon_, SIGCONT);
  }
  // A figure of the statistics, by its path in their JSON object.
  std::uint64_t figure(std::initializer_list<std::string> path) {
    const std::string text = run(std::string(LAZYFSCTL) + " stats --json " + mnt_).text;
    std::size_t at = 0;
    for (const std::string& key : path) at = text.find("\"" + key + "\":", at) + key.size() + 3;
    return std::strtoull(text.c_str() + std::min(at, text.size()), nullptr, 10);
  }
  // The kernel is notified after the reply, so a test waits. False: in vain.
  template <class Condition>
  static bool comes_true(Condition&& condition) {
    for (int i = 0; i < 5000; ++i) {
      if (condition()) return true;
      usleep(1000);
    }
    return false;
  }
  bool appears(const std::string& name) const {
    return comes_true([&] { return exists(name); });
  }
  bool vanishes(const std::string& name) const {
    return comes_true([&] { return !exists(name); });
  }

  Faults* faults_ = nullptr;

 private:
  int serve(const std::string& options) const {
    DaemonPlan plan;
    plan.foreground = true;
    plan.program = "fuse_faults_test";
    plan.source = "memory";
    plan.mount_point = mnt_;
    const std::string transport = by_io_uring() ? "transport=io_uring" : "transport=read";
    const auto parsed = parse_options({transport, "loglevel=off", options}, true);
    if (!parsed) return 1;
    plan.options = *parsed;
    return run_daemon(plan, [this](const DaemonPlan&) {
      return std::expected<std::shared_ptr<fs::Volume>, std::string>(
          std::make_shared<FailingVolume>(*faults_));
    });
  }

  pid_t daemon_ = -1;
};

}  // namespace lazyfs::fuse
