// System calls on a mount, and what they answer.
#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "mount_fixture.h"

namespace lazyfs::fuse {
namespace {

// With and without the kernel announcing opens, and without its write-back cache.
class Syscalls : public MountTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (!IsSkipped()) mount_it(GetParam());
  }
  std::set<std::string> names_in(const std::string& directory) const {
    std::set<std::string> names;
    DIR* dir = opendir(at(directory).c_str());
    while (const dirent* entry = readdir(dir)) {
      EXPECT_TRUE(names.insert(entry->d_name).second) << entry->d_name << " came twice";
    }
    closedir(dir);
    return names;
  }
  // What `action` returns in a process of another user; 99 if it cannot become one.
  template <class Action>
  static int do_as_other(const Action& action) {
    const pid_t child = fork();
    if (child == 0) _exit(setgid(1234) == 0 && setuid(1234) == 0 ? action() : 99);
    int how = 0;
    EXPECT_EQ(waitpid(child, &how, 0), child);
    return WEXITSTATUS(how);
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Syscalls, testing::Values("rw", "opens", "nowriteback", "spin=0"));

TEST_P(Syscalls, AFileKeepsWhatWasWritten) {
  write("f", "hello");
  EXPECT_EQ(read("f"), "hello");
  EXPECT_EQ(status_of("f").st_size, 5);
  std::ofstream(at("f"), std::ios::app) << ", world";
  EXPECT_EQ(read("f"), "hello, world");
  write("f", "short");
  EXPECT_EQ(read("f"), "short");
}

TEST_P(Syscalls, LargeAndUnalignedIoComesBack) {
  std::string text(5'000'001, 'a');
  for (std::size_t i = 0; i < text.size(); i += 97) text[i] = static_cast<char>('a' + i % 26);
  const int fd = open(at("big").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(pwrite(fd, text.data() + 7, text.size() - 7, 7), ssize_t(text.size() - 7));
  ASSERT_EQ(pwrite(fd, text.data(), 7, 0), 7);
  ASSERT_EQ(fsync(fd), 0);
  ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  std::string back(text.size() + 10, '?');
  EXPECT_EQ(pread(fd, back.data(), back.size(), 0), ssize_t(text.size()));
  back.resize(text.size());
  EXPECT_TRUE(back == text);
  EXPECT_EQ(pread(fd, back.data(), 10, off_t(text.size())), 0);
  close(fd);
}

TEST_P(Syscalls, HolesAndTruncationReadAsZeros) {
  const int fd = open(at("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(pwrite(fd, "x", 1, 100'000), 1);
  ASSERT_EQ(ftruncate(fd, 50'000), 0);
  ASSERT_EQ(ftruncate(fd, 200'000), 0);
  std::string back(200'000, '?');
  EXPECT_EQ(pread(fd, back.data(), back.size(), 0), 200'000);
  EXPECT_EQ(back.find_first_not_of('\0'), std::string::npos);
  close(fd);
}

TEST_P(Syscalls, SharedMappingsReachTheFile) {
  write("f", std::string(10'000, '.'));
  const int fd = open(at("f").c_str(), O_RDWR);
  auto* map = static_cast<char*>(mmap(nullptr, 10'000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(map, MAP_FAILED);
  std::memcpy(map + 5000, "mapped", 6);
  ASSERT_EQ(msync(map, 10'000, MS_SYNC), 0);
  munmap(map, 10'000);
  close(fd);
  EXPECT_EQ(read("f").substr(4999, 8), ".mapped.");
}

TEST_P(Syscalls, DirectIoReadsWhatWasWritten) {
  const int fd = open(at("f").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0644);
  ASSERT_GE(fd, 0);
  void* memory = nullptr;
  ASSERT_EQ(posix_memalign(&memory, 4096, 8192), 0);
  std::memset(memory, 'd', 8192);
  EXPECT_EQ(pwrite(fd, memory, 8192, 4096), 8192);
  std::memset(memory, 0, 8192);
  EXPECT_EQ(pread(fd, memory, 8192, 8192), 4096);
  EXPECT_EQ(static_cast<char*>(memory)[4095], 'd');
  free(memory);
  close(fd);
}

TEST_P(Syscalls, ErrorsAreThoseOfAnyFilesystem) {
  write("f", "x");
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  write("d/inner", "y");
  const std::string long_name(256, 'n'), longest_name(255, 'n');
  EXPECT_ERRNO(ENOENT, open(at("none").c_str(), O_RDONLY));
  EXPECT_ERRNO(EEXIST, open(at("f").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644));
  EXPECT_ERRNO(EISDIR, open(at("d").c_str(), O_WRONLY));
  EXPECT_ERRNO(ENOTDIR, open(at("f/below").c_str(), O_RDONLY));
  EXPECT_ERRNO(EEXIST, mkdir(at("d").c_str(), 0755));
  EXPECT_ERRNO(ENOTEMPTY, rmdir(at("d").c_str()));
  EXPECT_ERRNO(ENOTDIR, rmdir(at("f").c_str()));
  EXPECT_ERRNO(EISDIR, unlink(at("d").c_str()));
  EXPECT_ERRNO(ENOENT, unlink(at("none").c_str()));
  EXPECT_ERRNO(ENAMETOOLONG, mkdir(at(long_name).c_str(), 0755));
  EXPECT_EQ(mkdir(at(longest_name).c_str(), 0755), 0);
  EXPECT_ERRNO(EPERM, link(at("d").c_str(), at("l").c_str()));
  EXPECT_ERRNO(EEXIST, link(at("f").c_str(), at("d").c_str()));
  EXPECT_ERRNO(EINVAL, rename(at("d").c_str(), at("d/below").c_str()));
  EXPECT_ERRNO(ENOTDIR, rename(at("d").c_str(), at("f").c_str()));
  EXPECT_ERRNO(EISDIR, rename(at("f").c_str(), at("d").c_str()));
  EXPECT_ERRNO(ENOENT, rename(at("none").c_str(), at("g").c_str()));
  EXPECT_ERRNO(EXDEV, rename(at("f").c_str(), "/tmp/lazyfs-other"));
  char target[8];
  EXPECT_ERRNO(EINVAL, int(readlink(at("f").c_str(), target, sizeof target)));
  EXPECT_ERRNO(EFBIG, truncate(at("f").c_str(), INT64_MAX));
  EXPECT_ERRNO(ENOTTY, [&] {
    const int fd = open(at("f").c_str(), O_RDONLY);
    const int result = ioctl(fd, _IO('?', 1), 0);
    close(fd);
    return result;
  }());
}

TEST_P(Syscalls, ProjectsAndExtentSizesAreNotSupported) {
  write("f", "text");
  const int fd = open(at("f").c_str(), O_RDONLY);
  fsxattr flags{};
  flags.fsx_xflags = FS_XFLAG_NODUMP;
  EXPECT_EQ(ioctl(fd, FS_IOC_FSSETXATTR, &flags), 0);
  for (const auto other : {&fsxattr::fsx_projid, &fsxattr::fsx_extsize, &fsxattr::fsx_cowextsize}) {
    fsxattr values = flags;
    values.*other = 4096;
    EXPECT_ERRNO(EOPNOTSUPP, ioctl(fd, FS_IOC_FSSETXATTR, &values));
  }
  close(fd);
}

TEST_P(Syscalls, RenameReplacesExchangesOrRefuses) {
  write("a", "A");
  write("b", "B");
  EXPECT_ERRNO(EEXIST,
               renameat2(AT_FDCWD, at("a").c_str(), AT_FDCWD, at("b").c_str(), RENAME_NOREPLACE));
  EXPECT_EQ(renameat2(AT_FDCWD, at("a").c_str(), AT_FDCWD, at("b").c_str(), RENAME_EXCHANGE), 0);
  EXPECT_EQ(read("a"), "B");
  EXPECT_EQ(read("b"), "A");
  EXPECT_EQ(rename(at("a").c_str(), at("b").c_str()), 0);
  EXPECT_EQ(read("b"), "B");
  EXPECT_ERRNO(ENOENT, access(at("a").c_str(), F_OK));
  EXPECT_ERRNO(EINVAL,
               renameat2(AT_FDCWD, at("b").c_str(), AT_FDCWD, at("c").c_str(), RENAME_WHITEOUT));
}

TEST_P(Syscalls, DirectoriesCountTheirLinksAndMove) {
  for (const char* name : {"p", "p/q", "r"}) ASSERT_EQ(mkdir(at(name).c_str(), 0755), 0);
  EXPECT_EQ(status_of("p").st_nlink, 3u);
  ASSERT_EQ(rename(at("p/q").c_str(), at("r/q").c_str()), 0);
  EXPECT_EQ(status_of("p").st_nlink, 2u);
  EXPECT_EQ(status_of("r").st_nlink, 3u);
  EXPECT_EQ(status_of("r/q/..").st_ino, status_of("r").st_ino);
  ASSERT_EQ(rmdir(at("r/q").c_str()), 0);
  EXPECT_EQ(status_of("r").st_nlink, 2u);
  EXPECT_EQ(names_in("r"), (std::set<std::string>{".", ".."}));
}

TEST_P(Syscalls, HardLinksShareEverything) {
  write("a", "shared");
  ASSERT_EQ(link(at("a").c_str(), at("b").c_str()), 0);
  EXPECT_EQ(status_of("a").st_nlink, 2u);
  EXPECT_EQ(status_of("a").st_ino, status_of("b").st_ino);
  ASSERT_EQ(unlink(at("a").c_str()), 0);
  EXPECT_EQ(read("b"), "shared");
  EXPECT_EQ(status_of("b").st_nlink, 1u);
}

TEST_P(Syscalls, AnUnlinkedFileLivesUntilItIsClosed) {
  const int fd = open(at("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::write(fd, "still", 5), 5);
  ASSERT_EQ(unlink(at("f").c_str()), 0);
  EXPECT_ERRNO(ENOENT, access(at("f").c_str(), F_OK));
  char back[6] = {};
  EXPECT_EQ(pread(fd, back, 5, 0), 5);
  EXPECT_STREQ(back, "still");
  EXPECT_EQ(::write(fd, " here", 5), 5);
  struct stat st {};
  EXPECT_EQ(fstat(fd, &st), 0);
  EXPECT_EQ(st.st_nlink, 0u);
  EXPECT_EQ(st.st_size, 10);
  close(fd);
}

TEST_P(Syscalls, SymlinksAndNodesAreWhatTheyWereMadeAs) {
  ASSERT_EQ(symlink("over/there", at("s").c_str()), 0);
  EXPECT_EQ(std::filesystem::read_symlink(at("s")), "over/there");
  EXPECT_TRUE(S_ISLNK(status_of("s").st_mode));
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(S_ISFIFO(status_of("pipe").st_mode));
  ASSERT_EQ(mknod(at("null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  EXPECT_EQ(status_of("null").st_rdev, makedev(1, 3));
  const int null = open(at("null").c_str(), O_WRONLY);  // devices work on root's mounts
  EXPECT_EQ(::write(null, "x", 1), 1);
  close(null);
}

TEST_P(Syscalls, ModesOwnersAndTimesAreKept) {
  write("f", "x");
  ASSERT_EQ(chmod(at("f").c_str(), 04711), 0);
  EXPECT_EQ(status_of("f").st_mode, mode_t(S_IFREG | 04711));
  ASSERT_EQ(chown(at("f").c_str(), 1000, 1001), 0);
  EXPECT_EQ(status_of("f").st_uid, 1000u);
  EXPECT_EQ(status_of("f").st_gid, 1001u);
  EXPECT_EQ(status_of("f").st_mode, mode_t(S_IFREG | 0711));  // a new owner drops set-user-ID
  const timespec times[] = {{.tv_sec = 11, .tv_nsec = 22}, {.tv_sec = 33, .tv_nsec = 44}};
  ASSERT_EQ(utimensat(AT_FDCWD, at("f").c_str(), times, 0), 0);
  EXPECT_EQ(status_of("f").st_atim.tv_sec, 11);
  EXPECT_EQ(status_of("f").st_atim.tv_nsec, 22);
  EXPECT_EQ(status_of("f").st_mtim.tv_sec, 33);
  EXPECT_EQ(status_of("f").st_mtim.tv_nsec, 44);
}

TEST_P(Syscalls, OthersMayDoOnlyWhatTheModeAllows) {
  write("mine", "secret");
  ASSERT_EQ(chmod(at("mine").c_str(), 0600), 0);
  write("ours", "open");
  ASSERT_EQ(chmod(at("ours").c_str(), 06777), 0);
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  const auto use_both = [this] {
    if (open(at("mine").c_str(), O_RDONLY) >= 0 || errno != EACCES) return 1;
    if (mkdir(at("new").c_str(), 0755) == 0 || errno != EACCES) return 2;
    const int fd = open(at("ours").c_str(), O_WRONLY);
    if (fd < 0 || ::write(fd, "x", 1) != 1) return 3;
    struct stat st {};
    if (fstat(fd, &st) != 0 || (st.st_mode & 06000) != 0) return 4;  // writing drops both bits
    return 0;
  };
  EXPECT_EQ(do_as_other(use_both), 0);
  EXPECT_EQ(status_of("ours").st_mode & 06000u, 0u);
}

TEST_P(Syscalls, ATruncationByOthersDropsSetIdBits) {
  write("ours", "open");
  ASSERT_EQ(chmod(at("ours").c_str(), 06777), 0);
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  EXPECT_EQ(do_as_other([this] { return truncate(at("ours").c_str(), 1); }), 0);
  EXPECT_EQ(status_of("ours").st_mode & 06777u, 0777u);
  ASSERT_EQ(chmod(at("ours").c_str(), 06777), 0);
  ASSERT_EQ(truncate(at("ours").c_str(), 0), 0);
  EXPECT_EQ(status_of("ours").st_mode & 06777u, 06777u) << "root may keep them";
}

TEST_P(Syscalls, OnlyRootSeesTrustedAttributes) {
  write("f", "x");
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  ASSERT_EQ(setxattr(at("f").c_str(), "trusted.one", "1", 1, 0), 0);
  ASSERT_EQ(setxattr(at("f").c_str(), "user.two", "2", 1, 0), 0);
  constexpr ssize_t kBoth = sizeof "trusted.one" + sizeof "user.two";
  EXPECT_EQ(listxattr(at("f").c_str(), nullptr, 0), kBoth);
  const auto list = [this] { return static_cast<int>(listxattr(at("f").c_str(), nullptr, 0)); };
  EXPECT_EQ(do_as_other(list), static_cast<int>(sizeof "user.two"));
}

TEST_P(Syscalls, ADirectorysGroupIsInheritedWhereItsModeSaysSo) {
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  ASSERT_EQ(chown(at("d").c_str(), 0, 4321), 0);
  ASSERT_EQ(chmod(at("d").c_str(), 02775), 0);
  write("d/f", "x");
  ASSERT_EQ(mkdir(at("d/e").c_str(), 0755), 0);
  EXPECT_EQ(status_of("d/f").st_gid, 4321u);
  EXPECT_EQ(status_of("d/e").st_gid, 4321u);
  EXPECT_EQ(status_of("d/e").st_mode & 02000u, 02000u);
}

// The kernel lets every user do this, and asks the daemon to set no more than the time of a change.
TEST_P(Syscalls, AChangeOfOwnerThatChangesNothingTakesNobodysSetIdBits) {
  write("f", "text");
  ASSERT_EQ(chmod(at("f").c_str(), 06755), 0);
  ASSERT_EQ(chmod(top_.c_str(), 0755), 0);
  EXPECT_EQ(do_as_other([this] { return chown(at("f").c_str(), -1, -1); }), 0);
  EXPECT_EQ(status_of("f").st_mode & 07777, 06755u);
}

TEST_P(Syscalls, ExtendedAttributesComeAndGo) {
  write("f", "x");
  const std::string path = at("f");
  ASSERT_EQ(setxattr(path.c_str(), "user.one", "1", 1, 0), 0);
  ASSERT_EQ(setxattr(path.c_str(), "user.two", "", 0, XATTR_CREATE), 0);
  EXPECT_ERRNO(EEXIST, setxattr(path.c_str(), "user.one", "2", 1, XATTR_CREATE));
  EXPECT_ERRNO(ENODATA, setxattr(path.c_str(), "user.none", "2", 1, XATTR_REPLACE));
  char value[16];
  EXPECT_EQ(getxattr(path.c_str(), "user.one", value, sizeof value), 1);
  EXPECT_EQ(getxattr(path.c_str(), "user.one", nullptr, 0), 1);
  ASSERT_EQ(setxattr(path.c_str(), "user.one", "12345", 5, 0), 0);
  EXPECT_ERRNO(ERANGE, getxattr(path.c_str(), "user.one", value, 4));
  EXPECT_EQ(getxattr(path.c_str(), "user.one", value, 5), 5);
  EXPECT_ERRNO(EINVAL, setxattr(path.c_str(), "user.", "1", 1, 0));
  EXPECT_ERRNO(ENODATA, getxattr(path.c_str(), "user.none", value, 4));
  char list[64];
  EXPECT_EQ(listxattr(path.c_str(), nullptr, 0), 18);
  ASSERT_EQ(listxattr(path.c_str(), list, sizeof list), 18);
  EXPECT_EQ(std::string(list, 18), std::string("user.one\0user.two\0", 18));
  EXPECT_ERRNO(ERANGE, listxattr(path.c_str(), list, 17));
  EXPECT_EQ(removexattr(path.c_str(), "user.one"), 0);
  EXPECT_ERRNO(ENODATA, removexattr(path.c_str(), "user.one"));
}

TEST_P(Syscalls, AccessControlListsAreRefusedWhereTheVolumeDoesNotHeedThem) {
  write("f", "x");
  // Version 2; owner rw-, user 1 rw-, group r--, mask rw-, others r--.
  const char list[] = "\2\0\0\0\1\0\6\0\377\377\377\377\2\0\6\0\1\0\0\0\4\0\4\0\377\377\377\377"
                      "\20\0\6\0\377\377\377\377\40\0\4\0\377\377\377\377";
  const char* name = "system.posix_acl_access";
  EXPECT_ERRNO(EOPNOTSUPP, setxattr(at("f").c_str(), name, list, sizeof list - 1, 0));
  char value[64];
  EXPECT_ERRNO(ENODATA, getxattr(at("f").c_str(), name, value, sizeof value));
}

TEST_P(Syscalls, SpaceIsReported) {
  struct statvfs space {};
  ASSERT_EQ(statvfs(mnt_.c_str(), &space), 0);
  EXPECT_EQ(space.f_bsize, 4096u);
  EXPECT_EQ(space.f_namemax, 255u);
  EXPECT_GT(space.f_bavail, 0u);
}

TEST_P(Syscalls, SyncsSucceed) {
  write("f", "x");
  for (const char* name : {"f", "."}) {
    const int fd = open(at(name).c_str(), O_RDONLY);
    EXPECT_EQ(fsync(fd), 0);
    EXPECT_EQ(fdatasync(fd), 0);
    EXPECT_EQ(syncfs(fd), 0);
    close(fd);
  }
}

TEST_P(Syscalls, RemovingWhileReadingADirectoryMissesNothing) {
  const int files = GetParam() == std::string("rw") ? 10'000 : 2'000;
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  const int directory = open(at("d").c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < files; ++i) {
    const int fd = openat(directory, std::to_string(i).c_str(), O_CREAT | O_WRONLY, 0644);
    ASSERT_GE(fd, 0);
    close(fd);
  }
  std::set<std::string> seen;
  DIR* dir = opendir(at("d").c_str());
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    EXPECT_TRUE(seen.insert(name).second) << name << " came twice";
    EXPECT_EQ(unlinkat(directory, name.c_str(), 0), 0) << name;
  }
  closedir(dir);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(files));
  EXPECT_EQ(names_in("d"), (std::set<std::string>{".", ".."}));
  close(directory);
}

TEST_P(Syscalls, PositionsInADirectorySurviveChangesAroundThem) {
  ASSERT_EQ(mkdir(at("d").c_str(), 0755), 0);
  for (int i = 0; i < 500; ++i) write("d/" + std::to_string(i), "");
  DIR* dir = opendir(at("d").c_str());
  std::map<std::string, long> positions;  // where each name begins
  std::vector<std::string> order;
  for (long here = telldir(dir); const dirent* entry = readdir(dir); here = telldir(dir)) {
    positions[entry->d_name] = here;
    order.push_back(entry->d_name);
  }
  ASSERT_EQ(order.size(), 502u);
  EXPECT_EQ(order[0], ".");
  EXPECT_EQ(order[1], "..");
  ASSERT_EQ(unlink(at("d/" + order[100]).c_str()), 0);
  write("d/new", "");
  for (const std::size_t i : {501u, 0u, 1u, 2u, 99u, 101u, 300u}) {
    seekdir(dir, positions[order[i]]);
    const dirent* entry = readdir(dir);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->d_name, order[i]);
  }
  closedir(dir);
}

TEST_P(Syscalls, ManyThreadsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string own = at("t" + std::to_string(t));
      failures += mkdir(own.c_str(), 0755) != 0;
      for (int i = 0; i < 200; ++i) {
        const std::string path = own + "/" + std::to_string(i), moved = path + "m";
        const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR, 0644);
        failures += ::write(fd, &i, sizeof i) != sizeof i;
        failures += fsync(fd) != 0;
        failures += rename(path.c_str(), moved.c_str()) != 0;
        int back = -1;
        failures += pread(fd, &back, sizeof back, 0) != sizeof back || back != i;
        close(fd);
        if (i % 2 == 0) failures += unlink(moved.c_str()) != 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (int t = 0; t < 8; ++t) EXPECT_EQ(names_in("t" + std::to_string(t)).size(), 102u);
}

}  // namespace
}  // namespace lazyfs::fuse
