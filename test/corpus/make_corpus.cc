// Makes the volumes of the corpus, of the format that this version writes:
//   make_corpus DIRECTORY
// puts NAME.edi, an image of a few MiB, NAME.plain, a volume as it lies on a plain disk, and
// NAME.edi.txt and NAME.plain.txt, their contents as list_contents() shows them, into the
// directory. test/corpus/make calls it. Contents are text that compresses well.
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "edi/create.h"
#include "edi/image.h"
#include "fs/volume/volume.h"
#include "mkfs/mkfs.h"
#include "plain/create.h"
#include "plain/plain_device.h"
#include "test/corpus/listing.h"

namespace lazyfs::corpus {
namespace {

using fs::kRootInode;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint32_t kBandBlocks = 64;
constexpr std::uint64_t kBandBytes = std::uint64_t{kBandBlocks} * kBlockBytes;

template <class T>
T need(Result<T> result) {
  if (!result) throw std::runtime_error(std::string(describe(result.error())));
  return std::move(*result);
}
void need(Result<> result) {
  if (!result) throw std::runtime_error(std::string(describe(result.error())));
}

// Lines that name their place, so that no two blocks are the same.
std::string text_of(std::string_view name, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += fmt::format("{} at byte {}\n", name, text.size());
  text.resize(bytes);
  return text;
}

// What surrounds the bands of a volume.
enum class Layout : std::uint8_t { kImage, kPlain };

// One volume while it is made.
class Maker {
 public:
  Maker(Layout layout, const std::string& directory, std::string_view name, std::uint32_t bands)
      : layout_(layout),
        path_(fmt::format("{}/{}.{}", directory, name,
                          layout == Layout::kPlain ? "plain" : "edi")) {
    create(std::uint64_t{bands} * kBandBytes);
    mkfs::Options options{.label = std::string(name), .name_seed = 0x123456789ABCDEF};
    for (std::size_t i = 0; i < options.uuid.size(); ++i) {
      options.uuid[i] = static_cast<std::uint8_t>(name[i % name.size()] + i);
    }
    device_ = open({});
    need(mkfs::make_filesystem(*device_, options));
    mount();
  }
  void mount() { volume_ = need(fs::Volume::mount(*device_, {.background = false})); }
  void unmount() {
    need(volume_->unmount());
    volume_.reset();
  }
  // What was not committed is lost, but blocks and write pointers stay as they are.
  void crash() {
    volume_->shut_down();
    volume_.reset();
    need(device_->flush());
  }
  void finish() {
    device_.reset();
    const auto device = open({.read_only = true});
    const auto volume =
        need(fs::Volume::mount(*device, {.read_only = true, .background = false}));
    std::ofstream(path_ + ".txt") << need(list_contents(*volume));
    need(volume->unmount());
  }

  fs::Volume& volume() { return *volume_; }
  InodeNo file(InodeNo directory, std::string_view name, std::size_t bytes) {
    const auto made = need(volume_->create(directory, name, 0640, {1000, 100}));
    volume_->release(made.file);
    if (bytes > 0) write(made.attributes.inode, 0, text_of(name, bytes));
    return made.attributes.inode;
  }
  void write(InodeNo inode, std::uint64_t at, std::string_view text) {
    need(volume_->write(inode, at, std::as_bytes(std::span(text))));
  }
  InodeNo directory(InodeNo parent, std::string_view name) {
    return need(volume_->make_directory(parent, name, 0755, {})).inode;
  }

 private:
  void create(std::uint64_t bytes) const {
    if (layout_ == Layout::kImage) {
      return need(edi::create(path_, need(edi::fill(bytes, kBandBlocks))));
    }
    const std::uint64_t with_identity = bytes + 2 * kMiB;  // the first and the last one
    std::ofstream(path_).close();
    std::filesystem::resize_file(path_, with_identity);
    need(plain::create(path_, need(plain::plan_volume(with_identity, kBandBytes))));
  }
  std::unique_ptr<device::Device> open(device::OpenOptions options) const {
    if (layout_ == Layout::kImage) return need(edi::open(path_, options));
    return need(plain::open(path_, options));
  }

  const Layout layout_;
  const std::string path_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<fs::Volume> volume_;
};

void make_empty(Maker& m) { m.unmount(); }

void make_kinds(Maker& m) {
  fs::Volume& v = m.volume();
  for (const std::size_t bytes : {0, 1, 100, 1024, 1025, 4096, 4097, 20'000, 700'000}) {
    m.file(kRootInode, fmt::format("file{}", bytes), bytes);
  }
  const InodeNo holes = m.file(kRootInode, "holes", 5000);
  m.write(holes, 1 << 20, text_of("after a hole", 9000));
  need(v.set_attributes(holes, {.size = (1 << 20) + 100'000}));
  const InodeNo directory = m.directory(kRootInode, "directory");
  const InodeNo deep = m.directory(m.directory(directory, "a"), "b");
  m.file(deep, "leaf", 10);
  m.file(deep, std::string(255, 'n'), 10);
  m.file(deep, "not\xFFutf8 \n", 10);
  need(v.link(m.file(kRootInode, "linked", 50), deep, "hard link"));
  need(v.make_symlink(kRootInode, "symlink", "directory/a", {}));
  need(v.make_symlink(kRootInode, "long symlink", std::string(4000, 's'), {}));
  need(v.make_node(kRootInode, "fifo", S_IFIFO | 0600, 0, {}));
  need(v.make_node(kRootInode, "socket", S_IFSOCK | 0600, 0, {}));
  need(v.make_node(kRootInode, "character", S_IFCHR | 0600, makedev(1, 3), {}));
  need(v.make_node(kRootInode, "block", S_IFBLK | 0600, makedev(7, 300), {}));
  need(v.set_attributes(holes, {.mode = 06755, .uid = 70'000, .gid = 80'000,
                                .modification = Timestamp{-5, 999'999'999}}));
  const InodeNo many = m.directory(kRootInode, "many");
  for (int i = 0; i < 600; ++i) m.file(many, fmt::format("name {}", i), i % 7 == 0 ? 30 : 0);
  for (int i = 0; i < 600; i += 3) need(v.unlink(many, fmt::format("name {}", i)));
  m.unmount();
}

void make_xattrs(Maker& m) {
  fs::Volume& v = m.volume();
  const InodeNo file = m.file(kRootInode, "file", 3000), directory = m.directory(kRootInode, "d");
  for (const InodeNo inode : {file, directory, kRootInode}) {
    need(v.set_xattr(inode, "user.small", "value", fs::XattrMode::kAny));
    need(v.set_xattr(inode, "user.empty", "", fs::XattrMode::kAny));
    need(v.set_xattr(inode, "trusted.large", text_of("large", 20'000), fs::XattrMode::kAny));
  }
  for (int i = 0; i < 100; ++i) {
    need(v.set_xattr(file, fmt::format("user.number {}", i), text_of("v", 10u * i),
                     fs::XattrMode::kAny));
  }
  need(v.remove_xattr(file, "user.number 50"));
  need(v.set_xattr(file, "user." + std::string(250, 'x'), "long name", fs::XattrMode::kAny));
  m.unmount();
}

void make_shared(Maker& m) {
  fs::Volume& v = m.volume();
  const std::size_t bytes = 400'000;
  const InodeNo first = m.file(kRootInode, "first", bytes);
  need(v.sync());
  for (const std::string name : {"second", "third", "removed"}) {
    const InodeNo copy = m.file(kRootInode, name, 0);
    need(v.copy_range(first, 0, copy, 0, bytes, false));
    need(v.sync());
    if (name == "second") m.write(copy, 100'000, text_of("changed", 50'000));
    if (name == "removed") {
      need(v.unlink(kRootInode, name));
      v.forget(copy, 1);
    }
  }
  const InodeNo part = m.file(kRootInode, "part", 10);
  need(v.copy_range(first, 40'960, part, 8192, 81'920, false));
  need(v.sync());
  need(v.set_attributes(first, {.size = 200'000}));
  m.unmount();
}

void make_crashed(Maker& m) {
  fs::Volume& v = m.volume();
  for (int i = 0; i < 20; ++i) m.file(kRootInode, fmt::format("kept {}", i), 100u + 3000u * i);
  const InodeNo orphan = m.file(kRootInode, "orphan", 50'000);
  const InodeNo cut = m.file(kRootInode, "cut", 300'000);
  need(v.sync());
  need(v.unlink(kRootInode, "orphan"));
  need(v.set_attributes(cut, {.size = 5000}));
  need(v.sync());
  m.write(orphan, 0, "still open");
  m.file(kRootInode, "fsynced", 9000);
  need(v.fsync(need(v.lookup(kRootInode, "fsynced")).inode, nullptr, false));
  for (int i = 0; i < 5; ++i) m.file(kRootInode, fmt::format("lost {}", i), 80'000);
  m.crash();
}

// The collector and the log have both passed over the disk.
void make_full(Maker& m) {
  fs::Volume& v = m.volume();
  const InodeNo churn = m.file(kRootInode, "churn", 0);
  const std::uint64_t blocks = need(v.space()).available_blocks;
  const InodeNo large = m.file(kRootInode, "large", 0);
  for (std::uint64_t at = 0; at < blocks * 8 / 10; at += 32) {
    m.write(large, at * kBlockBytes, text_of(fmt::format("large {}", at), 32 * kBlockBytes));
  }
  need(v.sync());
  for (std::uint64_t i = 0; i < 3 * blocks; i += 8) {
    const std::uint64_t at = i * 7919 % (blocks / 10);
    m.write(churn, at * kBlockBytes, text_of(fmt::format("churn {}", i), 8 * kBlockBytes));
    if (i % 64 == 0) need(v.sync());
  }
  for (int i = 0;; ++i) {
    const std::string name = fmt::format("last {}", i);
    const auto made = v.create(kRootInode, name, 0600, {});
    if (!made) break;
    v.release(made->file);
    const std::string text = text_of(name, 20'000);
    if (!v.write(made->attributes.inode, 0, std::as_bytes(std::span(text)))) break;
  }
  need(v.sync());
  m.unmount();
}

struct Recipe {
  std::string_view name;
  std::uint32_t bands;
  std::function<void(Maker&)> make;
};

void make_all(const std::string& directory) {
  const Recipe recipes[] = {{"empty", 24, make_empty},     {"kinds", 48, make_kinds},
                            {"xattrs", 32, make_xattrs},   {"shared", 32, make_shared},
                            {"crashed", 32, make_crashed}, {"full", 24, make_full}};
  for (const Recipe& recipe : recipes) {
    for (const Layout layout : {Layout::kImage, Layout::kPlain}) {
      Maker maker(layout, directory, recipe.name, recipe.bands);
      recipe.make(maker);
      maker.finish();
    }
  }
}

}  // namespace
}  // namespace lazyfs::corpus

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: make_corpus DIRECTORY\n", stderr), 2;
  try {
    lazyfs::corpus::make_all(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_corpus: %s\n", e.what());
    return 1;
  }
}
