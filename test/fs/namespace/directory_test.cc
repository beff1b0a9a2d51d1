// Names in directories, as callers of a volume see them.
#include <string>
#include <vector>

#include "fs/item/schema.h"
#include "test/fs/volume_fixture.h"
#include "test/fsck/sample_volume.h"

namespace lazyfs::fs {
namespace {

class DirectoryTest : public VolumeTest {
 protected:
  InodeNo make_directory(std::string_view name) {
    const auto made = volume_->make_directory(kRootInode, name, 0755, {});
    EXPECT_TRUE(made);
    return made->inode;
  }
};

TEST_F(DirectoryTest, RenameReplacesItsTarget) {
  write(create("a"), 0, "new");
  create("b");
  ASSERT_TRUE(volume_->rename(kRootInode, "a", kRootInode, "b", {}));
  EXPECT_EQ(volume_->lookup(kRootInode, "a").error(), Errc::kNotFound);
  EXPECT_EQ(read(lookup("b")), "new");
}

TEST_F(DirectoryTest, DirectoryCannotMoveIntoItself) {
  const InodeNo a = volume_->make_directory(kRootInode, "a", 0755, {})->inode;
  const InodeNo b = volume_->make_directory(a, "b", 0755, {})->inode;
  EXPECT_EQ(volume_->rename(kRootInode, "a", b, "c", {}).error(), Errc::kCrossDirectoryLoop);
  EXPECT_EQ(volume_->rename(kRootInode, "a", a, "c", {}).error(), Errc::kCrossDirectoryLoop);
  EXPECT_EQ(volume_->rename(a, "b", kRootInode, "a", {}).error(), Errc::kNotEmpty);
}

TEST_F(DirectoryTest, DirectoryIsReadInTheOrderOfInsertion) {
  for (int i = 0; i < 100; ++i) create("f" + std::to_string(i));
  ASSERT_TRUE(volume_->unlink(kRootInode, "f5"));
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  for (;;) {
    const auto entries = volume_->read_directory(kRootInode, cookie, 7);
    ASSERT_TRUE(entries);
    if (entries->empty()) break;
    for (const auto& e : *entries) names.push_back(e.name);
    cookie = entries->back().cookie;
  }
  ASSERT_EQ(names.size(), 99u);
  EXPECT_EQ(names[4], "f4");
  EXPECT_EQ(names[5], "f6");
}

TEST_F(DirectoryTest, ReaderOfADirectoryGetsEachEntryOnceWhileItRenamesThem) {
  const auto read_all = [&](const auto& change) {
    std::vector<std::string> names;
    std::uint64_t cookie = 0;
    while (names.size() < 200) {
      const auto entries = volume_->read_directory(kRootInode, cookie, 7);
      if (!entries || entries->empty()) break;
      for (const auto& e : *entries) {
        names.push_back(e.name);
        change(e.name);
      }
      cookie = entries->back().cookie;
    }
    return names;
  };
  std::vector<std::string> files;
  for (int i = 0; i < 40; ++i) create(files.emplace_back("f" + std::to_string(i)));
  const auto rename = [&](const std::string& from, const std::string& to) {
    ASSERT_TRUE(volume_->rename(kRootInode, from, kRootInode, to, {}));
  };
  EXPECT_EQ(read_all([&](const std::string& name) {  // there and back
              rename(name, "other");
              rename("other", name);
            }),
            files);
  EXPECT_EQ(read_all([&](const std::string& name) {  // replaced, as an editor does it
              create("new");
              rename("new", name);
            }),
            files);
  EXPECT_EQ(read_all([&](const std::string& name) { rename(name, name + ".old"); }), files);
  EXPECT_EQ(read_all([](const std::string&) {}).size(), 40u);
  EXPECT_EQ(volume_->lookup(kRootInode, "f7").error(), Errc::kNotFound);
  EXPECT_TRUE(volume_->lookup(kRootInode, "f7.old"));
}

TEST_F(DirectoryTest, LongSymlinkAndXattrSurviveARemount) {
  const std::string target(4000, 't');
  ASSERT_TRUE(volume_->make_symlink(kRootInode, "link", target, {}));
  const InodeNo file = create("a");
  const std::string value(60'000, 'v');
  ASSERT_TRUE(volume_->set_xattr(file, "user.big", value, XattrMode::kAny));
  remount();
  EXPECT_EQ(*volume_->read_link(lookup("link")), target);
  EXPECT_EQ(*volume_->get_xattr(lookup("a"), "user.big"), value);
}

// A program may still have it as its working directory.
TEST_F(DirectoryTest, RemovedDirectoryTakesNoNames) {
  const InodeNo gone = make_directory("gone"), file = create("file");
  ASSERT_TRUE(volume_->remove_directory(kRootInode, "gone"));
  EXPECT_EQ(volume_->create(gone, "a", 0644, {}).error(), Errc::kNotFound);
  EXPECT_EQ(volume_->create_unnamed(gone, 0644, {}).error(), Errc::kNotFound);
  EXPECT_EQ(volume_->make_directory(gone, "a", 0755, {}).error(), Errc::kNotFound);
  EXPECT_EQ(volume_->link(file, gone, "a").error(), Errc::kNotFound);
  EXPECT_EQ(volume_->rename(kRootInode, "file", gone, "a", {}).error(), Errc::kNotFound);
  EXPECT_EQ(lookup("file"), file);
}

TEST_F(DirectoryTest, DirectoryThatWasReplacedTakesNoNames) {
  const InodeNo replaced = make_directory("replaced");
  make_directory("new");
  ASSERT_TRUE(volume_->rename(kRootInode, "new", kRootInode, "replaced", {}));
  EXPECT_EQ(volume_->create(replaced, "a", 0644, {}).error(), Errc::kNotFound);
  EXPECT_EQ(volume_->get_attributes(replaced)->links, 0u);
}

TEST_F(DirectoryTest, DirectoriesAndFilesDoNotReplaceOneAnother) {
  const InodeNo directory = make_directory("directory"), file = create("file");
  EXPECT_EQ(volume_->rename(kRootInode, "file", kRootInode, "directory", {}).error(),
            Errc::kIsDirectory);
  EXPECT_EQ(volume_->rename(kRootInode, "directory", kRootInode, "file", {}).error(),
            Errc::kNotDirectory);
  EXPECT_EQ(volume_->unlink(kRootInode, "directory").error(), Errc::kIsDirectory);
  EXPECT_EQ(volume_->remove_directory(kRootInode, "file").error(), Errc::kNotDirectory);
  EXPECT_EQ(volume_->link(directory, kRootInode, "again").error(), Errc::kNotPermitted);
  EXPECT_EQ(volume_->create(file, "a", 0644, {}).error(), Errc::kNotDirectory);
  EXPECT_EQ(volume_->set_attributes(directory, {.size = 0}).error(), Errc::kIsDirectory);
  EXPECT_EQ(lookup("directory"), directory);
  EXPECT_EQ(lookup("file"), file);
}

TEST_F(DirectoryTest, DirectoryWithEntriesIsNeitherRemovedNorReplaced) {
  const InodeNo full = make_directory("full");
  make_directory("other");
  create("file", full);
  EXPECT_EQ(volume_->remove_directory(kRootInode, "full").error(), Errc::kNotEmpty);
  EXPECT_EQ(volume_->rename(kRootInode, "other", kRootInode, "full", {}).error(), Errc::kNotEmpty);
  ASSERT_TRUE(volume_->unlink(full, "file"));
  EXPECT_TRUE(volume_->rename(kRootInode, "other", kRootInode, "full", {}));
}

TEST_F(DirectoryTest, NamesHaveUpTo255BytesAndSymlinksUpTo4095) {
  const std::string name(255, 'n'), target(4095, 't');
  create(name);
  EXPECT_TRUE(volume_->lookup(kRootInode, name));
  EXPECT_EQ(volume_->create(kRootInode, name + "n", 0644, {}).error(), Errc::kNameTooLong);
  for (const char* const impossible : {"", ".", "..", "a/b"}) {
    EXPECT_EQ(volume_->create(kRootInode, impossible, 0644, {}).error(), Errc::kInvalid);
  }
  ASSERT_TRUE(volume_->make_symlink(kRootInode, "symlink", target, {}));
  EXPECT_EQ(volume_->read_link(lookup("symlink")), target);
  EXPECT_EQ(volume_->make_symlink(kRootInode, "long", target + "t", {}).error(),
            Errc::kNameTooLong);
  EXPECT_EQ(volume_->make_symlink(kRootInode, "empty", "", {}).error(), Errc::kNotFound);
}

TEST_F(DirectoryTest, UnnamedFileInheritsAsANamedOne) {
  const InodeNo directory = make_directory("d");
  ASSERT_TRUE(volume_->set_attributes(directory, {.mode = 02755, .gid = 55, .flags = kNoDump}));
  const auto made = volume_->create_unnamed(directory, 0644, {.uid = 7, .gid = 8});
  ASSERT_TRUE(made);
  volume_->release(made->file);
  EXPECT_EQ(made->attributes.owner, (Owner{7, 55}));
  EXPECT_EQ(made->attributes.flags, kNoDump);
}

// A damaged volume may have inodes whose numbers are still to be given out.
TEST_F(DirectoryTest, NoNewFileGetsTheNumberOfAnInodeThatExists) {
  const InodeNo file = create("file");
  write(file, 0, "contents");
  ASSERT_TRUE(volume_->unmount());
  volume_.reset();
  {
    const auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    const auto value = (*store)->get(key_of(kVolumeOwner, Kind::kCounters));
    const std::uint64_t next = decode_counters(**value)->next_inode;
    meta::Batch batch;
    add(batch, CounterChange{.next_inode = file.value - next});
    ASSERT_TRUE((*store)->apply(batch));
    ASSERT_TRUE((*store)->close());
  }
  mount();
  for (int i = 0; i < 3; ++i) EXPECT_NE(create(std::to_string(i)), file);
  EXPECT_EQ(read(lookup("file")), "contents");
}

TEST(DamagedPiecesTest, SymlinksAndAttributesThatLackAPieceAreNotRead) {
  constexpr InodeNo kSymlink{5}, kBig{6};
  fsck::SampleVolume sample;
  sample.erase(key_of(kSymlink, Kind::kSymlink, 1));
  sample.put(key_of(kBig, Kind::kXattrName, 1), encode(XattrRecord{1501, "user.long"}));
  sample.put(key_of(kBig, Kind::kXattrName, 2), encode(XattrRecord{1, "user.empty"}));
  sample.commit();
  sample.store.reset();

  auto volume = Volume::mount(*sample.device, {.background = false});
  ASSERT_TRUE(volume) << describe(volume.error());
  EXPECT_EQ((*volume)->read_link(kSymlink).error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->get_xattr(kBig, "user.long").error(), Errc::kItemBad);
  EXPECT_EQ((*volume)->get_xattr(kBig, "user.empty").error(), Errc::kItemBad);
  ASSERT_TRUE((*volume)->unmount());
}

class LinkCountTest : public DirectoryTest {
 protected:
  void set_links(InodeNo inode, std::uint32_t links) {
    ASSERT_TRUE(volume_->unmount());
    volume_.reset();
    const auto store = meta::Store::open(*device_, {.background = false});
    ASSERT_TRUE(store);
    const meta::Key key = key_of(inode, Kind::kInode);
    InodeRecord record = decode_inode((*store)->get(key)->value()).value();
    record.links = links;
    meta::Batch batch;
    batch.put(key, encode(record));
    ASSERT_TRUE((*store)->apply(batch));
    ASSERT_TRUE((*store)->close());
    mount();
  }
};

TEST_F(LinkCountTest, FileWithTheLargestCountGetsNoMoreNames) {
  const InodeNo file = create("f");
  set_links(file, kMaxLinks);
  EXPECT_EQ(volume_->link(lookup("f"), kRootInode, "g").error(), Errc::kTooManyLinks);
  set_links(file, kMaxLinks - 1);
  EXPECT_TRUE(volume_->link(lookup("f"), kRootInode, "g"));
  set_links(file, 2);
}

TEST_F(LinkCountTest, DirectoryWithTheLargestCountGetsNoMoreDirectories) {
  const InodeNo d = make_directory("d");
  create("file");
  make_directory("sub");
  set_links(d, kMaxLinks);
  EXPECT_EQ(volume_->make_directory(lookup("d"), "new", 0755, {}).error(), Errc::kTooManyLinks);
  EXPECT_EQ(volume_->rename(kRootInode, "sub", d, "sub", {}).error(), Errc::kTooManyLinks);
  EXPECT_TRUE(volume_->rename(kRootInode, "file", d, "file", {}));
  set_links(d, kMaxLinks - 1);
  EXPECT_TRUE(volume_->rename(kRootInode, "sub", lookup("d"), "sub", {}));
  set_links(d, 3);
}

TEST_F(LinkCountTest, DirectoryWithTheLargestCountGetsADirectoryOnlyInExchangeForOne) {
  const InodeNo d = make_directory("d");
  ASSERT_TRUE(volume_->make_directory(d, "inner", 0755, {}));
  ASSERT_TRUE(volume_->make_node(d, "file", S_IFREG | 0644, 0, {}));
  make_directory("sub");
  set_links(d, kMaxLinks);
  const auto exchange = [&](const char* name, const char* of_d) {
    return volume_->rename(kRootInode, name, lookup("d"), of_d, {.exchange = true});
  };
  EXPECT_EQ(exchange("sub", "file").error(), Errc::kTooManyLinks);
  EXPECT_EQ(volume_->rename(lookup("d"), "file", kRootInode, "sub", {.exchange = true}).error(),
            Errc::kTooManyLinks);
  EXPECT_TRUE(exchange("sub", "inner"));
  set_links(d, kMaxLinks - 1);
  EXPECT_TRUE(exchange("sub", "file"));
  set_links(d, 4);
}

}  // namespace
}  // namespace lazyfs::fs
