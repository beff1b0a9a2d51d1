// Operations of a mounted volume during which no memory can be allocated. Each is done as a whole
// or not at all, and the volume can be used afterwards.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "device/forwarding.h"
#include "device/memory.h"
#include "fs/volume/volume.h"
#include "mkfs/mkfs.h"
#include "test/fsck/expect_clean.h"
#include "test/support/rounds.h"
#include "test/support/test_device.h"

namespace {

// How many allocations of this thread succeed before one fails, or all from then on.
constexpr long kNone = -1;
thread_local long t_left = kNone;
thread_local bool t_once = false;
thread_local long t_made = 0;

bool is_starved() {
  if (t_left == kNone) return false;
  ++t_made;
  if (t_left > 0) {
    --t_left;
    return false;
  }
  if (t_once) t_left = kNone;
  return true;
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

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (is_starved() || ::posix_memalign(&memory, alignment, size) != 0) return nullptr;
  return memory;
}
extern "C" void* mmap(void* at, std::size_t length, int protection, int flags, int fd,
                      off_t offset) noexcept {
  if (is_starved()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, length, protection, flags, fd, offset));
}
#endif

namespace lazyfs::fs {
namespace {

// While this exists, the calling thread gets memory.
class Fed {
 public:
  Fed() : left_(std::exchange(t_left, kNone)) {}
  ~Fed() { t_left = left_; }
  Fed(const Fed&) = delete;
  Fed& operator=(const Fed&) = delete;

 private:
  const long left_;
};

// Gets memory: what devices do without it is tested in test/device.
class FedDevice : public device::ForwardingDevice {
 public:
  explicit FedDevice(device::Device& inner) : ForwardingDevice(inner) {}

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    const Fed fed;
    return ForwardingDevice::read(from, to);
  }
  Result<> append(BandAddress to, std::span<const device::Piece> pieces) override {
    const Fed fed;
    return ForwardingDevice::append(to, pieces);
  }
  Result<> reset(BandId band) override {
    const Fed fed;
    return ForwardingDevice::reset(band);
  }
  Result<> flush() override {
    const Fed fed;
    return ForwardingDevice::flush();
  }
};

// A volume, and short names for what the operations do with it.
struct Scene {
  std::unique_ptr<device::MemoryDevice> memory;
  std::unique_ptr<FedDevice> device;
  std::unique_ptr<Volume> volume;
  InodeNo file, other;
  OpenFile* opened = nullptr;

  void mount() {
    auto mounted = Volume::mount(*device, {.background = false});
    ASSERT_TRUE(mounted) << describe(mounted.error());
    volume = std::move(*mounted);
  }
  InodeNo make(std::string_view name) {
    const auto made = volume->make_node(kRootInode, name, S_IFREG | 0644, 0, {});
    EXPECT_TRUE(made) << describe(made.error());
    return made ? made->inode : InodeNo{};
  }
  void fill(InodeNo inode, std::uint64_t offset, std::size_t bytes, char with) {
    EXPECT_TRUE(write(inode, offset, bytes, with));
  }
  Result<> write(InodeNo inode, std::uint64_t offset, std::size_t bytes, char with) {
    std::string text;
    {
      const Fed fed;
      text.assign(bytes, with);
    }
    return volume->write(inode, offset, std::as_bytes(std::span(text)), {});
  }
  void sync() { EXPECT_TRUE(volume->sync()); }
};

Result<> done(const auto& result) { return result ? ok() : fail(result.error()); }

struct Case {
  const char* name;
  std::function<void(Scene&)> prepare;
  std::function<Result<>(Scene&)> run;
  bool may_leave = false;  // an inode is deleted, perhaps by the next mount
  bool has_parts = false;  // and after an error some of them may be done
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::string kLong(100, 'n');

Result<> forget_file(Scene& s) {
  s.volume->forget(s.file, 1);
  s.volume->tick();
  return ok();
}

const std::vector<Case> kCases = {
    {"create", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const Created made, s.volume->create(kRootInode, kLong, 0644, {}));
       s.volume->release(made.file);
       s.volume->forget(made.attributes.inode, 1);
       return ok();
     }},
    {"unnamed", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const Created made, s.volume->create_unnamed(kRootInode, 0644, {}));
       s.volume->release(made.file);
       s.volume->forget(made.attributes.inode, 1);
       return ok();
     },
     true},
    {"directory", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const auto made, s.volume->make_directory(kRootInode, kLong, 0755, {}));
       s.volume->forget(made.inode, 1);
       return ok();
     }},
    {"symlink", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const auto made, s.volume->make_symlink(kRootInode, "s", kLong, {}));
       s.volume->forget(made.inode, 1);
       return ok();
     }},
    {"link", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const auto made, s.volume->link(s.file, kRootInode, kLong));
       s.volume->forget(made.inode, 1);
       return ok();
     }},
    {"unlink", [](Scene& s) { s.fill(s.file, 0, 30'000, 'u'); },
     [](Scene& s) { return s.volume->unlink(kRootInode, "file"); },
     true},
    {"unlink_many",
     [](Scene& s) {
       for (int i = 0; i < 8; ++i) s.volume->forget(s.make("many" + std::to_string(i)), 1);
     },
     [](Scene& s) -> Result<> {
       char name[16];
       for (int i = 0; i < 8; ++i) {
         std::snprintf(name, sizeof name, "many%d", i);
         const auto gone = s.volume->unlink(kRootInode, name);
         if (!gone && gone.error() != Errc::kNotFound) return gone;
       }
       return ok();
     },
     true, true},
    {"forget",
     [](Scene& s) {
       s.fill(s.file, 0, 30'000, 'u');
       EXPECT_TRUE(s.volume->unlink(kRootInode, "file"));
     },
     forget_file,
     true},
    {"forget_clean",
     [](Scene& s) {
       s.fill(s.file, 0, 30'000, 'u');
       s.sync();
       EXPECT_TRUE(s.volume->unlink(kRootInode, "file"));
     },
     forget_file,
     true},
    {"rename", [](Scene&) {},
     [](Scene& s) { return s.volume->rename(kRootInode, "file", kRootInode, kLong, {}); }},
    {"rename_over", [](Scene& s) { s.fill(s.other, 0, 9'000, 'o'); },
     [](Scene& s) { return s.volume->rename(kRootInode, "file", kRootInode, "other", {}); },
     true},
    {"exchange", [](Scene&) {},
     [](Scene& s) {
       return s.volume->rename(kRootInode, "file", kRootInode, "other", {.exchange = true});
     }},
    {"write_small", [](Scene&) {}, [](Scene& s) { return s.write(s.file, 0, 100, 'w'); }},
    {"write_large", [](Scene&) {}, [](Scene& s) { return s.write(s.file, 100, 500'000, 'w'); }},
    {"overwrite",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
     },
     [](Scene& s) { return s.write(s.file, 5000, 50'000, 'w'); }},
    {"write_far",
     [](Scene& s) {
       s.fill(s.file, 0, 5'000, 'a');
       s.sync();
     },
     [](Scene& s) { return s.write(s.file, 90'000, 50'000, 'w'); }},
    {"read",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
       s.fill(s.file, 20'000, 10'000, 'b');
     },
     [](Scene& s) {
       static std::byte to[100'000];
       return done(s.volume->read(s.file, 0, to, true));
     }},
    {"truncate",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
       s.fill(s.file, 0, 90'000, 'b');
     },
     [](Scene& s) { return done(s.volume->set_attributes(s.file, {.size = 10'001})); }},
    {"grow", [](Scene& s) { s.fill(s.file, 0, 3000, 'a'); },
     [](Scene& s) { return done(s.volume->set_attributes(s.file, {.size = 100'001})); }},
    {"chmod", [](Scene&) {},
     [](Scene& s) { return done(s.volume->set_attributes(s.file, {.mode = 0600})); }},
    {"punch",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
       s.fill(s.file, 0, 90'000, 'b');
     },
     [](Scene& s) { return s.volume->punch(s.file, 10'001, 50'000, {.keep_size = true}); },
     false, true},
    {"zero",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
     },
     [](Scene& s) { return s.volume->zero(s.file, 10'001, 150'000, {}); },
     false, true},
    {"clone",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.fill(s.other, 0, 50'000, 'o');
       s.sync();
     },
     [](Scene& s) { return done(s.volume->copy_range(s.file, 0, s.other, 0, 100'000, false)); },
     false, true},
    {"clone_dirty",
     [](Scene& s) {
       s.fill(s.file, 0, 40'000, 'a');
       s.fill(s.other, 0, 50'000, 'o');
     },
     [](Scene& s) { return done(s.volume->copy_range(s.file, 0, s.other, 0, 40'000, false)); },
     false, true},
    {"copy",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
     },
     [](Scene& s) { return done(s.volume->copy_range(s.file, 10, s.other, 0, 50'000, false)); },
     false, true},
    {"set_xattr", [](Scene&) {},
     [](Scene& s) { return s.volume->set_xattr(s.file, "user.x", kLong, XattrMode::kAny); }},
    {"set_large_xattr", [](Scene&) {},
     [](Scene& s) {
       static const std::string kValue(30'000, 'v');
       return s.volume->set_xattr(s.file, "user.x", kValue, XattrMode::kAny);
     }},
    {"remove_xattr",
     [](Scene& s) {
       EXPECT_TRUE(s.volume->set_xattr(s.file, "user.x", kLong, XattrMode::kAny));
     },
     [](Scene& s) -> Result<> {
       const auto gone = s.volume->remove_xattr(s.file, "user.x");
       return gone || gone.error() != Errc::kNoAttribute ? gone : ok();
     }},
    {"list", [](Scene&) {},
     [](Scene& s) { return done(s.volume->read_directory(kRootInode, 0, 100, true)); }},
    {"lookup", [](Scene& s) { s.volume->forget(s.file, 1); },
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(const auto found, s.volume->lookup(kRootInode, "file"));
       s.volume->forget(found.inode, 1);
       return ok();
     }},
    {"open", [](Scene&) {},
     [](Scene& s) -> Result<> {
       ASSIGN_OR_RETURN(OpenFile* const file, s.volume->open(s.file));
       s.volume->release(file);
       return ok();
     }},
    {"space", [](Scene&) {}, [](Scene& s) { return done(s.volume->space()); }},
    {"find",
     [](Scene& s) { s.fill(s.file, 50'000, 50'000, 'a'); },
     [](Scene& s) { return done(s.volume->find_data(s.file, 0)); }},
    {"fsync", [](Scene& s) { s.fill(s.file, 0, 100'000, 'a'); },
     [](Scene& s) { return s.volume->fsync(s.file, nullptr, false); }},
    {"fsync_small", [](Scene& s) { s.fill(s.file, 0, 100, 'a'); },
     [](Scene& s) { return s.volume->fsync(s.file, nullptr, false); }},
    {"sync",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.fill(s.other, 0, 500, 'o');
       s.sync();
       s.fill(s.file, 20'000, 100'000, 'b');
       s.fill(s.other, 0, 5000, 'o');
       for (int i = 0; i < 5; ++i) s.fill(s.make(std::to_string(i)), 0, 8000, 'm');
     },
     [](Scene& s) { return s.volume->sync(); }},
    {"garbage",
     [](Scene& s) {
       for (int i = 0; i < 4; ++i) {
         s.fill(s.file, 0, 900'000, 'a');
         s.sync();
         s.fill(s.other, 40'960u * i, 40'960, 'o');
         s.sync();
       }
     },
     [](Scene& s) { return s.volume->collect_garbage(); }},
    {"tick",
     [](Scene& s) {
       for (int i = 0; i < 4; ++i) {
         s.fill(s.file, 0, 900'000, 'a');
         s.sync();
       }
       EXPECT_TRUE(s.volume->unlink(kRootInode, "other"));
     },
     [](Scene& s) {
       s.volume->tick();
       return ok();
     },
     true},
    {"scrub",
     [](Scene& s) {
       s.fill(s.file, 0, 100'000, 'a');
       s.sync();
     },
     [](Scene& s) { return done(s.volume->scrub({}, 10)); }},
};

// ---- What is in the volume ----------------------------------------------------------------------

std::string contents_of(Volume& volume, const Attributes& attributes) {
  std::string text(attributes.size, '?');
  const auto length =
      volume.read(attributes.inode, 0, std::as_writable_bytes(std::span(text)), false);
  EXPECT_TRUE(length) << describe(length.error());
  std::string runs;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || text[i] != text[i - 1]) {
      runs += text[i] == 0 ? '0' : text[i];
      runs += "@" + std::to_string(i) + " ";
    }
  }
  return runs;
}

std::string describe_entry(Volume& volume, const DirectoryEntry& entry) {
  const auto found = volume.lookup(kRootInode, entry.name);
  EXPECT_TRUE(found) << describe(found.error());
  if (!found) return entry.name + "?";
  std::string text = entry.name + " mode " + std::to_string(found->mode) + " links " +
                     std::to_string(found->links) + " size " + std::to_string(found->size);
  if (S_ISREG(found->mode)) text += " " + contents_of(volume, *found);
  const auto names = volume.list_xattrs(found->inode);
  EXPECT_TRUE(names) << describe(names.error());
  for (const std::string& name : names.value_or(std::vector<std::string>{})) {
    const auto value = volume.get_xattr(found->inode, name);
    EXPECT_TRUE(value) << describe(value.error());
    text += " " + name + "=" + std::to_string(value.value_or("").size());
  }
  volume.forget(found->inode, 1);
  return text;
}

std::string look_at(Volume& volume) {
  const auto entries = volume.read_directory(kRootInode, 0, 10'000, false);
  EXPECT_TRUE(entries) << describe(entries.error());
  if (!entries) return "?";
  std::vector<std::string> lines;
  for (const DirectoryEntry& entry : *entries) lines.push_back(describe_entry(volume, entry));
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::uint64_t files_of(Volume& volume) {
  const auto space = volume.space();
  EXPECT_TRUE(space);
  return space ? space->total_files - space->free_files : 0;
}
std::uint64_t free_of(Volume& volume) {
  const auto space = volume.space();
  EXPECT_TRUE(space);
  return space ? space->free_blocks : 0;
}

// ---- Running ------------------------------------------------------------------------------------

struct Outcome {
  Result<> result = ok();
  long made = 0;
  bool is_starved = false;
};

Outcome run_starved(const Case& c, Scene& scene, long at, bool once) {
  Outcome outcome;
  t_made = 0;
  t_once = once;
  t_left = at;
  try {
    outcome.result = c.run(scene);
  } catch (const std::bad_alloc&) {
    t_left = kNone;
    outcome.result = fail(Errc::kNoMemory);
  }
  t_left = kNone;
  outcome.made = t_made;
  outcome.is_starved = t_made > at;
  return outcome;
}

constexpr std::size_t kFailures = 12;  // of each operation, unless all are tried
constexpr unsigned kSecondsMax = 120;  // of one operation: then it hangs

class FailedAllocations : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    scene_.memory = test_device(64, 256);
    scene_.device = std::make_unique<FedDevice>(*scene_.memory);
    ASSERT_TRUE(mkfs::make_filesystem(*scene_.device, {}));
    scene_.memory->forget_write_pointers();
    scene_.mount();
    scene_.file = scene_.make("file");
    scene_.other = scene_.make("other");
    GetParam().prepare(scene_);
    before_ = look_at(*scene_.volume);
  }
  void TearDown() override { scene_.volume->shut_down(); }

  void expect_state(const Result<>& result, const std::string& state) {
    if (result) {
      EXPECT_EQ(state, after_);
    } else if (!GetParam().has_parts) {
      EXPECT_TRUE(state == before_ || state == after_)
          << describe(result.error()) << "\n" << state << "before:\n" << before_ << "after:\n"
          << after_;
    }
  }
  // The unmount, the check, and a mount.
  void expect_whole(const std::string& state) {
    Volume& volume = *scene_.volume;
    EXPECT_TRUE(volume.sync());
    volume.tick();
    EXPECT_TRUE(volume.sync());
    const std::uint64_t files = files_of(volume), free_blocks = free_of(volume);
    const auto ended = volume.unmount();
    EXPECT_TRUE(ended) << describe(ended.error());
    scene_.volume.reset();
    scene_.memory->forget_write_pointers();
    fsck::expect_clean(*scene_.memory);
    scene_.memory->forget_write_pointers();
    ASSERT_NO_FATAL_FAILURE(scene_.mount());
    scene_.volume->tick();
    if (GetParam().may_leave) {  // an inode to the next mount
      EXPECT_LE(files_of(*scene_.volume), files);
      EXPECT_GE(free_of(*scene_.volume), free_blocks);
    } else {
      EXPECT_EQ(files_of(*scene_.volume), files);
      EXPECT_EQ(free_of(*scene_.volume), free_blocks);
    }
    EXPECT_EQ(look_at(*scene_.volume), state);
    EXPECT_TRUE(scene_.volume->unmount());
  }
  bool is_read_only() const {
    return scene_.volume->info().state == "read-only after an error";
  }
  // After a commit that had begun to write its transaction: what was not durable may be lost.
  void expect_sound() {
    scene_.volume->shut_down();
    scene_.volume.reset();
    scene_.memory->forget_write_pointers();
    fsck::expect_clean(*scene_.memory);
    scene_.memory->forget_write_pointers();
    ASSERT_NO_FATAL_FAILURE(scene_.mount());
    EXPECT_TRUE(scene_.volume->unmount());
  }
  void check(long at, bool once) {
    const Outcome outcome = run_starved(GetParam(), scene_, at, once);
    if (is_read_only()) return expect_sound();
    const auto synced = scene_.volume->sync();
    EXPECT_TRUE(synced) << describe(synced.error());
    std::string state = look_at(*scene_.volume);
    expect_state(outcome.result, state);
    if (!outcome.result && state != after_) {
      const auto again = GetParam().run(scene_);
      EXPECT_TRUE(again) << describe(again.error());
      state = look_at(*scene_.volume);
      EXPECT_EQ(state, after_);
    }
    expect_whole(state);
  }
  // In a child, so that one failure hides no other. Returns what the child says.
  std::string in_child(const std::function<std::string()>& body) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kSecondsMax);
      const int before = failures();
      const std::string said = body();
      if (::write(ends[1], said.data(), said.size()) < 0) ::_exit(2);
      std::fflush(nullptr);
      ::_exit(failures() > before ? 1 : 0);
    }
    ::close(ends[1]);
    std::string said;
    char part[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;) {
      said.append(part, static_cast<std::size_t>(n));
    }
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return said;
  }

  static int failures() {
    const auto* const result = testing::UnitTest::GetInstance()->current_test_info()->result();
    int count = 0;
    for (int i = 0; i < result->total_part_count(); ++i) {
      count += result->GetTestPartResult(i).failed();
    }
    return count;
  }

  Scene scene_;
  std::string before_, after_;
};
INSTANTIATE_TEST_SUITE_P(Of, FailedAllocations, testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST_P(FailedAllocations, OneOrAllFromOneOn) {
  after_ = in_child([&] {
    const auto outcome = GetParam().run(scene_);
    EXPECT_TRUE(outcome) << describe(outcome.error());
    return look_at(*scene_.volume);
  });
  const long allocations = std::stol(in_child([&] {
    return std::to_string(run_starved(GetParam(), scene_, 1L << 40, false).made);
  }));
  const long step = 1 + allocations / static_cast<long>(rounds(1 << 20, kFailures));
  for (const bool once : {false, true}) {
    for (long at = 0; at < allocations; at += step) {
      SCOPED_TRACE(std::to_string(at) + (once ? " once" : " and later"));
      in_child([&] {
        check(at, once);
        return std::string();
      });
    }
  }
}

}  // namespace
}  // namespace lazyfs::fs
