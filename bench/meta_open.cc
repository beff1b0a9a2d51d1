// Measures how long opening the metadata store takes, after a clean end and after a crash:
// `meta_open IMAGE [FILES...]`. Makes IMAGE as a new sparse file and removes it at the end. Run it
// as root on a disk, so that it can drop the page cache before each opening. Prints one figure per
// line.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "bench.h"
#include "device/forwarding.h"
#include "edi/create.h"
#include "edi/image.h"
#include "meta/store/store.h"
#include "tools/command_line.h"

namespace lazyfs::meta {
namespace {

using namespace bench;

constexpr std::uint32_t kBandBlocks = 65536, kLogBands = 16;
constexpr std::uint64_t kAfterCheckpoint = 15'000, kWithoutCheckpoints = 110'000;  // blocks

// Does not flush while it makes the contents: only the opening is measured.
class Unflushed final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<> flush() override { return ok(); }
};

class Bench {
 public:
  explicit Bench(std::string path) : path_(std::move(path)) {}
  ~Bench() { ::unlink(path_.c_str()); }

  void run(std::uint64_t files) {
    edi::CreateOptions image{.zones = {{kLogBands + 4, kBandBlocks}}, .overwrite = true};
    must(edi::create(path_, image).has_value(), "creating the image");
    open_device();
    Superblock superblock;
    for (std::uint32_t i = 0; i < kLogBands; ++i) superblock.log_bands.push_back(BandId{2 + i});
    must(Store::format(*device_, superblock).has_value(), "format");
    open_store({});
    for (std::uint64_t i = 0; i < files; ++i) create_file(i);
    must(store_->close().has_value(), "close");
    reopen("after a clean end", files);
    change_until(files, {}, kAfterCheckpoint, 4);
    reopen("after a crash", files);
    for (const std::uint64_t batch : {1, 16, 256}) {
      change_until(files, {.checkpoint_bytes = std::size_t{1} << 40}, kWithoutCheckpoints, batch);
      reopen("no checkpoints, commits of " + std::to_string(batch), files);
      must(store_->close().has_value(), "close");
    }
    store_.reset();
    device_.reset();
  }

 private:
  void open_device() {
    device_.reset();
    auto device = edi::open_image(path_);
    must(device.has_value(), "opening the image");
    device_ = std::move(*device);
  }
  void open_store(StoreOptions options, bool flushes = true) {
    unflushed_.emplace(*device_);
    auto store = Store::open(flushes ? *device_ : *unflushed_, options);
    must(store.has_value(), "opening the store");
    store_ = std::move(*store);
  }
  void reopen(const std::string& when, std::uint64_t files) {
    store_.reset();
    must(device_->flush().has_value(), "flush");
    open_device();
    drop_caches();
    const double begin = now_us();
    open_store({});
    const double took = (now_us() - begin) / 1000;
    const StoreStats stats = store_->stats();
    const double gib =
        static_cast<double>(stats.log_blocks_after_checkpoint) * kBlockBytes / (1 << 30);
    std::printf(
        "%8lu files, %-30s %8.1f ms; %7lu nodes, %6lu parts, %.3f GiB after the checkpoint: "
        "%.2f s/GiB\n",
        files, when.c_str(), took, stats.jmap_entries, stats.recovered_parts, gib,
        gib > 0 ? took / 1000 / gib : 0.0);
    std::fflush(stdout);
  }
  // An inode, two directory entries, a counter in the parent; 100 files a directory.
  void create_file(std::uint64_t i) {
    const std::uint64_t inode = 1'000'000 + i + i / 100, parent = 1'000'000 + i / 100 * 101 + 100;
    const std::vector<std::byte> value(128, std::byte{42});
    const auto bytes = std::span(value);
    Batch batch;
    batch.put({inode, 1, 0}, bytes);
    batch.put({parent, 2, inode * 0x9E3779B97F4A7C15ull}, bytes.first(34));
    batch.put({parent, 3, i % 100 + 1}, bytes.first(34));
    const std::array<std::int64_t, 4> deltas{1, 1, 1, 1};
    batch.add({parent, 1, 0}, deltas);
    must(store_->apply(batch).has_value(), "apply");
  }
  // Commits after each `batch` files, as fsync does, until the log has the requested number of
  // blocks. Does not end cleanly.
  void change_until(std::uint64_t files, const StoreOptions& options, std::uint64_t blocks,
                    std::uint64_t batch) {
    store_.reset();
    open_store(options, false);
    std::mt19937_64 random(1);
    while (store_->stats().log_blocks_written < blocks) {
      for (std::uint64_t i = 0; i < batch; ++i) create_file(random() % files);
      must(store_->commit().has_value(), "commit");
    }
  }

  const std::string path_;
  std::unique_ptr<device::Device> device_;
  std::optional<Unflushed> unflushed_;
  std::unique_ptr<Store> store_;
};

}  // namespace
}  // namespace lazyfs::meta

int main(int argc, char** argv) {
  std::string image;
  std::vector<std::uint64_t> counts{10'000, 100'000, 1'000'000};
  lazyfs::CommandLine app("meta_open", "The time of a mount, after a clean end and after a crash.",
                          nullptr);
  app.option("IMAGE", image, "file, replaced, and removed at the end").required();
  app.option("FILES", counts, "numbers of files").with_default();
  if (const auto status = app.parse(argc, argv)) return *status;
  lazyfs::meta::Bench bench(image);
  for (const std::uint64_t files : counts) bench.run(files);
}
