// Counts the seeks of a disk's head in a walk with an empty cache: seeks IMAGE [--files N]
// [--bytes N]. Makes small files in one directory, mounts again, then reads the directory, each
// inode and each file, as tar does (ext4-lazy, section 4.4: three seeks for the metadata of 10,000
// files). A seek is a read that does not begin at the end of the read before it; reads of metadata
// and of file data are counted separately. Makes IMAGE as a new sparse file and removes it at the
// end. Prints JSON.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "bench.h"
#include "device/forwarding.h"
#include "edi/create.h"
#include "edi/image.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "tools/command_line.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;
using Json = nlohmann::ordered_json;

// Counts reads of log bands and of other bands separately. Thread-safe.
class WatchedDevice final : public device::ForwardingDevice {
 public:
  struct Counts {
    std::uint64_t reads = 0, seeks = 0, blocks = 0;
    std::optional<BandAddress> end;
    Json json() const { return {{"seeks", seeks}, {"reads", reads}, {"blocks", blocks}}; }
  };

  WatchedDevice(device::Device& inner, std::vector<BandId> log_bands)
      : ForwardingDevice(inner), log_bands_(std::move(log_bands)) {}

  Result<> read(BandAddress from, std::span<std::byte> to) override {
    {
      MutexLock lock(mu_);
      const bool is_log = std::ranges::find(log_bands_, from.band) != log_bands_.end();
      Counts& counts = is_log ? metadata_ : data_;
      const auto blocks = static_cast<std::uint32_t>(to.size() / kBlockBytes);
      ++counts.reads;
      counts.seeks += counts.end != from;
      counts.blocks += blocks;
      counts.end = BandAddress{from.band, from.rba + blocks};
    }
    return ForwardingDevice::read(from, to);
  }
  Json take() {
    MutexLock lock(mu_);
    Json json{{"metadata", metadata_.json()}, {"data", data_.json()}};
    metadata_ = data_ = Counts{};
    return json;
  }

 private:
  const std::vector<BandId> log_bands_;
  Mutex mu_;
  Counts metadata_ GUARDED_BY(mu_), data_ GUARDED_BY(mu_);
};

InodeNo make_files(fs::Volume& volume, std::uint64_t files, std::size_t bytes) {
  const InodeNo in = must(volume.make_directory(fs::kRootInode, "files", 0755, {}), "mkdir").inode;
  const std::vector<std::byte> content(bytes, std::byte{42});
  for (std::uint64_t i = 0; i < files; ++i) {
    const auto file = must(volume.create(in, "file-" + std::to_string(i), 0644, {}), "create");
    must(volume.write(file.attributes.inode, 0, content), "write");
    volume.release(file.file);
    volume.forget(file.attributes.inode, 1);
  }
  must(volume.sync(), "sync");
  return in;
}

// Returns the number of files read.
std::uint64_t walk(fs::Volume& volume, std::size_t bytes) {
  const InodeNo in = must(volume.lookup(fs::kRootInode, "files"), "lookup").inode;
  std::vector<std::byte> content(bytes);
  std::uint64_t cookie = 0, seen = 0;
  for (;;) {
    const auto entries = must(volume.read_directory(in, cookie, 500), "list");
    if (entries.empty()) return seen;
    for (const fs::DirectoryEntry& entry : entries) {
      const InodeNo inode = must(volume.lookup(in, entry.name), "lookup").inode;
      seen += must(volume.read(inode, 0, content), "read") == bytes;
      volume.forget(inode, 1);
    }
    cookie = entries.back().cookie;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string image;
  std::uint64_t files = 10'000;
  std::size_t bytes = 4096;
  CommandLine app("seeks", "Seeks of a cold walk through small files.", nullptr);
  app.option("image", image, "new file, removed at the end").required();
  app.option("--files", files).with_default();
  app.option("--bytes", bytes, "of each file").with_default();
  if (const auto status = app.parse(argc, argv)) return *status;

  edi::CreateOptions options{.zones = {{256, 4096}}, .overwrite = true};
  must(edi::create(image, options), "creating the image");
  const auto disk = must(edi::open_image(image), "opening the image");
  const auto plan = must(mkfs::make_filesystem(*disk, mkfs::Options{}), "format");
  WatchedDevice device(*disk, plan.layout.log_bands);
  auto volume = must(fs::Volume::mount(device, fs::MountOptions{}), "mount");
  make_files(*volume, files, bytes);
  must(volume->unmount(), "unmount");
  volume.reset();
  device.take();
  volume = must(fs::Volume::mount(device, fs::MountOptions{}), "mount");
  Json result{{"files", files}, {"bytes_each", bytes}, {"mount", device.take()}};
  if (walk(*volume, bytes) != files) {
    std::fprintf(stderr, "seeks: files are missing\n");
    return 1;
  }
  result["walk"] = device.take();
  must(volume->unmount(), "unmount");
  ::unlink(image.c_str());
  std::printf("%s\n", result.dump(1).c_str());
}
