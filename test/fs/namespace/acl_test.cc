// Access control lists: their form, and how they and modes follow one another.
#include "fs/namespace/acl.h"

#include "test/fs/volume_fixture.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint16_t kR = 4, kW = 2, kX = 1;

// rwx for the owner, rwx for user 7, r-x for the group, rwx as the mask, r-- for others.
Acl sample() {
  return {{AclTag::kUserObject, kR | kW | kX},
          {AclTag::kUser, kR | kW | kX, 7},
          {AclTag::kGroupObject, kR | kX},
          {AclTag::kMask, kR | kW | kX},
          {AclTag::kOther, kR}};
}
Acl minimal() {
  return {{AclTag::kUserObject, kR | kW}, {AclTag::kGroupObject, kR}, {AclTag::kOther, 0}};
}

TEST(AclTest, AListSurvivesItsCoding) {
  EXPECT_EQ(decode_acl(encode(sample())), sample());
  EXPECT_EQ(encode(minimal()).size(), 28u);
  EXPECT_EQ(encode(minimal()).substr(0, 8), std::string("\2\0\0\0\1\0\6\0", 8));
}

TEST(AclTest, OtherTextIsRefused) {
  const std::string good = encode(sample());
  EXPECT_EQ(decode_acl("").error(), Errc::kInvalid);
  EXPECT_EQ(decode_acl(good.substr(0, good.size() - 1)).error(), Errc::kInvalid);
  for (const std::size_t at : {0, 4, 6}) {  // version, a tag, its permissions
    std::string bad = good;
    bad[at] = '\x0b';
    EXPECT_EQ(decode_acl(bad).error(), Errc::kInvalid) << at;
  }
}

TEST(AclTest, AListWithoutWhatEachHasIsRefused) {
  for (std::size_t i = 0; i < sample().size(); ++i) {
    Acl acl = sample();
    acl.erase(acl.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(decode_acl(encode(acl)).has_value(), i == 1) << i;  // a name may be missing
  }
  Acl twice = sample();
  twice.push_back({AclTag::kOther, kR});
  EXPECT_EQ(decode_acl(encode(twice)).error(), Errc::kInvalid);
  Acl masked_twice = minimal();
  masked_twice.insert(masked_twice.end(), 2, {AclTag::kMask, kR});
  EXPECT_EQ(decode_acl(encode(masked_twice)).error(), Errc::kInvalid);
}

TEST(AclTest, TheModeMirrorsTheMaskOrElseTheGroup) {
  EXPECT_EQ(mode_with(0100000, sample()), 0100774u);
  EXPECT_EQ(mode_with(04777, minimal()), 04640u);
  EXPECT_TRUE(is_minimal(minimal()));
  EXPECT_FALSE(is_minimal(sample()));
}

TEST(AclTest, AChangeOfTheModeChangesTheMaskAndNotTheGroup) {
  const Acl changed = with_mode(sample(), 0640);
  EXPECT_EQ(mode_with(0, changed), 0640u);
  EXPECT_EQ(changed[2], sample()[2]);
  EXPECT_EQ(changed[1], sample()[1]);
}

TEST(AclTest, WhatIsInheritedIsNarrowedByTheModeAskedFor) {
  EXPECT_EQ(mode_with(0, inherited_acl(sample(), 0666)), 0664u);
  EXPECT_EQ(mode_with(0, inherited_acl(minimal(), 0777)), 0640u);
}

class AclVolumeTest : public VolumeTest {
 protected:
  Result<> set(InodeNo inode, std::string_view name, const Acl& acl) {
    return volume_->set_xattr(inode, name, encode(acl), XattrMode::kAny);
  }
  Result<Acl> list_of(InodeNo inode, std::string_view name = kAccessAcl) {
    ASSIGN_OR_RETURN(const std::string text, volume_->get_xattr(inode, name));
    return decode_acl(text);
  }
  std::uint32_t mode_of(InodeNo inode) { return volume_->get_attributes(inode)->mode & 07777; }
};

TEST_F(AclVolumeTest, ListAndModeFollowOneAnother) {
  const InodeNo file = create("f");
  ASSERT_TRUE(set(file, kAccessAcl, sample()));
  EXPECT_EQ(mode_of(file), 0774u);
  AttributeChange change;
  change.mode = 0640;
  ASSERT_TRUE(volume_->set_attributes(file, change));
  EXPECT_EQ(list_of(file), with_mode(sample(), 0640));
  remount();
  EXPECT_EQ(list_of(lookup("f")), with_mode(sample(), 0640));
}

TEST_F(AclVolumeTest, AListThatTheModeSaysIsNotKept) {
  const InodeNo file = create("f");
  ASSERT_TRUE(set(file, kAccessAcl, sample()));
  ASSERT_TRUE(set(file, kAccessAcl, minimal()));
  EXPECT_EQ(mode_of(file), 0640u);
  EXPECT_EQ(list_of(file).error(), Errc::kNoAttribute);
}

TEST_F(AclVolumeTest, ADamagedListIsRefused) {
  const InodeNo file = create("f");
  EXPECT_EQ(volume_->set_xattr(file, kAccessAcl, "x", XattrMode::kAny).error(),
            Errc::kInvalid);
  EXPECT_EQ(mode_of(file), 0644u);
}

TEST_F(AclVolumeTest, NewFilesAndFoldersInheritTheDefault) {
  const InodeNo folder = volume_->make_directory(kRootInode, "d", 0755, {})->inode;
  EXPECT_EQ(volume_->has_default_acl(folder), false);
  ASSERT_TRUE(set(folder, kDefaultAcl, sample()));
  EXPECT_EQ(volume_->has_default_acl(folder), true);
  EXPECT_EQ(mode_of(folder), 0755u);

  const InodeNo file = create("f", folder);  // asked for with 0644
  EXPECT_EQ(list_of(file), inherited_acl(sample(), 0644));
  EXPECT_EQ(mode_of(file), 0644u);
  EXPECT_EQ(list_of(file, kDefaultAcl).error(), Errc::kNoAttribute);

  const InodeNo inner = volume_->make_directory(folder, "d", 0700, {})->inode;
  EXPECT_EQ(list_of(inner, kDefaultAcl), sample());
  EXPECT_EQ(mode_of(inner), 0700u);
  ASSERT_TRUE(volume_->sync());
  lose_power();
  EXPECT_EQ(list_of(lookup("f", lookup("d"))), inherited_acl(sample(), 0644));
}

TEST_F(AclVolumeTest, ADefaultWithoutNamesOnlyNarrowsTheMode) {
  const InodeNo folder = volume_->make_directory(kRootInode, "d", 0755, {})->inode;
  ASSERT_TRUE(set(folder, kDefaultAcl, minimal()));
  const auto made = volume_->create(folder, "f", 0666, {});
  ASSERT_TRUE(made);
  volume_->release(made->file);
  EXPECT_EQ(made->attributes.mode & 07777, 0640u);
  EXPECT_EQ(list_of(made->attributes.inode).error(), Errc::kNoAttribute);
}

}  // namespace
}  // namespace lazyfs::fs
