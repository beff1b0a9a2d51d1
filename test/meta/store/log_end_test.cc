// The log on a device that keeps no write pointers: where it ends after a clean end and after a
// crash, and that there is always a band to write to. Such a device aborts a test that writes a
// block twice between two resets of its band.
#include <array>

#include "device/faulty.h"
#include "device/forwarding.h"
#include "meta/log/checkpoint_format.h"
#include "meta/log/log_end.h"
#include "meta/log/log_format.h"
#include "meta/log/log_layout.h"
#include "meta/log/superblock_log.h"
#include "meta/tree/node_page.h"
#include "test/meta/spare_bands.h"
#include "test/meta/modelled_store.h"
#include "test/meta/power_device.h"
#include "test/meta/troubled_device.h"

namespace lazyfs::meta {
namespace {

constexpr device::Capabilities kPlain{.keeps_write_pointers = false};
constexpr std::uint32_t kSmallestLog = min_log_bands(kPlain);

// A log of `log_bands`, the rescue band included, whatever devices other tests use.
Superblock plain_superblock(std::uint32_t log_bands) {
  return small_superblock(log_bands - rescue_bands());
}

// Counts the blocks of the log that are read.
class LogReadCounter final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<> read(BandAddress from, std::span<std::byte> to) override {
    if (from.band.value >= 2) blocks_read += to.size() / kBlockBytes;
    return ForwardingDevice::read(from, to);
  }
  std::uint64_t blocks_read = 0;
};

class LogEndTest : public ModelledStoreTest {
 protected:
  void make(std::uint32_t bands, std::uint32_t band_blocks, std::uint32_t log_bands) {
    device = device::MemoryDevice::uniform(bands, band_blocks, kPlain);
    ASSERT_TRUE(Store::format(*device, plain_superblock(log_bands)));
    reopen_device();
  }
  // What the end of the process does to the device.
  void reopen_device() { device->forget_write_pointers(); }
  void crash() {
    store.reset();
    reopen_device();
  }
  void end_cleanly() {
    ASSERT_TRUE(store->close());
    crash();
  }
  void commit() { ASSERT_TRUE(store->commit()); }
  // More nodes than one small change writes again.
  void fill() {
    for (std::uint64_t i = 100; i < 120; ++i) put(i, 'f');
    commit();
  }
  // The smallest log, with as many items as it takes.
  void make_full() {
    model.clear();
    make(8, 16, kSmallestLog);
    open_on(*device);
    std::uint64_t keys = 0;
    for (Result<Seq> put_one = Seq{}; put_one; ++keys) {
      Batch batch;
      batch.put({1, 1, keys}, as_value(std::string(1000, 'f')));
      put_one = store->apply(batch);
      if (put_one) model[{1, 1, keys}] = std::string(1000, 'f');
      commit();
    }
    ASSERT_GT(model.size(), 10u);
  }
  Superblock superblock() { return *read_superblock(*device); }
  BandId band_of(std::uint64_t slot) {
    AlignedBuffer block(kBlockBytes);
    for (const BandId band : superblock().log_bands) {
      device->peek({band, 0}, block.span());
      const auto header = decode_band_header(block.span().first<kBlockBytes>());
      if (header && header->stamp.slot == slot) return band;
    }
    ADD_FAILURE() << "no band has slot " << slot;
    return BandId{};
  }
  std::size_t bands_without_header() {
    const auto bands = superblock().log_bands;
    AlignedBuffer block(kBlockBytes);
    return static_cast<std::size_t>(std::ranges::count_if(bands, [&](BandId band) {
      device->peek({band, 0}, block.span());
      return !decode_band_header(block.span().first<kBlockBytes>());
    }));
  }
  std::uint32_t written_in(BandId band) {
    return static_cast<std::uint32_t>(device->written_since_reset(band).size());
  }
  std::uint64_t written_in_log() {
    std::uint64_t blocks = 0;
    for (const BandId band : superblock().log_bands) blocks += written_in(band);
    return blocks;
  }
  std::size_t begun_bands() {
    const auto bands = superblock().log_bands;
    return static_cast<std::size_t>(std::ranges::count_if(
        bands, [this](BandId band) { return written_in(band) > 0; }));
  }

  std::unique_ptr<device::MemoryDevice> device;
};

TEST_F(LogEndTest, ContinuesInTheSameBandAfterACleanEnd) {
  make(9, 256, 6);
  for (std::uint64_t session = 0; session < 5; ++session) {
    open_on(*device);
    put(session, 'a');
    commit();
    end_cleanly();
  }
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(begun_bands(), 1u);
}

TEST_F(LogEndTest, BeginsAFreeBandAfterACrash) {
  make(9, 256, 6);
  open_on(*device);
  fill();
  const BandId head = band_of(superblock().head_slot);
  const std::uint32_t written = written_in(head);
  crash();
  open_on(*device);
  put(2, 'b');
  commit();
  EXPECT_EQ(written_in(head), written);
  EXPECT_EQ(begun_bands(), 2u);
  end_cleanly();
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
}

// The first session leaves blocks past the end. The second writes nothing to the log, and ends
// cleanly. The third must not write there either.
TEST_F(LogEndTest, ACleanEndAfterACrashDoesNotOpenTheOldHead) {
  make(9, 256, 6);
  open_on(*device);
  fill();
  const BandId head = band_of(superblock().head_slot);
  crash();
  open_on(*device);
  ASSERT_TRUE(store->close());
  crash();
  EXPECT_TRUE(superblock().ended_cleanly());
  const std::uint32_t written = written_in(head);
  open_on(*device);
  put(2, 'b');
  commit();
  crash();
  open_on(*device);
  EXPECT_EQ(written_in(head), written);
  EXPECT_EQ(contents_of(*store), model);
}

TEST_F(LogEndTest, ADamagedDescriptorLosesNothingThatWasDurable) {
  for (const bool copy_too : {false, true}) {
    SCOPED_TRACE(copy_too);
    model.clear();
    make(9, 256, 6);
    open_on(*device);
    std::vector<PartPlace> parts;
    const BandId head = band_of(superblock().head_slot);
    std::vector<std::uint32_t> ends{written_in(head)};
    for (std::uint64_t i = 0; i < 8; ++i) {
      put(i, 'a');
      commit();
      ends.push_back(written_in(head));
    }
    crash();
    device->flip({head, ends[3]}, 300);
    if (copy_too) device->flip({head, ends[4] - 1}, 300);
    open_on(*device);
    EXPECT_EQ(contents_of(*store), model);
    store.reset();
  }
}

// Of two blocks that cannot be read only the one past the newest transaction may have held another.
TEST_F(LogEndTest, AnUnreadableBlockPastTheEndIsReportedBesideOneBeforeTheEnd) {
  make(9, 256, 6);
  open_on(*device);
  const BandId head = band_of(superblock().head_slot);
  std::vector<std::uint32_t> ends;
  for (std::uint64_t i = 0; i < 4; ++i) {
    put(i, 'a');
    commit();
    ends.push_back(written_in(head));
  }
  crash();
  device::FaultyDevice faulty(*device);
  faulty.fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
    const auto hits = [&](std::uint32_t rba) {
      return info.call == device::Call::kRead && info.at.band == head && info.at.rba <= rba &&
             rba < info.at.rba + info.blocks;
    };
    if (!hits(ends[1]) && !hits(ends[3])) return std::nullopt;
    return device::Fault{Errc::kDeviceRead};
  });
  open_on(faulty);
  EXPECT_EQ(contents_of(*store), model);
  ASSERT_EQ(store->log_losses().size(), 1u);
  const std::string place = "at block " + std::to_string(ends[3]) + ",";
  EXPECT_NE(store->log_losses()[0].find(place), std::string::npos) << store->log_losses()[0];
}

// More images than the look-ahead has blocks follow the damaged descriptor.
TEST_F(LogEndTest, ADamagedDescriptorOfALargeTransactionLosesNothingThatWasDurable) {
  make(9, 2048, 6);
  open_on(*device);
  const BandId head = band_of(superblock().head_slot);
  const std::uint32_t begin = written_in(head);
  for (std::uint64_t i = 0; i < 3 * 2 * kLookAheadBlocks; ++i) put(i, 'a');
  commit();
  ASSERT_GT(written_in(head), begin + kLookAheadBlocks);
  put(1, 'b');
  commit();
  crash();
  device->flip({head, begin}, 300);
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
}

// Nothing is written to the log by a session that changes nothing.
TEST_F(LogEndTest, SurvivesCrashesInARowThatWriteNothing) {
  make(8, 16, kSmallestLog);
  open_on(*device);
  put(1, 'a');
  commit();
  crash();
  const std::uint64_t written = written_in_log();
  for (int life = 0; life < 100; ++life) {
    open_on(*device);
    EXPECT_EQ(contents_of(*store), model);
    crash();
  }
  EXPECT_LE(written_in_log(), written);
  open_on(*device);
  put(2, 'b');
  commit();
}

TEST_F(LogEndTest, SurvivesCrashesInARowAfterOneSmallCommitEach) {
  make_full();
  for (std::uint64_t life = 0; life < 100; ++life) {
    SCOPED_TRACE(life);
    crash();
    open_on(*device);
    ASSERT_EQ(contents_of(*store), model);
    put(life % model.size(), static_cast<char>('a' + life % 26));
    commit();
  }
  crash();
  open_on(*device);
  EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
}

// Whatever is written first after some crashes: a rescue, too.
TEST_F(LogEndTest, TheBandOfARescueMayFailWhenTheVolumeHasAnother) {
  for (std::uint64_t crashes = 1; crashes < 12; ++crashes) {
    SCOPED_TRACE(crashes);
    store.reset();
    make_full();
    for (std::uint64_t life = 1; life < crashes; ++life) {
      crash();
      open_on(*device);
      put(life % model.size(), 'c');
      commit();
    }
    crash();
    device::FaultyDevice faulty(*device);
    open_on(faulty);
    SpareBands spare(2 + kSmallestLog, 1);
    store->set_band_source(spare.source());
    bool has_failed = false;
    faulty.fail_when([&](const device::CallInfo& info) -> std::optional<device::Fault> {
      const bool is_in_log = info.call == device::Call::kAppend && info.at.band.value >= 2;
      if (!is_in_log || std::exchange(has_failed, true)) return std::nullopt;
      return device::Fault{Errc::kDeviceWrite};
    });
    put(0, 'd');
    commit();
    EXPECT_TRUE(has_failed);
    crash();
    open_on(*device);
    EXPECT_EQ(contents_of(*store), model);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
  }
}

// The power is cut at each change of a session that finds only the rescue band free, again and
// again.
TEST_F(LogEndTest, IsNeverStuckWhenThePowerIsCutAtEachChange) {
  std::mt19937_64 random(test_seed());
  for (const std::uint32_t log_bands : {kSmallestLog, 9u}) {
    SCOPED_TRACE(log_bands);
    const std::uint32_t blocks = log_bands == kSmallestLog ? 16 : 32;
    PowerDevice power(log_bands + 3, blocks, random(), false);
    ASSERT_TRUE(Store::format(power, plain_superblock(log_bands)));
    power.forget_write_pointers();
    Model committed;
    for (std::uint64_t life = 0; life < 400; ++life) {
      SCOPED_TRACE(life);
      auto opened = Store::open(power, quiet_options());
      ASSERT_TRUE(opened) << describe(opened.error());
      Model found = contents_of(**opened);
      ASSERT_GE(found.size(), committed.size());
      const Key key{1, 1, life % 40};
      Batch batch;
      batch.put(key, as_value(std::string(900, 'x')));
      const bool cuts = life % 5 != 4;
      if (cuts) power.cut_power_after(1 + random() % 30);
      const auto applied = (*opened)->apply(batch);
      const bool is_durable = applied && (*opened)->commit();
      if (!cuts) {
        ASSERT_TRUE(is_durable || applied.error() == Errc::kLogFull) << describe(applied.error());
      }
      if (is_durable) found[key] = std::string(900, 'x');
      committed = found;
      opened->reset();
      power.restore_power();
    }
    EXPECT_GT(committed.size(), 10u);
  }
}

// Records of a band's earlier life may follow the newest one, and be all that is left of it.
TEST_F(LogEndTest, ASuperblockThatIsOlderThanTheLogIsNoticedAfterACleanEnd) {
  for (const std::uint64_t items : {1, 100}) {  // in the same band, and in the next one too
    SCOPED_TRACE(items);
    model.clear();
    make(12, 64, 6);
    open_on(*device);
    fill();
    end_cleanly();
    std::array<AlignedBuffer, 2> older{AlignedBuffer(64 * kBlockBytes),
                                       AlignedBuffer(64 * kBlockBytes)};
    for (std::uint32_t i = 0; i < 2; ++i) device->peek({BandId{i}, 0}, older[i].span());
    open_on(*device);
    for (std::uint64_t i = 0; i < items; ++i) put(i, 'n');
    commit();
    crash();
    for (std::uint32_t i = 0; i < 2; ++i) device->poke({BandId{i}, 0}, older[i].span());
    // Also when the block that shows it is read wrong at first.
    const Superblock named = superblock();
    const BandAddress next{band_of(named.head_slot), named.head_rba + named.head_blocks};
    TroubledDevice troubled(*device, next, true);
    EXPECT_EQ(Store::open(troubled, quiet_options()).error(), Errc::kSuperblockBad);
    EXPECT_EQ(Store::open(*device, quiet_options()).error(), Errc::kSuperblockBad);
    auto repaired = Store::repair(
        *device, quiet_options(), [](const std::string&) {},
        [](Store&, const std::vector<KeyRange>&) { return ok(); });
    ASSERT_TRUE(repaired) << describe(repaired.error());
    EXPECT_EQ(contents_of(**repaired), model);
  }
}

// The session that is missing in the superblock has begun a band, because the one before had found
// the end of a crash.
TEST_F(LogEndTest, ASuperblockThatIsOlderThanTheLogIsNoticedByTheNextBand) {
  make(12, 64, 6);
  open_on(*device);
  fill();
  end_cleanly();
  open_on(*device);
  crash();
  open_on(*device);
  end_cleanly();
  ASSERT_FALSE(superblock().head_is_open());
  std::array<AlignedBuffer, 2> older{AlignedBuffer(64 * kBlockBytes),
                                     AlignedBuffer(64 * kBlockBytes)};
  for (std::uint32_t i = 0; i < 2; ++i) device->peek({BandId{i}, 0}, older[i].span());
  open_on(*device);
  put(1, 'n');
  commit();
  crash();
  EXPECT_EQ(begun_bands(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) device->poke({BandId{i}, 0}, older[i].span());
  EXPECT_EQ(Store::open(*device, quiet_options()).error(), Errc::kSuperblockBad);
}

// Only the bands that the log has begun are known then. The volume says which others are free.
TEST_F(LogEndTest, ALostSuperblockIsRebuiltAndTheLogGetsFreeBands) {
  for (const bool crashes : {false, true}) {
    SCOPED_TRACE(crashes);
    model.clear();
    make(12, 32, kSmallestLog);
    open_on(*device);
    fill();
    if (crashes) {
      crash();
    } else {
      end_cleanly();
    }
    const std::size_t begun = begun_bands();
    const AlignedBuffer zeros = AlignedBuffer::zeroed(32 * kBlockBytes);
    for (const std::uint32_t band : {0u, 1u}) device->poke({BandId{band}, 0}, zeros.span());
    ASSERT_EQ(Store::open(*device, quiet_options()).error(), Errc::kNoFilesystem);
    reopen_device();
    int asked = 0;
    const auto find_free = [&](Store& repaired) -> Result<std::vector<BandId>> {
      ++asked;
      std::vector<BandId> free;
      const auto log = repaired.log_bands();
      for (std::uint32_t band = 2; band < 12; ++band) {
        if (!std::ranges::count(log, BandId{band})) free.push_back(BandId{band});
      }
      return free;
    };
    auto repaired = Store::repair(
        *device, quiet_options(), [](const std::string&) {},
        [](Store&, const std::vector<KeyRange>&) { return ok(); }, find_free);
    ASSERT_TRUE(repaired) << describe(repaired.error());
    store = std::move(*repaired);
    EXPECT_EQ(asked, 1);
    EXPECT_GT(store->log_bands().size(), begun);
    EXPECT_EQ(contents_of(*store), model);
    put(1, 'r');
    end_cleanly();
    open_on(*device);
    EXPECT_EQ(contents_of(*store), model);
    EXPECT_EQ(problems_of(*store), std::vector<std::string>{});
    store.reset();
  }
}

// A reset changes nothing on such a device, so the log of a volume that mkfs has replaced can still
// be read. Here it is whole, and has more bands than the new one, whose log lies elsewhere.
class ReplacedVolumeTest : public LogEndTest {
 protected:
  static constexpr std::uint32_t kLogBands = 6, kBands = 2 + 2 * kLogBands, kBandBlocks = 32;

  void SetUp() override {
    make(kBands, kBandBlocks, kLogBands);
    open_on(*device);
    for (std::uint64_t i = 0; i < 100; ++i) {
      put(i, 'o');
      if (i % 10 == 9) commit();
    }
    ASSERT_GT(begun_bands(), 1u);
    end_cleanly();
    old_model = std::exchange(model, {});
    make_new_volume();
    put(1, 'n');
    commit();
    ASSERT_EQ(begun_bands(), 1u);
    end_cleanly();
    lose_superblocks();
  }
  // Makes the next volume, a minute later.
  void make_new_volume() {
    Superblock next = plain_superblock(kLogBands);
    next.uuid = new_uuid;
    for (BandId& band : next.log_bands) band.value += kLogBands;
    next.created_seconds += 60;
    ASSERT_TRUE(Store::format(*device, next));
    reopen_device();
    open_on(*device);
  }
  void lose_superblocks() {
    const AlignedBuffer zeros = AlignedBuffer::zeroed(kBandBlocks * kBlockBytes);
    for (const std::uint32_t band : {0u, 1u}) device->poke({BandId{band}, 0}, zeros.span());
    reopen_device();
  }
  // Loses the commit records, and so the log, of the volume.
  void lose_log_of(const Uuid& uuid) {
    AlignedBuffer block(kBlockBytes);
    for (std::uint32_t band = 2; band < kBands; ++band) {
      for (std::uint32_t rba = 1; rba < kBandBlocks; ++rba) {
        device->peek({BandId{band}, rba}, block.span());
        const auto bytes = block.span().first<kBlockBytes>();
        const auto commit = decode_descriptor(DescriptorRole::kCommit, bytes);
        if (commit && commit->stamp.uuid == uuid) device->flip({BandId{band}, rba}, 5000);
      }
    }
  }
  Result<> repair(const std::optional<Uuid>& named) {
    StoreOptions options = quiet_options();
    options.new_uuid = named;
    auto repaired = Store::repair(
        *device, options, [](const std::string&) {},
        [](Store&, const std::vector<KeyRange>&) { return ok(); });
    if (!repaired) return fail(repaired.error());
    store = std::move(*repaired);
    return ok();
  }

  const Uuid old_uuid = plain_superblock(kLogBands).uuid;
  const Uuid new_uuid = [this] {
    Uuid uuid = old_uuid;
    uuid.front() ^= 1;
    return uuid;
  }();
  Model old_model;
};

TEST_F(ReplacedVolumeTest, TheNamedVolumeIsRestored) {
  ASSERT_TRUE(repair(new_uuid));
  EXPECT_EQ(contents_of(*store), model);
}

TEST_F(ReplacedVolumeTest, TheNewestVolumeIsRestoredWhereTheNameWasChanged) {
  Uuid name{};
  name.fill(7);
  ASSERT_TRUE(repair(name));
  EXPECT_EQ(contents_of(*store), model);
  EXPECT_EQ(store->superblock().volume_uuid(), name);
}

TEST_F(ReplacedVolumeTest, AnOlderVolumeIsRestoredWhereItIsNamed) {
  ASSERT_TRUE(repair(old_uuid));
  EXPECT_EQ(contents_of(*store), old_model);
}

TEST_F(ReplacedVolumeTest, NoOtherVolumeIsRestoredForTheNamedOne) {
  lose_log_of(new_uuid);
  EXPECT_EQ(repair(new_uuid).error(), Errc::kLogTailLost);
  EXPECT_EQ(read_superblock(*device).error(), Errc::kNoFilesystem);
}

TEST_F(ReplacedVolumeTest, NoOlderVolumeIsRestoredForTheNewestWhereTheNameWasChanged) {
  lose_log_of(new_uuid);
  Uuid name{};
  name.fill(7);
  EXPECT_EQ(repair(name).error(), Errc::kLogTailLost);
  EXPECT_EQ(read_superblock(*device).error(), Errc::kNoFilesystem);
}

// The second block of a band that the log has given back is left over from the log; the first is
// one of a file.
TEST_F(LogEndTest, ABandWithALeftoverOfTheLogIsNotTakenForALogBand) {
  make(12, 32, kSmallestLog);
  open_on(*device);
  fill();
  const BandId head = band_of(superblock().head_slot);
  crash();
  AlignedBuffer block(kBlockBytes);
  device->peek({head, 1}, block.span());
  const BandId data{kSmallestLog + 2};
  device->poke({data, 1}, block.span());
  const AlignedBuffer zeros = AlignedBuffer::zeroed(32 * kBlockBytes);
  for (const std::uint32_t band : {0u, 1u}) device->poke({BandId{band}, 0}, zeros.span());
  auto repaired = Store::repair(
      *device, quiet_options(), [](const std::string&) {},
      [](Store&, const std::vector<KeyRange>&) { return ok(); });
  ASSERT_TRUE(repaired) << describe(repaired.error());
  EXPECT_EQ(std::ranges::count((*repaired)->log_bands(), data), 0);
}

// Without bands from the volume the log could not be written to any more.
TEST_F(LogEndTest, ALogWithoutAFreeBandTakesOneFromTheVolume) {
  make(14, 32, kSmallestLog);
  open_on(*device);
  fill();
  crash();
  const AlignedBuffer zeros = AlignedBuffer::zeroed(32 * kBlockBytes);
  for (const std::uint32_t band : {0u, 1u}) device->poke({BandId{band}, 0}, zeros.span());
  auto repaired = Store::repair(
      *device, quiet_options(), [](const std::string&) {},
      [](Store&, const std::vector<KeyRange>&) { return ok(); });
  ASSERT_TRUE(repaired) << describe(repaired.error());
  repaired->reset();
  reopen_device();
  open_on(*device);
  SpareBands pool(9, 5);
  store->set_band_source(pool.source());
  put(1, 'g');
  commit();
  EXPECT_LT(pool.size(), 5u);
  crash();
  open_on(*device);
  EXPECT_EQ(contents_of(*store), model);
}

// The log recognises images by bytes that belong to the formats of nodes and checkpoints.
TEST(SeqOfImageTest, KnowsNodesAndPiecesOfCheckpoints) {
  AlignedBuffer image(kBlockBytes);
  NodePage page(image.data());
  page.format(NodeNo{7}, 0, 0xABCD);
  page.stamp(Seq{42});
  const auto node = image.span().first<kBlockBytes>();
  EXPECT_EQ(seq_of_image(node, 0xABCD), Seq{42});
  EXPECT_EQ(seq_of_image(node, 0xABCE), std::nullopt);
  image.data()[4000] ^= std::byte{1};
  EXPECT_EQ(seq_of_image(node, 0xABCD), std::nullopt);

  AlignedBuffer pieces = encode(MapCheckpoint{}, 0xABCD);
  const auto piece = pieces.span().first<kBlockBytes>();
  stamp_piece(piece, Seq{43});
  EXPECT_EQ(seq_of_image(piece, 0xABCD), Seq{43});
  EXPECT_EQ(seq_of_image(piece, 0xABCE), std::nullopt);
}

TEST_F(LogEndTest, OpensReadOnlyAfterACrashAndWritesNothing) {
  make(9, 256, 6);
  open_on(*device);
  put(1, 'a');
  commit();
  crash();
  const std::uint64_t written = written_in_log();
  const Superblock before = superblock();
  StoreOptions options = quiet_options();
  options.read_only = true;
  open_on(*device, options);
  EXPECT_EQ(contents_of(*store), model);
  ASSERT_TRUE(store->close());
  EXPECT_EQ(written_in_log(), written);
  EXPECT_EQ(superblock(), before);
}

// After a crash the walk reads what was written after the newest superblock record, once, and a
// little more; the search, and the reading of descriptors, read it again. Where a band has no
// header, its first blocks are read. The rest of the bands, full of what earlier lives have left,
// is not.
TEST_F(LogEndTest, OpeningAfterACrashReadsNoMoreThanWhatFollowsTheCheckpoint) {
  make(12, 4096, 8);
  StoreOptions options = quiet_options();
  options.checkpoint_bytes = 400 * kBlockBytes;
  open_on(*device, options);
  std::uint64_t most = 0, after_checkpoint_max = 0;
  for (std::uint64_t round = 0; round < 40; ++round) {
    for (std::uint64_t i = 0; i < 150; ++i) {
      put((round * 37 + i) % 200, static_cast<char>('a' + round % 26));
      commit();
    }
    after_checkpoint_max =
        std::max(after_checkpoint_max, store->stats().log_blocks_after_checkpoint);
    crash();
    const std::uint64_t unused = bands_without_header() * kLookAheadBlocks;
    LogReadCounter counted(*device);
    open_on(counted, options);
    ASSERT_GE(counted.blocks_read, unused);
    most = std::max(most, counted.blocks_read - unused);
    store.reset();
    reopen_device();
    open_on(*device, options);
    ASSERT_EQ(contents_of(*store), model);
  }
  EXPECT_LT(after_checkpoint_max, 1000u);
  EXPECT_LE(most, 2 * after_checkpoint_max + 2 * kLookAheadBlocks);
}

}  // namespace
}  // namespace lazyfs::meta
