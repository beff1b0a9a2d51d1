// Requests during which no memory can be allocated. Each must be answered, and the daemon lives on.
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <array>
#include <cstdlib>

#include "failing_mount.h"
#include "fuse/requests/control.h"
#include "fuse/transport/request.h"

namespace {

// In the daemon: the opcode of requests that get no memory; 0: none.
const std::atomic<unsigned>* g_starved = nullptr;

bool is_starved() {
  const unsigned starved = g_starved ? g_starved->load() : 0;
  if (starved == 0) return false;
  const lazyfs::fuse::Request* const request = lazyfs::fuse::current_request();
  return request && request->header().opcode == starved;
}

}  // namespace

// These replace the ones of the standard library in this program.
void* operator new(std::size_t size) {
  void* const memory = is_starved() ? nullptr : std::malloc(size > 0 ? size : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lazyfs::fuse {
namespace {

class FailedAllocations : public FailingMount, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    FailingMount::SetUp();
    if (IsSkipped()) return;
    g_starved = &faults_->starved;
    mount_failing(GetParam());
  }
  void TearDown() override {
    g_starved = nullptr;
    FailingMount::TearDown();
  }
  void starve(unsigned opcode) { faults_->starved = opcode; }
  void feed() { faults_->starved = 0; }
  bool daemon_lives() const {
    struct statvfs space {};
    return statvfs(mnt_.c_str(), &space) == 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, FailedAllocations,
                         testing::Values("dirsync,loglevel=warn,logfile=/dev/null",
                                         "dirsync,opens,nowriteback"));

constexpr unsigned kLastOpcode = 52;     // STATX
const std::string kLongName(100, 'n');  // of which no string holds a copy in itself

TEST_P(FailedAllocations, OfAListing) {
  write("f", "text");
  const int fd = open(mnt_.c_str(), O_RDONLY | O_DIRECTORY);
  std::array<char, 4096> entries{};
  for (const unsigned opcode : {FUSE_READDIR, FUSE_READDIRPLUS}) {
    starve(opcode);
    lseek(fd, 0, SEEK_SET);
    getdents64(fd, entries.data(), entries.size());
    EXPECT_TRUE(daemon_lives()) << opcode;
  }
  close(fd);
}

TEST_P(FailedAllocations, OfAChangeOfNamesWhoseCommitFails) {
  write(kLongName, "text");
  faults_->commits = true;
  for (const unsigned opcode : {FUSE_UNLINK, FUSE_RENAME2, FUSE_MKDIR, FUSE_CREATE, FUSE_MKNOD}) {
    starve(opcode);
    unlink(at(kLongName).c_str());
    renameat2(AT_FDCWD, at(kLongName).c_str(), AT_FDCWD, at(kLongName + "2").c_str(), 1);
    mkdir(at(kLongName + "d").c_str(), 0755);
    close(open(at(kLongName + "f").c_str(), O_CREAT | O_WRONLY, 0644));
    feed();
    ASSERT_TRUE(daemon_lives()) << opcode;
  }
}

TEST_P(FailedAllocations, OfALateError) {
  const int fd = open(at("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  faults_->writes = true;
  starve(FUSE_WRITE);
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(page, MAP_FAILED);
  *static_cast<char*>(page) = 'a';
  EXPECT_ERRNO(EIO, msync(page, 4096, MS_SYNC));
  feed();
  faults_->writes = false;
  munmap(page, 4096);
  EXPECT_EQ(figure({"files", "late_errors"}), 1u);
  close(fd);
}

// The kernel forgets the files together: the others do not stay in memory for the sake of one.
TEST_P(FailedAllocations, OfOneForgetOfMany) {
  std::array<int, 8> files{};
  for (int& file : files) {
    write("f", "text");
    file = open(at("f").c_str(), O_PATH);
    ASSERT_EQ(unlink(at("f").c_str()), 0);
  }
  faults_->forgets = 1;
  while_stopped([&] {
    for (const int file : files) close(file);
  });
  EXPECT_TRUE(comes_true([this] { return faults_->dropped == 8; })) << faults_->dropped;
  EXPECT_EQ(faults_->forgets, 0);
}

TEST_P(FailedAllocations, OfEveryKindOfRequest) {
  write("f", "text");
  for (unsigned opcode = FUSE_LOOKUP; opcode <= kLastOpcode; ++opcode) {
    starve(opcode);
    const int fd = open(at("f").c_str(), O_RDWR);
    const int folder = open(mnt_.c_str(), O_RDONLY | O_DIRECTORY);
    struct stat st {};
    std::array<char, 256> text{};
    lstat(at(kLongName).c_str(), &st);
    fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 8192);
    off_t to = 0;
    copy_file_range(fd, nullptr, fd, &to, 1, 0);
    lseek(fd, 0, SEEK_HOLE);
    fsync(fd);
    fchmod(fd, 0600);
    setxattr(at("f").c_str(), "user.x", kLongName.c_str(), kLongName.size(), 0);
    getxattr(at("f").c_str(), "user.x", text.data(), text.size());
    listxattr(at("f").c_str(), text.data(), text.size());
    symlink(kLongName.c_str(), at(kLongName).c_str());
    readlink(at(kLongName).c_str(), text.data(), text.size());
    link(at("f").c_str(), at(kLongName + "l").c_str());
    ChangeAnswer answer;
    ioctl(folder, kMakeWritableRequest, &answer);
    ioctl(folder, kMakeReadOnlyRequest, &answer);
    close(open(mnt_.c_str(), O_TMPFILE | O_RDWR, 0600));
    syncfs(fd);
    close(fd);
    close(folder);
    feed();
    unlink(at(kLongName).c_str());
    unlink(at(kLongName + "l").c_str());
    ASSERT_TRUE(daemon_lives()) << opcode;
  }
}

}  // namespace
}  // namespace lazyfs::fuse
