// Extended attributes: their limits, their ids, and damaged ones.
#include "fs/namespace/xattr.h"

#include <algorithm>
#include <string>

#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

class XattrTest : public VolumeTest {
 protected:
  Result<> set(std::string_view name, std::string_view value, XattrMode mode = XattrMode::kAny) {
    return volume_->set_xattr(file_, name, value, mode);
  }
  std::string get(std::string_view name) {
    const auto value = volume_->get_xattr(file_, name);
    EXPECT_TRUE(value) << describe(value.error());
    return value.value_or("");
  }
  void SetUp() override {
    VolumeTest::SetUp();
    file_ = create("file");
  }

  InodeNo file_;
};

TEST_F(XattrTest, NamesHaveUpTo255BytesAndValuesUpTo64KiB) {
  const std::string name = "user." + std::string(250, 'n'), value(65536, 'v');
  ASSERT_TRUE(set(name, value));
  EXPECT_EQ(get(name), value);
  EXPECT_EQ(set(name + "n", "").error(), Errc::kBufferTooSmall);
  EXPECT_EQ(volume_->get_xattr(file_, name + "n").error(), Errc::kBufferTooSmall);
  EXPECT_EQ(set("user.a", value + "v").error(), Errc::kAttributeTooBig);
  EXPECT_EQ(set("", "").error(), Errc::kInvalid);
  EXPECT_EQ(volume_->list_xattrs(file_), std::vector{name});
}

TEST_F(XattrTest, AModeAsksForAnAttributeThatExistsOrDoesNot) {
  EXPECT_EQ(set("user.a", "1", XattrMode::kReplace).error(), Errc::kNoAttribute);
  EXPECT_TRUE(set("user.a", "2", XattrMode::kCreate));
  EXPECT_EQ(set("user.a", "3", XattrMode::kCreate).error(), Errc::kExists);
  EXPECT_EQ(get("user.a"), "2");
  EXPECT_TRUE(set("user.a", "4", XattrMode::kReplace));
  EXPECT_EQ(get("user.a"), "4");
}

TEST_F(XattrTest, AModeThatNoStateFitsSetsNothing) {
  EXPECT_EQ(set("user.a", "1", XattrMode::kNever).error(), Errc::kNoAttribute);
  ASSERT_TRUE(set("user.a", "2"));
  EXPECT_EQ(set("user.a", "3", XattrMode::kNever).error(), Errc::kExists);
  EXPECT_EQ(get("user.a"), "2");
}

TEST_F(XattrTest, ARemovalAndANewAttributeLeaveTheOthersAlone) {
  ASSERT_TRUE(set("user.a", "1"));
  ASSERT_TRUE(set("user.b", "2"));
  ASSERT_TRUE(volume_->remove_xattr(file_, "user.a"));
  EXPECT_EQ(volume_->remove_xattr(file_, "user.a").error(), Errc::kNoAttribute);
  ASSERT_TRUE(set("user.c", "3"));
  EXPECT_EQ(get("user.b"), "2");
  EXPECT_EQ(get("user.c"), "3");
}

// The fixture's check finds pieces of a value that belong to no attribute.
TEST_F(XattrTest, AShorterValueAndARemovalLeaveNothingOfALongOne) {
  const std::string value(60'000, 'v');
  ASSERT_TRUE(set("user.a", value));
  ASSERT_TRUE(set("user.a", "short"));
  EXPECT_EQ(get("user.a"), "short");
  ASSERT_TRUE(set("user.b", value));
  ASSERT_TRUE(volume_->remove_xattr(file_, "user.b"));
}

TEST_F(XattrTest, AListThatTheModeSaysCanBeRemovedAndOthersCannot) {
  EXPECT_TRUE(volume_->remove_xattr(file_, kAccessAcl));
  EXPECT_TRUE(volume_->remove_xattr(file_, kDefaultAcl));
  EXPECT_EQ(volume_->remove_xattr(file_, "user.a").error(), Errc::kNoAttribute);
}

TEST_F(XattrTest, AFileHas4096AttributesAtMost) {
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  {
    const auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    meta::Batch batch;
    const auto own = (*store)->get(key_of(file_, Kind::kInode));
    InodeRecord record = decode_inode(**own).value();
    record.xattrs = 4095;
    batch.put(key_of(file_, Kind::kInode), encode(record));
    for (std::uint64_t id = 1; id <= record.xattrs; ++id) {
      put_xattr(batch, file_, id, "user." + std::to_string(id), "");
    }
    ASSERT_TRUE((*store)->apply(batch));
    ASSERT_TRUE((*store)->close());
  }
  mount();
  EXPECT_TRUE(set("user.last", ""));
  EXPECT_EQ(set("user.more", "").error(), Errc::kNoSpace);
  EXPECT_TRUE(set("user.last", "changed"));
  EXPECT_TRUE(volume_->remove_xattr(file_, "user.1"));
  EXPECT_TRUE(set("user.more", ""));
}

}  // namespace
}  // namespace lazyfs::fs
