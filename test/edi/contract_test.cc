// The contract of a banded device on emulated disks: in files, on file systems with and without
// direct I/O, and on a block device.
#include "test/device/contract.h"

#include <unistd.h>

#include <filesystem>

#include "device/whole_blocks.h"
#include "edi/create.h"
#include "edi/image.h"
#include "test/support/loop_device.h"

namespace lazyfs::device {
namespace {

class ImageBench : public Bench {
 public:
  // Makes a new image at `path`. Fails the test when it returns null.
  static std::unique_ptr<Bench> make(std::string path, edi::CreateOptions options,
                                     bool in_whole_blocks = false) {
    auto bench = std::make_unique<ImageBench>(std::move(path), in_whole_blocks);
    options.overwrite = true;
    if (edi::create(bench->path_, options) && bench->reopen(false)) return bench;
    ADD_FAILURE() << "cannot make an image at " << bench->path_;
    return nullptr;
  }
  ImageBench(std::string path, bool in_whole_blocks)
      : path_(std::move(path)), in_whole_blocks_(in_whole_blocks) {}

  Device& device() override { return *device_; }
  bool reopen(bool read_only) override {
    device_.reset();
    auto opened = edi::open(path_, {.read_only = read_only});
    if (opened && in_whole_blocks_) opened = WholeBlocks::make(*std::move(opened));
    if (opened) device_ = *std::move(opened);
    return device_ != nullptr;
  }

 private:
  const std::string path_;
  const bool in_whole_blocks_;  // 512-byte blocks in those of kBlockBytes
  std::unique_ptr<Device> device_;
};

// A bench that removes its file or loop device at its end.
template <class Ground>
class GroundedBench final : public Bench {
 public:
  GroundedBench(Ground ground, std::unique_ptr<Bench> bench)
      : ground_(std::move(ground)), bench_(std::move(bench)) {}
  Device& device() override { return bench_->device(); }
  bool reopen(bool read_only) override { return bench_->reopen(read_only); }

 private:
  Ground ground_;
  std::unique_ptr<Bench> bench_;
};

struct File {
  explicit File(std::string where) : path(std::move(where)) {}
  File(File&& other) noexcept : path(std::exchange(other.path, {})) {}
  ~File() {
    if (!path.empty()) std::filesystem::remove(path);
  }
  std::string path;
};

std::function<std::unique_ptr<Bench>()> in_file(const std::string& folder,
                                                edi::CreateOptions options,
                                                bool in_whole_blocks = false) {
  return [=]() -> std::unique_ptr<Bench> {
    if (!std::filesystem::exists(folder)) return nullptr;
    File file(folder + "/lazyfs-contract-" + std::to_string(::getpid()) + ".edi");
    auto bench = ImageBench::make(file.path, options, in_whole_blocks);
    if (!bench) return nullptr;
    return std::make_unique<GroundedBench<File>>(std::move(file), std::move(bench));
  };
}

std::function<std::unique_ptr<Bench>()> on_loop_device(edi::CreateOptions options, bool direct) {
  return [=]() -> std::unique_ptr<Bench> {
    auto loop = LoopDevice::make(std::uint64_t{64} << 20, direct);
    if (!loop) return nullptr;
    auto bench = ImageBench::make(loop->path(), options);
    if (!bench) return nullptr;
    return std::make_unique<GroundedBench<std::unique_ptr<LoopDevice>>>(std::move(loop),
                                                                        std::move(bench));
  };
}

const edi::CreateOptions kThesis{.format = 0, .zones = {{6, kManyBlocks}}};
// The geometry of contract.h with two additional links.
const edi::CreateOptions kZoned{
    .format = 1,
    .zones = {{2, 16}, {1, 8}, {1, 32}, {1, 16}, {2, 12}, {4, kManyBlocks / 4 + 1}},
    .conventional = {1},
    .linked = {{5, 6}, {7, 10}}};
const edi::CreateOptions kSmallBlocks{
    .format = 1, .block_bytes = 512, .zones = {{5, 16}, {1, kManyBlocks}}, .conventional = {2}};
// A part of a whole block is left at the end of each band.
const edi::CreateOptions kSectors{.format = 1,
                                  .block_bytes = 512,
                                  .zones = {{5, 16 * 8 + 5}, {1, kManyBlocks * 8}},
                                  .conventional = {2}};
const edi::CreateOptions kLargeBlocks{
    .format = 1, .block_bytes = 16384, .zones = {{5, 16}, {1, kManyBlocks}}};

INSTANTIATE_TEST_SUITE_P(
    Edi, DeviceContract,
    testing::Values(Subject{"format_0", in_file(".", kThesis)},
                    Subject{"format_1", in_file(".", kZoned)},
                    Subject{"format_1_without_direct_io", in_file("/dev/shm", kZoned)},
                    Subject{"format_1_of_512_byte_blocks", in_file(".", kSmallBlocks)},
                    Subject{"format_1_of_512_byte_blocks_used_in_whole_ones",
                            in_file(".", kSectors, true)},
                    Subject{"format_1_of_16_KiB_blocks", in_file(".", kLargeBlocks)},
                    Subject{"format_0_on_a_loop_device", on_loop_device(kThesis, false)},
                    Subject{"format_1_on_a_loop_device", on_loop_device(kZoned, true)}),
    subject_name);

}  // namespace
}  // namespace lazyfs::device
