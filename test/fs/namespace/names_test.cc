// Names with one hash: a program that knows the seed can make any number of them
// (fs/namespace/name_items.h).
#include <fmt/core.h>

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/endian.h"
#include "fs/namespace/name_items.h"
#include "fs/namespace/name_lookup.h"
#include "fsck/check.h"
#include "fsck/repair.h"
#include "test/fs/volume_fixture.h"
#include "test/support/seed.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint64_t kSeed = 0x1020304050607080;

// Names of 17 to 128 bytes with one hash. XXH3 multiplies (the first 8 bytes ^ (a known constant +
// seed)) by (the next 8 bytes ^ ...): if the first factor is 0, the other one does not matter.
std::vector<std::string> names_of_one_hash(std::size_t count, std::uint64_t seed,
                                           std::size_t length = 32) {
  constexpr std::uint64_t kFirstOfSecret = 0xbe4ba423396cfeb8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name(length, 'x');
    store_le_at(std::as_writable_bytes(std::span(name)), 0, kFirstOfSecret + seed);
    name.replace(8, 8, fmt::format("{:08}", i));
    names.push_back(name);
  }
  return names;
}

// Undoes the last step of XXH3, of which each operation can be undone.
std::uint64_t before_last_step(std::uint64_t hash) {
  constexpr std::uint64_t kFactor = 0x165667919e3779f9;
  std::uint64_t inverse = kFactor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;  // Newton, modulo 2^64
  hash ^= hash >> 32;
  hash *= inverse;
  return hash ^ hash >> 37;
}

// A name of 128 bytes with this hash; nothing if it would have a byte that no name has. XXH3 adds
// products of 16 bytes each. The first one is 0 as above. Of the last one a factor is 1, so that
// the other factor changes the sum at will.
std::optional<std::string> name_with_hash(std::uint64_t hash, std::uint64_t seed, std::size_t i) {
  constexpr std::uint64_t kThirdOfSecret = 0xdb979083e96dd4de, kFourth = 0x1f67b3b7a4a44072;
  std::string name = names_of_one_hash(1, seed, 128)[0];
  name.replace(8, 8, fmt::format("{:08}", i));
  const auto end = std::as_writable_bytes(std::span(name)).last(16);
  store_le_at(end, 0, (kThirdOfSecret + seed) ^ 1);
  const std::uint64_t now = name_hash(name, seed);
  const std::uint64_t change = before_last_step(hash) - before_last_step(now);
  const std::uint64_t mask = kFourth - seed;
  store_le_at(end, 8, ((load_le_at<std::uint64_t>(end, 8) ^ mask) + change) ^ mask);
  return check_name(name) ? std::optional(name) : std::nullopt;
}

class NamesTest : public VolumeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(mkfs::make_filesystem(*device_, {.name_seed = kSeed}));
    mount();
  }
  std::vector<std::string> read_names(InodeNo directory) {
    std::vector<std::string> names;
    const auto entries = volume_->read_directory(directory, 0, 100'000);
    EXPECT_TRUE(entries);
    for (const DirectoryEntry& entry : *entries) names.push_back(entry.name);
    return names;
  }
  InodeNo make_directory(std::string_view name) {
    return volume_->make_directory(kRootInode, name, 0755, {})->inode;
  }
};

TEST(NameHashTest, NamesOfOneHashHaveOneHash) {
  const auto names = names_of_one_hash(1000, kSeed);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 1000u);
  for (const std::string& name : names) {
    ASSERT_TRUE(check_name(name)) << name;
    ASSERT_EQ(name_hash(name, kSeed), name_hash(names[0], kSeed));
    ASSERT_NE(name_hash(name, kSeed + 1), name_hash(names[0], kSeed + 1) + (name == names[0]));
  }
}

TEST_F(NamesTest, AThousandNamesOfOneHashAreFoundRenamedAndRemoved) {
  const auto names = names_of_one_hash(2000, kSeed);
  const InodeNo directory = make_directory("d");
  std::vector<InodeNo> inodes;
  for (int i = 0; i < 1000; ++i) inodes.push_back(create(names[i], directory));
  remount();
  const InodeNo again = lookup("d");
  EXPECT_EQ(read_names(again), std::vector(names.begin(), names.begin() + 1000));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(lookup(names[i], again), inodes[i]);
  EXPECT_EQ(volume_->lookup(again, names[1000]).error(), Errc::kNotFound);
  EXPECT_EQ(volume_->create(again, names[999], 0644, {}).error(), Errc::kExists);
  for (int i = 0; i < 1000; i += 2) {
    ASSERT_TRUE(volume_->rename(again, names[i], again, names[i + 1000], {}));
  }
  remount();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(lookup(names[i % 2 == 0 ? i + 1000 : i], lookup("d")), inodes[i]);
  }
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(volume_->unlink(lookup("d"), names[i % 2 == 0 ? i + 1000 : i]));
  }
  ASSERT_TRUE(volume_->remove_directory(kRootInode, "d"));
}

TEST_F(NamesTest, RandomChangesOfNamesOfOneHashKeepTheVolumeSound) {
  const auto names = names_of_one_hash(200, kSeed);
  const InodeNo directory = make_directory("d");
  std::mt19937_64 random(test_seed());
  std::set<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string& name = names[random() % names.size()];
    const std::string& other = names[random() % names.size()];
    const bool exists = expected.contains(name);
    if (!exists) {
      create(name, directory);
      expected.insert(name);
    } else if (random() % 2 == 0) {
      ASSERT_TRUE(volume_->unlink(directory, name));
      expected.erase(name);
    } else {
      ASSERT_TRUE(volume_->rename(directory, name, directory, other, {}));
      if (name != other) expected.erase(name);
      expected.insert(other);
    }
  }
  const auto read = read_names(directory);
  EXPECT_EQ(std::set(read.begin(), read.end()), expected);
  for (const std::string& name : expected) EXPECT_TRUE(volume_->lookup(directory, name));
}

TEST_F(NamesTest, DirectoryTakesTheSeedOfItsParent) {
  const InodeNo directory = make_directory("d");
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  const auto store = *meta::Store::open(*device_, {.background = false});
  const auto record = decode_inode(**store->get(key_of(directory, Kind::kInode)));
  EXPECT_EQ(record->name_seed, kSeed);
  ASSERT_TRUE(store->close());
}

// As it was made before directories had seeds.
TEST_F(VolumeTest, DirectoriesWithoutASeedAreUsedWithThatOfTheVolume) {
  const std::uint64_t seed = seed_of(meta::Uuid{});
  const InodeNo directory = volume_->make_directory(kRootInode, "d", 0755, {})->inode;
  create("file", directory);
  ASSERT_TRUE(volume_->sync());
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  {
    const auto store = *meta::Store::open(*device_, {.background = false});
    EXPECT_TRUE(*store->get(key_of(directory, Kind::kDentryName, name_hash("file", seed))));
    ASSERT_TRUE(store->close());
  }
  mount();
  lookup("file", lookup("d"));
}

// An item in the middle of a chain is lost: the names after it are moved, the lost ones come back
// from their entries by cookie.
TEST_F(NamesTest, RepairMendsAChainWithAMissingItem) {
  const auto names = names_of_one_hash(200, kSeed);
  const InodeNo directory = make_directory("d");
  for (const std::string& name : names) create(name, directory);
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  const std::uint64_t hash = name_hash(names[0], kSeed);
  {
    const auto store = *meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(*store->get(key_of(directory, Kind::kDentryName, hash + 2)));
    meta::Batch batch;
    batch.erase(key_of(directory, Kind::kDentryName, hash + 2));
    ASSERT_TRUE(store->apply(batch));
    ASSERT_TRUE(store->commit());
    int problems = 0;
    const auto checked =
        fsck::check(*store, *device_, {}, [&](const std::string&) { ++problems; });
    EXPECT_GT(problems, 0);
    const Result<> repaired =
        fsck::repair(*store, *device_, system_clock(), [](const std::string&) {}).result;
    ASSERT_TRUE(repaired) << describe(repaired.error());
    ASSERT_TRUE(store->close());
  }
  fsck::expect_clean(*device_);
  mount();
  for (const std::string& name : names) lookup(name, directory);
}

// ---- NameItems ----------------------------------------------------------------------------------

// Changes go into the map at once.
class ItemsOfOneDirectory {
 public:
  NameItems items() {
    return NameItems([this](meta::Key key) -> Result<std::optional<meta::Value>> {
      const auto found = values.find(key.offset);
      if (found == values.end()) return std::nullopt;
      meta::Value value;
      value.assign(found->second.begin(), found->second.end());
      return value;
    });
  }
  template <class Change>
  Result<> change(Change change) {
    NameItems changed = items();
    TRY(change(changed));
    meta::Batch batch;
    changed.put_into(batch);
    for (const meta::Batch::Entry& entry : batch.entries()) {
      if (entry.change == meta::Batch::Change::kErase) {
        values.erase(entry.key.offset);
      } else {
        const auto value = batch.value_of(entry);
        values[entry.key.offset] = {value.begin(), value.end()};
      }
    }
    return ok();
  }

  std::map<std::uint64_t, std::vector<std::byte>> values;
};

TEST(NameItemsTest, TheBoundOfAChainIsReportedAndNothingIsLost) {
  const auto names = names_of_one_hash(8 * kMaxChainItems, kSeed, 128);
  const DirectoryNames directory{InodeNo{5}, kSeed};
  ItemsOfOneDirectory tree;
  NameItems items = tree.items();
  std::size_t added = 0;
  Result<> last = ok();
  while (last && added < names.size()) {
    last = items.add(directory, {InodeNo{7}, added + 1, 8, names[added]});
    if (last) ++added;
  }
  EXPECT_EQ(last.error(), Errc::kNoSpace);
  EXPECT_EQ(added, 7 * kMaxChainItems);  // seven fit into an item
  EXPECT_TRUE(*items.find(directory, names[added - 1]));
  EXPECT_FALSE(*items.find(directory, names[added]));
}

TEST(NameItemsTest, NothingIsLeftWhenAllNamesAreRemoved) {
  const auto names = names_of_one_hash(300, kSeed);
  const DirectoryNames directory{InodeNo{5}, kSeed};
  for (const bool backwards : {false, true}) {
    ItemsOfOneDirectory tree;
    const auto entry_of = [&](std::size_t i) {
      return DentryRecord{InodeNo{7}, i + 1, 8, names[i]};
    };
    for (std::size_t i = 0; i < names.size(); ++i) {
      ASSERT_TRUE(tree.change([&](NameItems& items) { return items.add(directory, entry_of(i)); }));
    }
    EXPECT_GT(tree.values.size(), 10u);
    for (std::size_t n = 0; n < names.size(); ++n) {
      const std::size_t i = backwards ? names.size() - 1 - n : n;
      ASSERT_TRUE(
          tree.change([&](NameItems& items) { return items.remove(directory, entry_of(i)); }));
      for (std::size_t j = 0; j < names.size(); j += 37) {
        const bool removed = backwards ? j >= i : j <= i;
        ASSERT_EQ(tree.items().find(directory, names[j])->has_value(), !removed);
      }
    }
    EXPECT_TRUE(tree.values.empty());
  }
}

// Their items overflow into each other's. Of some turns most remove a name, so that items become
// empty.
TEST(NameItemsTest, RandomChangesOfNamesOfNeighbouringHashesKeepThemAll) {
  constexpr std::uint64_t kHashes = 3, kNames = 60;
  SCOPED_TRACE(seed_trace());
  std::mt19937_64 random(test_seed());
  const DirectoryNames directory{InodeNo{5}, kSeed};
  std::vector<DentryRecord> entries;
  for (std::uint64_t first = random(); entries.size() < kNames; ++first) {
    entries.clear();
    for (std::uint64_t i = 0; i < kNames; ++i) {
      const auto name = name_with_hash(first + i % kHashes, kSeed, i);
      if (!name) break;
      ASSERT_EQ(directory.hash(*name), first + i % kHashes);
      entries.push_back({InodeNo{7 + i}, i + 1, 8, *name});
    }
  }
  ItemsOfOneDirectory tree;
  std::vector<bool> is_there(entries.size());
  for (int turn = 0; turn < 60'000; ++turn) {
    const std::size_t i = random() % entries.size();
    const bool mostly_removes = turn / 100 % 2 == 1;
    if (is_there[i] != mostly_removes && random() % 5 != 0) continue;
    ASSERT_TRUE(tree.change([&](NameItems& items) {
      return is_there[i] ? items.remove(directory, entries[i]) : items.add(directory, entries[i]);
    }));
    is_there[i] = !is_there[i];
    NameItems items = tree.items();
    for (std::size_t j = 0; j < entries.size(); ++j) {
      ASSERT_EQ(items.find(directory, entries[j].name)->has_value(), is_there[j]) << turn;
    }
  }
}

}  // namespace
}  // namespace lazyfs::fs
