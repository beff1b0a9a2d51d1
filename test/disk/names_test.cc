// Where the name of a volume lies on a plain block device.
#include "disk/names.h"

#include <gtest/gtest.h>

#include "disk/open.h"
#include "edi/create.h"
#include "test/plain/plain_file.h"
#include "test/support/units.h"

namespace lazyfs::disk {
namespace {

TEST(NamesTest, BothIdentificationBlocksGetTheNewName) {
  plain::PlainFile file(16 * kMiB);
  auto identity = *plain::plan_volume(16 * kMiB, kMiB);
  identity.uuid = {1};
  identity.label = "old";
  ASSERT_TRUE(plain::create(file.path(), identity));
  const VolumeName name{{2, 3}, "new"};
  {
    const auto device = *open(file.path());
    EXPECT_EQ(name_on(*device), (VolumeName{{1}, "old"}));
    ASSERT_TRUE(write_name(*device, name));
  }
  EXPECT_EQ(name_on(**open(file.path())), name);
  EXPECT_TRUE(file.bytes(plain::kIdentityAt, kBlockBytes) ==
              file.bytes(plain::copy_at(16 * kMiB), kBlockBytes));
  const auto device = plain::open(file.path());
  EXPECT_EQ((*device)->identity().generation, identity.generation + 1);
  EXPECT_EQ((*device)->identity().band_count, identity.band_count);
}

TEST(NamesTest, ImagesHaveNoIdentificationBlock) {
  plain::PlainFile file(kMiB);
  ASSERT_TRUE(edi::create(file.path(), {.zones = {{8, 16}}, .overwrite = true}));
  const auto device = *open(file.path());
  EXPECT_EQ(name_on(*device), std::nullopt);
  const std::string before = file.bytes(0, kMiB);
  EXPECT_TRUE(write_name(*device, {{1}, "x"}));
  EXPECT_TRUE(file.bytes(0, kMiB) == before);
}

}  // namespace
}  // namespace lazyfs::disk
