// A small device with a mounted volume, and short names for what tests do with it. After each test
// the volume is checked.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "device/faulty.h"
#include "mkfs/mkfs.h"
#include "fs/volume/volume.h"
#include "test/fsck/expect_clean.h"
#include "test/support/test_device.h"

namespace lazyfs::fs {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class VolumeTest : public testing::Test {
 protected:
  explicit VolumeTest(std::uint32_t bands = 64) : device_(test_device(bands, 256)) {}
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {}));
    device_->forget_write_pointers();
    mount();
  }
  void TearDown() override {
    if (volume_) {
      EXPECT_TRUE(volume_->unmount());
      volume_.reset();
      device_->forget_write_pointers();
      fsck::expect_clean(*device_);
      EXPECT_EQ(device_->refused_begins(), 0u);
    }
  }
  virtual void mount() {
    auto volume = Volume::mount(faulty_, options_);
    ASSERT_TRUE(volume) << describe(volume.error());
    volume_ = std::move(*volume);
  }
  void remount() {
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    mount_again();
  }
  void lose_power() {
    volume_->shut_down();
    volume_.reset();
    mount_again();
  }
  void mount_again() {
    device_->forget_write_pointers();
    fsck::expect_clean(*device_);
    device_->forget_write_pointers();
    mount();
  }
  InodeNo create(std::string_view name, InodeNo parent = kRootInode) {
    auto made = volume_->create(parent, name, 0644, {});
    EXPECT_TRUE(made) << describe(made.error());
    volume_->release(made->file);
    return made->attributes.inode;
  }
  void write(InodeNo inode, std::uint64_t offset, std::string_view text) {
    const auto done = volume_->write(inode, offset, bytes_of(text));
    ASSERT_TRUE(done) << describe(done.error());
  }
  std::string read(InodeNo inode, std::uint64_t offset = 0, std::size_t length = 1 << 20) {
    std::string text(length, '?');
    const auto n = volume_->read(inode, offset, std::as_writable_bytes(std::span(text)));
    EXPECT_TRUE(n) << describe(n.error());
    text.resize(n.value_or(0));
    return text;
  }
  InodeNo lookup(std::string_view name, InodeNo parent = kRootInode) {
    const auto found = volume_->lookup(parent, name);
    EXPECT_TRUE(found) << name << ": " << describe(found.error());
    return found ? found->inode : InodeNo{};
  }

  std::unique_ptr<device::MemoryDevice> device_;
  device::FaultyDevice faulty_{*device_};
  MountOptions options_{.background = false};
  std::unique_ptr<Volume> volume_;
};

}  // namespace lazyfs::fs
