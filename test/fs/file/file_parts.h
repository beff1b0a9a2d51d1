// The parts of a volume that work on file data, put together as MountedVolume does, for tests that
// use one of them by itself. No thread works in the background.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "device/memory.h"
#include "fs/file/file_writer.h"
#include "fs/file/write_back.h"
#include "fs/volume/recovery.h"
#include "mkfs/mkfs.h"
#include "test/support/stepped_clock.h"

namespace lazyfs::fs {

class FilePartsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(recover_bands(*device_, *store_, bands_, false));
  }
  void TearDown() override { EXPECT_TRUE(store_->close()); }
  // A file without a name.
  InodeRef make(std::uint64_t number) {
    InodeRecord record;
    record.mode = S_IFREG | 0644;
    record.links = 1;
    meta::Batch batch;
    batch.put(key_of(InodeNo{number}, Kind::kInode), encode(record));
    EXPECT_TRUE(store_->apply(batch));
    auto inode = inodes_.get(InodeNo{number});
    EXPECT_TRUE(inode);
    return *inode;
  }
  void write(const InodeRef& inode, std::uint64_t block, std::uint64_t blocks) {
    const std::vector<std::byte> bytes(blocks * kBlockBytes, std::byte{7});
    EXPECT_TRUE(writer_.write(inode, block * kBlockBytes, bytes, {}));
  }
  std::unique_ptr<meta::Store> make_store() {
    EXPECT_TRUE(mkfs::make_filesystem(*device_, {.log_bytes = 16 << 20}));
    return std::move(*meta::Store::open(*device_, {.background = false}));
  }

  std::function<void()> progress_;  // of WriteBack::Hooks
  SteppedClock clock_;
  Counters counters_;
  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(128, 256);
  std::unique_ptr<meta::Store> store_ = make_store();
  data::PagePool pages_;
  data::BandTable bands_{device_->geometry(), store_->superblock().super_bands,
                         store_->log_bands()};
  data::Appender appender_{*device_, bands_, data::Placement::kFirstFit, [] { return 1; }};
  InodeTable inodes_{*store_, nullptr};
  SharedExtents shared_{*store_, inodes_};
  FileMaps maps_{*store_, bands_, shared_};
  DirtyList dirty_;
  FileReader reader_{*device_, *store_, bands_, shared_, counters_, false};
  PageReserver reserver_{*store_, shared_, bands_,
                         {.throttle = [](const Inode&, std::size_t) { return ok(); },
                          .make_space = [] { return false; }}};
  Truncation truncation_{*store_, maps_, reader_, reserver_, bands_, pages_, dirty_, clock_};
  WriteBack write_back_{*store_, inodes_, maps_, truncation_, bands_, appender_, pages_, dirty_,
                        counters_, clock_,
                        {.make_room = [] { return false; },
                         .keep_up = [](std::uint64_t) {},
                         .progress = [this] { if (progress_) progress_(); }},
                        false};
  FileWriter writer_{reader_, truncation_, reserver_, pages_, dirty_, clock_};
};

}  // namespace lazyfs::fs
