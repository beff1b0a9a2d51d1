// The fuzz target for whole volumes (fuzz/targets.h): one of two, with blocks changed as the input
// says and all checksums over them corrected. It is checked, mounted and read, repaired, checked
// again, which must find nothing, and read again.
//
// The input: which volume (1 byte), then changes: what (1), at which block (2), and what that
// takes. A change whose highest bit is set leaves the block's own checksum wrong.
#include <map>
#include <set>
#include <vector>

#include "base/crc32c.h"
#include "base/endian.h"
#include "test/fsck/readable.h"
#include "fsck/repair.h"
#include "test/fsck/sample_volume.h"
#include "fuzz/input.h"
#include "meta/log/log_format.h"

namespace lazyfs::fuzz {
namespace {

constexpr std::uint32_t kBands = 24, kBandBlocks = 64;
constexpr int kChangesMax = 64;
constexpr std::size_t kTextMax = 32;

struct Base {
  std::map<BandAddress, AlignedBuffer> blocks;  // all that were written
  std::vector<BandAddress> metadata;            // of these
  std::vector<std::uint32_t> write_pointers;    // of each band
};

Base base_of(device::MemoryDevice& device) {
  Base base;
  for (std::uint32_t band = 0; band < kBands; ++band) {
    const std::uint32_t end = *device.write_pointer(BandId{band});
    base.write_pointers.push_back(end);
    for (std::uint32_t rba = 0; rba < end; ++rba) {
      const BandAddress at{BandId{band}, rba};
      AlignedBuffer bytes(kBlockBytes);
      device.peek(at, bytes.span());
      if (bytes.data()[0] == std::byte{'L'} && bytes.data()[1] == std::byte{'Z'}) {
        base.metadata.push_back(at);
      }
      base.blocks.emplace(at, std::move(bytes));
    }
  }
  return base;
}

// A volume with every kind of item, unmounted.
Base tidy() {
  fsck::SampleVolume volume;
  require(volume.store->close().has_value(), "the sample volume is closed");
  volume.store.reset();
  return base_of(*volume.device);
}

// A volume that was used for a while, and whose power was cut.
Base used() {
  fsck::FixedClock clock;
  const auto device = device::MemoryDevice::uniform(kBands, kBandBlocks);
  const mkfs::Options options{.label = "used", .uuid = fsck::sample_uuid()};
  require(mkfs::make_filesystem(*device, options, clock).has_value(), "a volume is made");
  auto mounted = fs::Volume::mount(*device, {.background = false}, clock);
  require(mounted.has_value(), "it is mounted");
  fs::Volume& volume = **mounted;
  const auto folder = volume.make_directory(fs::kRootInode, "folder", 0755, {});
  require(folder.has_value(), "it takes a directory");
  InodeNo before{};
  for (int i = 0; i < 60; ++i) {
    const auto file = volume.create(i % 3 ? folder->inode : fs::kRootInode,
                                    "file " + std::to_string(i), 0644, {});
    require(file.has_value(), "it takes files");
    const std::string text(static_cast<std::size_t>(i) * 700, static_cast<char>('a' + i % 26));
    const InodeNo inode = file->attributes.inode;
    require(volume.write(inode, 0, std::as_bytes(std::span(text))).has_value(), "and contents");
    volume.release(file->file);
    if (i % 7 == 0) {
      require(volume.set_xattr(inode, "user.long", std::string(2000, 'x'), {}).has_value(),
              "and attributes");
    }
    if (i % 5 == 4) {
      ignore_error(volume.unlink(fs::kRootInode, "file " + std::to_string(i - 4)),
                   "it may be in the other directory");
    }
    if (i > 10 && i % 3 == 0) {
      require(volume.copy_range(inode, 0, before, 0, text.size(), false).has_value(), "and copies");
    }
    before = inode;
    if (i % 4 == 0) require(volume.sync().has_value(), "and syncs");
  }
  volume.shut_down();
  return base_of(*device);
}

class Changed {
 public:
  explicit Changed(const Base& base)
      : base_(base), device_(device::MemoryDevice::uniform(kBands, kBandBlocks)) {
    for (const auto& [at, bytes] : base.blocks) device_->poke(at, bytes.span());
    for (std::uint32_t band = 0; band < kBands; ++band) {
      device_->place_write_pointer(BandId{band}, base.write_pointers[band]);
    }
  }

  device::MemoryDevice& apply(Input input) {
    for (int i = 0; i < kChangesMax && !input.empty(); ++i) change(input);
    if (!touched_.empty()) seal_log();
    return *device_;
  }

 private:
  AlignedBuffer read(BandAddress at) {
    AlignedBuffer bytes = AlignedBuffer::zeroed(kBlockBytes);
    if (at.rba < kBandBlocks) device_->peek(at, bytes.span());
    return bytes;
  }

  BandAddress some_block(Input& input) {
    return base_.metadata[input.number(2) % base_.metadata.size()];
  }

  void change(Input& input) {
    const std::uint32_t what = input.number(1);
    const BandAddress at = some_block(input);
    AlignedBuffer block = read(at);
    switch (what % 8) {
      default: {
        const std::size_t offset = input.number(2) % kBlockBytes;
        const Bytes text = input.take(1 + input.number(1) % kTextMax);
        std::ranges::copy(text.first(std::min(text.size(), kBlockBytes - offset)),
                          block.data() + offset);
        break;
      }
      case 5: block = read(some_block(input)); break;
      case 6: device_->place_write_pointer(at.band, input.number(1) % (kBandBlocks + 1)); return;
      case 7: block = AlignedBuffer::zeroed(kBlockBytes); break;
    }
    if (what < 0x80) store_le_at(block.span(), 4, crc32c(block.span().subspan(8)));
    device_->poke(at, block.span());
    touched_.insert(at);
  }

  // Corrects the checksums that descriptors carry of the images after them, and those that
  // commit records carry of descriptors.
  void seal_log() {
    for (const BandAddress at : base_.metadata) {
      AlignedBuffer bytes = read(at);
      auto front =
          meta::decode_descriptor(meta::DescriptorRole::kFront, bytes.span().first<kBlockBytes>());
      if (front && front->part_blocks() <= kBandBlocks) seal_part(at, *front);
    }
  }

  void seal_part(BandAddress at, meta::Descriptor& front) {
    if (front.block == 0) images_seen_ = 0;
    const std::uint32_t begin = at.rba - front.block;
    bool changed = touched_.contains(at);
    for (meta::DescriptorEntry& entry : front.entries) {
      if (!meta::has_block(entry.kind)) continue;
      const BandAddress image{at.band, begin + front.descriptors + images_seen_++};
      if (!touched_.contains(image)) continue;
      entry.crc = crc32c(read(image).span().subspan(8));
      changed = true;
    }
    if (changed) put(at, front, meta::DescriptorRole::kFront);
    std::uint32_t& crc = crcs_[front.seq.value];
    crc = crc32c(read(at).span().subspan(4, 4), crc);

    const BandAddress copy{at.band, begin + front.descriptors + front.images + front.block};
    const AlignedBuffer last = read(copy);
    const auto role = last.data()[3] == std::byte{'M'} ? meta::DescriptorRole::kCommit
                                                       : meta::DescriptorRole::kCopy;
    auto last_block = meta::decode_descriptor(role, last.span().first<kBlockBytes>());
    if (!last_block || last_block->seq != front.seq) return;
    last_block->entries = front.entries;
    if (role == meta::DescriptorRole::kCommit) last_block->descriptors_crc = crc;
    put(copy, *last_block, role);
  }

  void put(BandAddress at, const meta::Descriptor& descriptor, meta::DescriptorRole role) {
    AlignedBuffer bytes(kBlockBytes);
    meta::encode(descriptor, role, bytes.span().first<kBlockBytes>());
    device_->poke(at, bytes.span());
  }

  const Base& base_;
  std::unique_ptr<device::MemoryDevice> device_;
  std::set<BandAddress> touched_;
  std::map<std::uint64_t, std::uint32_t> crcs_;  // of a transaction's descriptors, so far
  std::uint32_t images_seen_ = 0;                // of the part
};

void check(device::Device& device) {
  const auto store = meta::Store::open(device, {.background = false, .read_only = true});
  if (!store) return;
  ignore_error(fsck::check(**store, device, {.data = true}, [](const std::string&) {}),
               "what it finds is its business");
}

// False when there is nothing left that could be repaired.
bool repair(device::Device& device) {
  fsck::FixedClock clock;
  const auto listener = [](const std::string&) {};
  const auto store = fsck::open_for_repair(device, listener);
  if (!store) return false;
  if (!fsck::repair(**store, device, clock, listener).result) return false;
  const auto left = fsck::check(**store, device, {}, [](const std::string& problem) {
    std::fprintf(stderr, "%s\n", problem.c_str());
  });
  require(left && left->problems == 0, "a repaired volume is clean");
  require((*store)->close().has_value(), "and can be closed");
  return true;
}

}  // namespace

void image(Bytes input) {
  static const Base bases[] = {tidy(), used()};
  Input from(input);
  Changed changed(bases[from.number(1) % 2]);
  device::MemoryDevice& device = changed.apply(from);
  check(device);
  fsck::Readable::of(device);
  if (repair(device)) fsck::Readable::of(device);
}

}  // namespace lazyfs::fuzz
