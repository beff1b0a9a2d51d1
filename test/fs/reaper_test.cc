// Deleting on a volume whose metadata log has little room, or none for a while.
#include "fs/reaper.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "device/memory.h"
#include "fs/format.h"
#include "fs/mounted_volume.h"
#include "fs/schema.h"
#include "sound.h"

namespace lazyfs::fs {
namespace {

// Another store, but for batches that delete and are larger than it takes just now.
class CrowdedStore : public meta::Store {
 public:
  explicit CrowdedStore(std::unique_ptr<meta::Store> below) : below_(std::move(below)) {}
  std::size_t room = SIZE_MAX;  // entries of a batch

  Result<std::optional<meta::Value>> get(meta::Key key) override { return below_->get(key); }
  Result<std::optional<meta::Item>> last_in(meta::Key first, meta::Key last) override {
    return below_->last_in(first, last);
  }
  Result<std::vector<meta::Item>> scan(meta::Key first, meta::Key last,
                                       std::size_t max_items) override {
    return below_->scan(first, last, max_items);
  }
  Result<Seq> apply(const meta::Batch& batch, meta::Reserve reserve) override {
    if (reserve == meta::Reserve::kDelete && batch.size() > room) return fail(Errc::kLogFull);
    return below_->apply(batch, reserve);
  }
  Result<> commit() override { return below_->commit(); }
  Seq durable_seq() const override { return below_->durable_seq(); }
  void on_durable(std::function<void(Seq)> listener) override {
    below_->on_durable(std::move(listener));
  }
  void set_band_source(BandSource source) override { below_->set_band_source(std::move(source)); }
  std::vector<BandId> log_bands() const override { return below_->log_bands(); }
  std::vector<LogBandUse> log_band_use() const override { return below_->log_band_use(); }
  meta::Superblock superblock() const override { return below_->superblock(); }
  meta::StoreStats stats() const override { return below_->stats(); }
  bool failed() const override { return below_->failed(); }
  Result<> close() override { return below_->close(); }
  Result<> check(const std::function<void(std::string)>& problem) override {
    return below_->check(problem);
  }

 private:
  const std::unique_ptr<meta::Store> below_;
};

class ReaperTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(format(*device_, FormatOptions{}));
    auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    auto crowded = std::make_unique<CrowdedStore>(std::move(*store));
    store_ = crowded.get();
    volume_ =
        std::make_unique<MountedVolume>(*device_, options_, system_clock(), std::move(crowded));
    ASSERT_TRUE(volume_->start());
  }
  void TearDown() override {
    EXPECT_TRUE(volume_->unmount());
    volume_.reset();
    expect_sound(*device_);
  }
  // A file of `pieces` extents.
  InodeNo make(std::string_view name, std::uint64_t pieces) {
    auto made = volume_->create(kRootInode, name, 0644, {});
    EXPECT_TRUE(made);
    const InodeNo inode = made->attributes.inode;
    const std::vector<std::byte> block(kBlockBytes, std::byte{7});
    for (std::uint64_t i = 0; i < pieces; ++i) {
      EXPECT_TRUE(static_cast<Volume&>(*volume_).write(inode, 2 * i * kBlockBytes, block));
    }
    EXPECT_TRUE(volume_->fsync(inode, nullptr, false));
    volume_->release(made->file);
    return inode;
  }
  // While a batch that deletes may have `room` entries.
  void remove(std::string_view name, InodeNo inode, std::size_t room) {
    store_->room = SIZE_MAX;
    ASSERT_TRUE(volume_->unlink(kRootInode, name));
    store_->room = room;
    volume_->forget(inode, 1);
    EXPECT_TRUE(volume_->space());  // which waits for the deleting
  }
  std::uint64_t to_delete() {
    return nlohmann::json::parse(volume_->stats_json())["inodes_to_delete"];
  }
  bool has_item(InodeNo inode) { return store_->get(key_of(inode, Kind::kInode))->has_value(); }

  const MountOptions options_{.background = false};
  std::unique_ptr<device::MemoryDevice> device_ = device::MemoryDevice::uniform(64, 128);
  CrowdedStore* store_ = nullptr;
  std::unique_ptr<MountedVolume> volume_;
};

TEST_F(ReaperTest, DeletesLaterWhatTheLogHasNoRoomForNow) {
  const InodeNo first = make("first", 10), second = make("second", 10);
  remove("first", first, 0);
  EXPECT_EQ(to_delete(), 1u);
  remove("second", second, 0);
  EXPECT_EQ(to_delete(), 2u);
  EXPECT_TRUE(has_item(first));
  EXPECT_TRUE(volume_->space());
  EXPECT_EQ(to_delete(), 2u) << "tried again and again";
  store_->room = SIZE_MAX;
  EXPECT_TRUE(volume_->space());
  EXPECT_EQ(to_delete(), 0u);
  EXPECT_FALSE(has_item(first));
  EXPECT_FALSE(has_item(second));
}

TEST_F(ReaperTest, DeletesInSmallStepsWhileThereIsLittleRoom) {
  const InodeNo inode = make("pieces", 600);
  remove("pieces", inode, 64);
  EXPECT_EQ(to_delete(), 0u);
  EXPECT_FALSE(has_item(inode));
}

}  // namespace
}  // namespace lazyfs::fs
