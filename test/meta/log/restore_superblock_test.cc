// A superblock is rebuilt from a log of which one block cannot be read at first, or is read wrong.
#include "meta/log/restore_superblock.h"
#include "test/meta/modelled_store.h"
#include "test/meta/troubled_device.h"

namespace lazyfs::meta {
namespace {

class RestoreSuperblockTest : public ModelledStoreTest {
 protected:
  static constexpr std::uint32_t kBands = 10, kBandBlocks = 32, kLogBands = 6;

  void SetUp() override {
    ASSERT_TRUE(Store::format(*device, small_superblock(kLogBands)));
    for (std::uint64_t session = 0; session < 2; ++session) {
      open_on(*device);
      for (std::uint64_t key = 0; key < 12; ++key) {
        put(key, 'a');
        ASSERT_TRUE(store->commit());
      }
      store.reset();
      device->forget_write_pointers();
    }
  }
  // The superblock that is rebuilt when both copies are lost, read from `from`.
  Superblock rebuilt(device::Device& from) {
    const AlignedBuffer zeros = AlignedBuffer::zeroed(kBandBlocks * kBlockBytes);
    for (const std::uint32_t band : {0u, 1u}) device->poke({BandId{band}, 0}, zeros.span());
    device->forget_write_pointers();
    const auto done = restore_superblock(from, std::nullopt, [](const std::string&) {});
    EXPECT_TRUE(done) << describe(done.error());
    const auto superblock = read_superblock(*device);
    EXPECT_TRUE(superblock);
    return superblock.value_or(Superblock{});
  }

  std::unique_ptr<device::MemoryDevice> device = memory_device(kBands, kBandBlocks);
};

TEST_F(RestoreSuperblockTest, AnErrorThatASecondReadDoesNotHaveChangesNothing) {
  const Superblock expected = rebuilt(*device);
  EXPECT_GE(expected.log_bands.size(), 2u);
  for (const BandId band : expected.log_bands) {
    for (std::uint32_t rba = 0; rba < *device->write_pointer(band); ++rba) {
      SCOPED_TRACE(::testing::Message() << "band " << band.value << " block " << rba);
      TroubledDevice troubled(*device, {band, rba}, false);
      EXPECT_EQ(rebuilt(troubled), expected);
    }
  }
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
}

TEST_F(RestoreSuperblockTest, AnyOneReadMayReturnOtherBytes) {
  const Superblock expected = rebuilt(*device);
  bool is_past = true;
  for (std::uint64_t n = 1; is_past && !HasFailure(); ++n) {
    SCOPED_TRACE(n);
    WrongReadDevice wrong(*device, n);
    EXPECT_EQ(rebuilt(wrong), expected);
    is_past = wrong.is_past();
  }
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
}

}  // namespace
}  // namespace lazyfs::meta
