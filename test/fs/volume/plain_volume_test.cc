// A volume in the layout of a plain block device: its sessions write no block in place.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "device/recording.h"
#include "disk/open.h"
#include "fs/volume/volume.h"
#include "mkfs/mkfs.h"
#include "test/fsck/expect_clean.h"
#include "test/plain/plain_file.h"
#include "test/support/result_printer.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kVolumeBytes = std::uint64_t{34} << 20, kBandBytes = std::uint64_t{1} << 18;

class PlainVolumeTest : public testing::Test {
 protected:
  PlainVolumeTest() {
    EXPECT_EQ(plain::create(file_.path(), *plain::plan_volume(kVolumeBytes, kBandBytes)), ok());
    device_ = *disk::open(file_.path());
    EXPECT_TRUE(mkfs::make_filesystem(*device_, {}));
    device_.reset();
  }
  // Opens the device and mounts it; what is written is recorded.
  void mount() {
    device_ = *disk::open(file_.path());
    recorded_.emplace(*device_);
    first_op_ = recorded_->op_count();
    auto volume = Volume::mount(*recorded_, {.background = false});
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void end(bool cleanly) {
    if (cleanly) {
      EXPECT_EQ(volume_->unmount(), ok());
    } else {
      volume_->shut_down();
    }
    volume_.reset();
    look_at_ops();
    recorded_.reset();
    device_.reset();
    device_ = *disk::open(file_.path(), {.read_only = true});
    fsck::expect_clean(*device_);
    device_.reset();
  }
  void create_and_sync(const std::string& name) {
    const auto made = volume_->create(kRootInode, name, 0644, {});
    ASSERT_TRUE(made) << describe(made.error());
    volume_->release(made->file);
    const InodeNo file = made->attributes.inode;
    const std::string text(8192, name.back());
    ASSERT_EQ(volume_->write(file, 0, std::as_bytes(std::span(text))), ok());
    ASSERT_EQ(volume_->fsync(file, nullptr, false), ok());
    contents_[name] = text;
  }
  void expect_contents() {
    for (const auto& [name, text] : contents_) {
      const auto found = volume_->lookup(kRootInode, name);
      ASSERT_TRUE(found) << name;
      std::string read(text.size() + 1, '?');
      const auto length =
          volume_->read(found->inode, 0, std::as_writable_bytes(std::span(read)));
      ASSERT_TRUE(length) << describe(length.error());
      read.resize(*length);
      EXPECT_EQ(read, text) << name;
      volume_->forget(found->inode, 1);
    }
  }

 private:
  // Every block is written once between two resets of its band, over all sessions.
  void look_at_ops() {
    const auto ops = recorded_->recording().ops;
    for (std::size_t i = first_op_; i < ops.size(); ++i) {
      const device::Op& op = ops[i];
      ASSERT_NE(op.kind, device::Op::Kind::kSetWritePointer);
      if (op.kind == device::Op::Kind::kReset) written_[op.at.band].clear();
      for (std::size_t block = 0; block < op.bytes.size() / kBlockBytes; ++block) {
        const auto rba = static_cast<std::uint32_t>(op.at.rba + block);
        EXPECT_TRUE(written_[op.at.band].insert(rba).second)
            << "band " << op.at.band.value << " block " << rba << " is written in place";
      }
    }
  }

 protected:
  plain::PlainFile file_{kVolumeBytes};
  std::unique_ptr<device::Device> device_;
  std::optional<device::RecordingDevice> recorded_;
  std::size_t first_op_ = 0;
  std::unique_ptr<Volume> volume_;
  std::map<BandId, std::set<std::uint32_t>> written_;
  std::map<std::string, std::string> contents_;
};

TEST_F(PlainVolumeTest, NewFilesThatAreSyncedAreNoWritesInPlace) {
  mount();
  for (int i = 0; i < 20; ++i) create_and_sync("f" + std::to_string(i));
  end(true);
  mount();
  expect_contents();
  end(true);
}

TEST_F(PlainVolumeTest, SessionsThatEndInAnyWayWriteNoBlockTwice) {
  for (int session = 0; session < 12; ++session) {
    mount();
    expect_contents();
    for (int i = 0; i < 3; ++i) {
      create_and_sync("s" + std::to_string(session) + "_" + std::to_string(i));
    }
    end(session % 3 == 0);
  }
}

}  // namespace
}  // namespace lazyfs::fs
