// The ways in which a volume can disagree with itself: each damages one thing of a sample volume.
// Those of bands are in band_corruptions.h.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "test/fsck/sample_volume.h"

namespace lazyfs::fsck {

inline constexpr BandId kB1 = SampleVolume::kB1, kB2 = SampleVolume::kB2, kB3 = SampleVolume::kB3;

// Damage, and part of the finding that a check must report.
struct Corruption {
  const char* name;  // of the test
  std::function<void(SampleVolume&)> corrupt;
  const char* finding;
};
inline void PrintTo(const Corruption& corruption, std::ostream* out) { *out << corruption.name; }

using V = SampleVolume;
inline constexpr InodeNo kRoot = kRootInode;

inline const Corruption kNames[] = {
    {"EntryWithoutTwinByCookie", [](V& v) { v.erase(key_of(kRoot, Kind::kDentrySeq, 4)); },
     "Directory 1: the name 'sym' has no equal entry under cookie 4."},
    {"EntryWithoutTwinByName", [](V& v) { v.erase(v.name_key(1, "sym")); },
     "Directory 1: the entry 'sym' under cookie 4 has no equal one under its name."},
    {"TwinsThatDiffer",
     [](V& v) {
       v.put(key_of(kRoot, Kind::kDentrySeq, 1), encode(DentryRecord{InodeNo{6}, 1, 8, "file"}));
     },
     "the name 'file' has no equal entry under cookie 1."},
    {"CookieOtherThanItsPlace",
     [](V& v) {
       v.put(key_of(kRoot, Kind::kDentrySeq, 1), encode(DentryRecord{InodeNo{2}, 3, 8, "file"}));
     },
     "Directory 1: the name 'file' has no equal entry under cookie 1."},
    {"CookieNotBelowTheNext",
     [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.next_cookie = 6; }); },
     "the name 'again' has cookie 6, but the next one is 6."},
    {"CookieBehindWhichThereIsNone",
     [](V& v) {
       v.erase(key_of(kRoot, Kind::kDentrySeq, 4));
       v.put_entry(1, {InodeNo{5}, meta::kMaxOffset, 10, "sym"});
     },
     "the name 'sym' has cookie 18446744073709551615, but the next one is 9."},
    {"EntryByCookieAloneBehindWhichThereIsNone",
     [](V& v) {
       v.erase_entry(1, "sym", 4);
       v.put(key_of(kRoot, Kind::kDentrySeq, meta::kMaxOffset),
             encode(DentryRecord{InodeNo{5}, meta::kMaxOffset, 10, "sym"}));
     },
     "the entry 'sym' under cookie 18446744073709551615 has no equal one under its name."},
    {"EntriesCountedWrong", [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.entries = 8; }); },
     "Directory 1 counts 8 entries, but has 7 names."},
    {"MoreEntriesByCookieThanNames",
     [](V& v) {
       v.put(key_of(kRoot, Kind::kDentrySeq, 3), encode(DentryRecord{InodeNo{2}, 3, 8, "third"}));
     },
     "Directory 1: the entry 'third' under cookie 3 has no equal one under its name."},
    {"NameUnderAWrongHash",
     [](V& v) {
       v.put(v.name_key(1, "elsewhere"), encode(DentryRecord{InodeNo{5}, 4, 10, "sym"}));
     },
     "Directory 1: the name 'sym' stands under the wrong hash"},
    {"NamePastAGapOfItsChain",
     [](V& v) {
       meta::Key key = v.name_key(1, "sym");
       v.erase(key);
       key.offset += 1;
       v.put(key, encode(DentryRecord{InodeNo{5}, 4, 10, "sym"}));
     },
     "Directory 1: the name 'sym' stands under the wrong hash"},
    {"NameFarBeforeItsHash",
     [](V& v) {
       v.erase(v.name_key(1, "sym"));
       v.put(key_of(kRoot, Kind::kDentryName, 1), encode(DentryRecord{InodeNo{5}, 4, 10, "sym"}));
     },
     "Directory 1: the name 'sym' stands under the wrong hash 0x1."},
    {"EntryUnderASecondCookie",
     [](V& v) {
       v.put(key_of(kRoot, Kind::kDentrySeq, 3), encode(DentryRecord{InodeNo{2}, 3, 8, "file"}));
     },
     "Directory 1: the entry 'file' under cookie 3 has no equal one under its name."},
    {"EntryByCookieAloneInAnotherPlace",
     [](V& v) {
       v.erase_entry(1, "sym", 4);
       v.put(key_of(kRoot, Kind::kDentrySeq, 3), encode(DentryRecord{InodeNo{5}, 4, 10, "sym"}));
     },
     "Directory 1: the entry 'sym' under cookie 3 calls itself 4."},
    {"EntryUnderCookieZero",
     [](V& v) {
       v.put(key_of(kRoot, Kind::kDentrySeq, 0), encode(DentryRecord{InodeNo{5}, 4, 10, "sym"}));
     },
     "Item (owner 0x1, kind 3, offset 0) holds impossible values."},
    {"NameTwiceInOneItem",
     [](V& v) {
       const DentryRecord entry{InodeNo{5}, 4, 10, "sym"};
       v.put(v.name_key(1, "sym"), encode(std::vector{entry, entry}));
     },
     "Directory 1 holds the name 'sym' twice."},
    {"NameOfNoInode",
     [](V& v) {
       v.put_entry(1, {InodeNo{99}, 4, 10, "sym"});
     },
     "Directory 1: the name 'sym' leads to inode 99, which does not exist."},
    {"NameOfAnotherType",
     [](V& v) {
       v.put_entry(1, {InodeNo{5}, 4, 8, "sym"});
     },
     "the name 'sym' says that inode 5 is a file, but it is a symbolic link."},
    {"NamesInAFile",
     [](V& v) {
       v.put_entry(2, {InodeNo{5}, 1, 10, "x"});
     },
     "Inode 2 is a file, but has names."},
    {"CookiesInAFile",
     [](V& v) {
       v.put_entry(2, {InodeNo{5}, 1, 10, "x"});
     },
     "Inode 2 is a file, but has names by cookie."},
    {"FileLinksCountedWrong", [](V& v) { v.change_inode(2, [](InodeRecord& r) { r.links = 3; }); },
     "Inode 2 has link count 3, but 2 names lead to it."},
    {"DirectoryLinksCountedWrong",
     [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.links = 2; }); },
     "Directory 1 has link count 2, but it should be 3 for 1 subdirectories."},
    {"DirectoryWithNamesAndNoLinks",
     [](V& v) { v.change_inode(3, [](InodeRecord& r) { r.links = 0; }); },
     "Directory 3 has link count 0, but it should be 2 for 0 subdirectories."},
    {"DirectoryWithASize", [](V& v) { v.change_inode(3, [](InodeRecord& r) { r.size = 32; }); },
     "Directory 3 has size 32 where 0 is due."},
    {"WrongParent", [](V& v) { v.change_inode(3, [](InodeRecord& r) { r.parent = InodeNo{2}; }); },
     "Directory 3 has its name in directory 1, but calls 2 its parent."},
    {"DirectoryWithTwoNames",
     [](V& v) {
       v.put_entry(3, {InodeNo{3}, 1, 4, "loop"});
     },
     "Directory 3 has 2 names, in directories 1 and 3."},
    {"DirectoryInItself",
     [](V& v) {
       v.erase_entry(1, "dir", 2);
       v.put_entry(3, {InodeNo{3}, 1, 4, "loop"});
     },
     "Directory 3 lies in itself: its names never lead to the root."},
    {"NameOfTheRoot",
     [](V& v) {
       v.put_entry(3, {InodeNo{1}, 1, 4, "root"});
     },
     "Directory 3 has a name for the root: 'root'."},
    {"RootIsMissing", [](V& v) { v.erase(key_of(kRoot, Kind::kInode)); },
     "The root directory (inode 1) does not exist."},
    {"RootIsMissingWithItsNames",
     [](V& v) {
       v.erase(key_of(kRoot, Kind::kInode));
       for (const char* name : {"file", "dir", "sym", "big", "again", "left", "right"}) {
         v.erase(v.name_key(1, name));
       }
       for (const std::uint64_t cookie : {1, 2, 4, 5, 6, 7, 8}) {
         v.erase(key_of(kRoot, Kind::kDentrySeq, cookie));
       }
     },
     "The root directory (inode 1) does not exist."},
    {"RootIsAFile",
     [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.mode = S_IFREG | 0644; }); },
     "The root (inode 1) is no directory."},
    {"RootThatCallsItselfShared",
     [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "The root (inode 1) is no directory."},
    {"RootWithAParent",
     [](V& v) { v.change_inode(1, [](InodeRecord& r) { r.parent = InodeNo{3}; }); },
     "The root's parent is inode 3 instead of itself."},
};

inline const Corruption kInodes[] = {
    {"FileWithoutAName", [](V& v) { v.erase_entry(1, "sym", 4); },
     "Inode 5 (a symbolic link) has no name, and is not to be deleted."},
    {"UnnamedInodeIsNoOrphan", [](V& v) { v.erase(key_of(kVolumeOwner, Kind::kOrphan, 7)); },
     "Inode 7 (a file) has no name, and is not to be deleted."},
    {"NamedInodeIsToBeDeleted",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 5),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 5 is to be deleted, but has 1 names."},
    {"NamedFileToBeDeletedHasAnExtentBehindItsEnd",
     [](V& v) {
       v.change_inode(6, [](InodeRecord& r) { r.size = 8 * kBlockBytes; });
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 6),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 6 is to be deleted, but has 1 names."},
    {"InodeToBeDeletedHasALink",
     [](V& v) { v.change_inode(7, [](InodeRecord& r) { r.links = 1; }); },
     "Inode 7 is to be deleted, but has link count 1."},
    {"DirectoryToBeDeletedHasNames",
     [](V& v) {
       v.erase_entry(1, "dir", 2);
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 3),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 3 is to be deleted, but is a directory that is not empty."},
    {"DirectoryToBeDeletedHasANameOfAFileThatHasOthers",
     [](V& v) {
       v.put_directory(11, 1, {{InodeNo{2}, 1, 8, "third"}});
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 11),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 11 is to be deleted, but is a directory that is not empty."},
    {"RootToBeDeleted",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 1),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 1 is to be deleted, but is the root."},
    {"OrphanDoesNotExist",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 99),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 99 is to be deleted, but does not exist."},
    {"LinkToBeTruncated",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 5),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
     },
     "Inode 5 is to be truncated, but is a symbolic link."},
    {"DamagedOrphan", [](V& v) { v.put_text(key_of(kVolumeOwner, Kind::kOrphan, 7), "12345678"); },
     "Item (owner 0x8000000000000000, kind 17, offset 7) holds impossible values."},
    {"DamagedInode", [](V& v) { v.put_text(key_of(InodeNo{5}, Kind::kInode), "no inode"); },
     "Item (owner 0x5, kind 1, offset 0) holds impossible values."},
    {"InodeInAnotherPlace", [](V& v) { v.put_text(key_of(InodeNo{2}, Kind::kInode, 1), "?"); },
     "Item (owner 0x2, kind 1, offset 1) holds impossible values."},
    {"ItemsWithoutInode", [](V& v) { v.erase(key_of(InodeNo{5}, Kind::kInode)); },
     "Inode 5 does not exist, but has items (the first is of kind 4)."},
    {"ItemOfAnUnknownKind", [](V& v) { v.put_text(key_of(InodeNo{5}, Kind{10}), "?"); },
     "Item (owner 0x5, kind 10, offset 0) holds impossible values."},
    {"ItemOfTheVolumeOfAnUnknownKind", [](V& v) { v.put_text(key_of(kVolumeOwner, Kind{1}), "?"); },
     "Item (owner 0x8000000000000000, kind 1, offset 0) holds impossible values."},
    {"ItemOfNobody",
     [](V& v) {
       v.put_text({0, 1, 0}, "?");
     },
     "Item (owner 0x0, kind 1, offset 0) belongs to nothing."},
    {"ItemOfANumberThatCannotBe",
     [](V& v) {
       v.put_text({kMaxInode + 1, 1, 0}, "?");
     },
     "Item (owner 0x4000000000000000, kind 1, offset 0) belongs to nothing."},
    {"InodeNotBelowTheNext",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kCounters), encode(CounterRecord{10, 0, 0}));
     },
     "Inode 10 exists, but the next number to be given out is 10."},
    {"HighestInodeThatCanBe",
     [](V& v) {
       InodeRecord record;
       record.mode = S_IFREG | 0644;
       record.links = 1;
       v.put(key_of(InodeNo{kMaxInode}, Kind::kInode), encode(record));
       v.put_entry(3, {InodeNo{kMaxInode}, 2, 8, "last"});
     },
     "Inode 4611686018427387903 exists, but the next number to be given out is 11."},
    {"HighestInodeThatCanBeWithoutAName",
     [](V& v) {
       InodeRecord record;
       record.mode = S_IFREG | 0644;
       v.put(key_of(InodeNo{kMaxInode}, Kind::kInode), encode(record));
     },
     "Inode 4611686018427387903 (a file) has no name, and is not to be deleted."},
    {"InodesAreMiscounted",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kCounters),
             encode(CounterRecord{.next_inode = 11, .inodes = 1}));
     },
     "The volume counts 1 inodes, but has 9."},
    {"CountersAreMissing", [](V& v) { v.erase(key_of(kVolumeOwner, Kind::kCounters)); },
     "The volume's counters are missing."},
    {"SymlinkWithoutATarget",
     [](V& v) {
       v.erase(key_of(InodeNo{5}, Kind::kSymlink, 0));
       v.erase(key_of(InodeNo{5}, Kind::kSymlink, 1));
     },
     "Symbolic link 5 of 1500 bytes has a target of 0 bytes in 0 pieces that do not fit."},
    {"SymlinkWithAnAttributeWithoutATarget",
     [](V& v) {
       for (const std::uint64_t piece : {0, 1}) v.erase(key_of(InodeNo{5}, Kind::kSymlink, piece));
       v.put(key_of(InodeNo{5}, Kind::kXattrName, 1), encode(XattrRecord{0, "trusted.x"}));
       v.change_inode(5, [](InodeRecord& r) { r.xattrs = 1; });
     },
     "Symbolic link 5 of 1500 bytes has a target of 0 bytes in 0 pieces that do not fit."},
    {"SymlinkWithAPieceMissing", [](V& v) { v.erase(key_of(InodeNo{5}, Kind::kSymlink, 0)); },
     "Symbolic link 5 of 1500 bytes has a target of 476 bytes in 1 pieces that do not fit."},
    {"SymlinkWithAPieceInAnotherPlace",
     [](V& v) {
       v.erase(key_of(InodeNo{5}, Kind::kSymlink, 1));
       v.put_text(key_of(InodeNo{5}, Kind::kSymlink, 2), std::string(476, 's'));
     },
     "Symbolic link 5 of 1500 bytes has a target of 1500 bytes in 2 pieces that do not fit."},
    {"SymlinkWithAShortPiece",
     [](V& v) {
       v.put_text(key_of(InodeNo{5}, Kind::kSymlink, 0), std::string(1000, 's'));
       v.put_text(key_of(InodeNo{5}, Kind::kSymlink, 1), std::string(500, 's'));
     },
     "Symbolic link 5 of 1500 bytes has a target of 1500 bytes in 2 pieces that do not fit."},
    {"SymlinkOfAnotherLength",
     [](V& v) { v.change_inode(5, [](InodeRecord& r) { r.size = 1499; }); },
     "Symbolic link 5 of 1499 bytes has a target of 1500 bytes in 2 pieces that do not fit."},
    {"ImmutableSymlink",
     [](V& v) { v.change_inode(5, [](InodeRecord& r) { r.flags = kImmutable | kNoDump; }); },
     "Inode 5 is a symbolic link, but immutable or append-only."},
    {"TargetOfAFile", [](V& v) { v.put_text(key_of(InodeNo{2}, Kind::kSymlink), "t"); },
     "Inode 2 is a file, but has a target."},
    {"AttributesCountedWrong",
     [](V& v) { v.change_inode(6, [](InodeRecord& r) { r.xattrs = 1; }); },
     "Inode 6 counts 1 attributes, but has 2."},
    {"AttributeTwice",
     [](V& v) {
       v.put(key_of(InodeNo{6}, Kind::kXattrName, 2), encode(XattrRecord{0, "user.long"}));
     },
     "Inode 6 has the attribute 'user.long' twice."},
    {"AttributeWithAPieceMissing",
     [](V& v) { v.erase(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8 | 1)); },
     "Inode 6: attribute 1 has 1500 bytes, but only 1024 of them exist."},
    {"AttributeWithAPieceOfTheWrongLength",
     [](V& v) { v.put_text(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8 | 1), "short"); },
     "Inode 6: piece 1 of the value of attribute 1 is of the wrong length or place."},
    {"AttributeWithAPieceInAnotherPlace",
     [](V& v) {
       v.put(key_of(InodeNo{6}, Kind::kXattrName, 2), encode(XattrRecord{5, "user.empty"}));
       v.put_text(key_of(InodeNo{6}, Kind::kXattrValue, 2 << 8 | 1), "12345");
     },
     "Inode 6: piece 1 of the value of attribute 2 is of the wrong length or place."},
    {"AttributeWithAPieceBehindItsEnd",
     [](V& v) { v.put_text(key_of(InodeNo{6}, Kind::kXattrValue, 1 << 8 | 2), "more"); },
     "Inode 6: piece 2 of the value of attribute 1 is of the wrong length or place."},
    {"AttributeOfANumberThatCannotBe",
     [](V& v) {
       v.put(key_of(InodeNo{6}, Kind::kXattrName, (std::uint64_t{1} << 56) + 1),
             encode(XattrRecord{5, "user.far"}));
     },
     "Item (owner 0x6, kind 5, offset 72057594037927937) holds impossible values."},
    {"ValueWithoutAnAttribute",
     [](V& v) { v.put_text(key_of(InodeNo{6}, Kind::kXattrValue, 3 << 8), "value"); },
     "Inode 6 has piece 0 of the value of attribute 3, which has no name."},
};

inline const Corruption kExtents[] = {
    {"InlineDataOfADirectory", [](V& v) { v.put_text(key_of(InodeNo{3}, Kind::kInline), "x"); },
     "Inode 3 is a directory, but has inline data."},
    {"InlineDataBesideAnExtent", [](V& v) { v.put_text(key_of(InodeNo{4}, Kind::kInline), "x"); },
     "Inode 4 has both inline data and an extent for its block 0."},
    {"InlineDataPastTheEnd", [](V& v) { v.change_inode(2, [](InodeRecord& r) { r.size = 99; }); },
     "Inode 2 has 99 bytes, but inline data up to byte 100."},
    {"InlineDataPastTheEndInAnotherPiece",
     [](V& v) { v.put_text(inline_key(InodeNo{2}, 0, 2), "xyz"); },
     "Inode 2 has 100 bytes, but inline data up to byte 2051."},
    {"InlineDataPastTheEndInTheLastPiece",
     [](V& v) { v.put_text(inline_key(InodeNo{2}, 0, kInlinePieces - 1), "xyz"); },
     "Inode 2 has 100 bytes, but inline data up to byte 3075."},
    {"LastPieceOfInlineDataBesideAnExtent",
     [](V& v) { v.put_text(inline_key(InodeNo{4}, 0, kInlinePieces - 1), "x"); },
     "Inode 4 has both inline data and an extent for its block 0."},
    {"InlineDataBesideAnExtentOfALaterBlock",
     [](V& v) { v.put_text(inline_key(InodeNo{6}, 5, 1), "x"); },
     "Inode 6 has both inline data and an extent for its block 5."},
    {"InlineDataOfTwoBlocks",
     [](V& v) {
       v.change_inode(2, [](InodeRecord& r) { r.size = 2 * kBlockBytes; });
       v.put_text(inline_key(InodeNo{2}, 1), "x");
     },
     "Inode 2 has inline data of block 1 besides that of block 0."},
    {"InlineDataOfTheFirstBlockThatCannotBe",
     [](V& v) { v.put_text(inline_key(InodeNo{2}, blocks_for(kMaxFileBytes)), "x"); },
     "kind 7, offset"},
    {"InlineDataOfABlockThatCannotBe",
     [](V& v) { v.put_text(key_of(InodeNo{2}, Kind::kInline, meta::kMaxOffset), "x"); },
     "Item (owner 0x2, kind 7, offset 18446744073709551615) holds impossible values."},
    {"ExtentPastTheEnd",
     [](V& v) { v.change_inode(6, [](InodeRecord& r) { r.size = 8 * kBlockBytes; }); },
     "Inode 6 has 32768 bytes, but an extent reaches to block 9."},
    {"BlocksCountedWrong", [](V& v) { v.change_inode(6, [](InodeRecord& r) { r.blocks = 9; }); },
     "Inode 6 counts 9 blocks, but its extents map 8."},
    {"DamagedExtent", [](V& v) { v.put_text(key_of(InodeNo{6}, Kind::kExtent, 8), "x"); },
     "Item (owner 0x6, kind 8, offset 8) holds impossible values."},
    {"ExtentOfADirectory",
     [](V& v) {
       v.put(key_of(InodeNo{3}, Kind::kExtent), encode(ExtentRecord{{kB1, 3}, 0, {1}}));
     },
     "Inode 3 is a directory, but has an extent."},
    {"ExtentsOverlapInTheFile",
     [](V& v) { v.change_extent(6, 0, [](ExtentRecord& e) { e.crcs.resize(5); }); },
     "Inode 6: the extent at file block 4 overlaps the one before it."},
    {"UnconfirmedExtentsOverlapInTheFile",
     [](V& v) {
       v.change_append(kB1, 0, [](AppendRecord& a) { a.inode = InodeNo{4}; });
       v.change_extent(6, 0, [](ExtentRecord& e) { e.crcs.resize(5); });
     },
     "Inode 6: the extent at file block 4 overlaps the one before it."},
    {"ExtentsOverlapAfterAnUnconfirmedOne",
     [](V& v) {
       v.change_append(kB2, 0, [](AppendRecord& a) { a.inode = InodeNo{6}; });
       v.change_extent(6, 0, [](ExtentRecord& e) { e.crcs.resize(5); });
     },
     "Inode 6: the extent at file block 4 overlaps the one before it."},
    {"ExtentWhereNoBlockCanBe",
     [](V& v) {
       v.put(key_of(InodeNo{6}, Kind::kExtent, meta::kMaxOffset),
             encode(ExtentRecord{{kB1, 3}, 0, {1}}));
     },
     "Item (owner 0x6, kind 8, offset 18446744073709551615) holds impossible values."},
    {"BlockUsedTwice",
     [](V& v) {
       v.put(key_of(InodeNo{4}, Kind::kExtent, 1), encode(ExtentRecord{{kB1, 8}, 8, {1}}));
     },
     "Inode 4: block 8 of band 2, in the extent at file block 1, belongs to another extent too."},
    {"ExtentInNoBand",
     [](V& v) { v.change_extent(6, 8, [](ExtentRecord& e) { e.at.band = BandId{24}; }); },
     "Inode 6: the extent at file block 8 lies in band 24, which does not exist."},
    {"ExtentInASuperBand",
     [](V& v) { v.change_extent(6, 8, [](ExtentRecord& e) { e.at.band = BandId{1}; }); },
     "Inode 6: the extent at file block 8 lies in band 1, which holds superblocks."},
    {"ExtentInALogBand",
     [](V& v) { v.change_extent(6, 8, [&](ExtentRecord& e) { e.at.band = v.log_band; }); },
     "which holds metadata."},
    {"ExtentBehindWhatIsAppended",
     [](V& v) { v.change_extent(6, 8, [](ExtentRecord& e) { e.at.rba = 13; }); },
     "the extent at file block 8 reaches block 14 of band 2, of which 13 are appended."},
    {"ExtentInBlocksThatNoLogRecords",
     [](V& v) {
       const std::uint32_t rba = *v.device->write_pointer(kB1);
       const auto crcs = v.append(kB1, 1);
       v.change_extent(6, 8, [&](ExtentRecord& e) { e = {{kB1, rba}, 8, crcs}; });
     },
     "the extent at file block 8 reaches block 14 of band 2, of which 13 are appended."},
    {"ExtentInAnUnwrittenBand",
     [](V& v) { v.change_extent(6, 8, [](ExtentRecord& e) { e.at.band = V::kUnused; }); },
     "the extent at file block 8 reaches block 9 of band 4, of which 0 are appended."},
    {"ExtentWithoutAnAppendRecord",
     [](V& v) { v.change_extent(6, 4, [](ExtentRecord& e) { e.append_record = 1; }); },
     "the extent at file block 4 names append record 1 of band 2, which does not exist."},
    {"ExtentOfAnotherInodesAppendRecord",
     [](V& v) { v.change_append(kB1, 8, [](AppendRecord& a) { a.inode = InodeNo{4}; }); },
     "Inode 6: the extent at file block 8 is not part of append record 8 of band 2, which says "
     "inode 4, file block 8, 1 blocks."},
    {"ExtentOfAnotherFileBlock",
     [](V& v) { v.change_append(kB1, 8, [](AppendRecord& a) { a.file_block = 7; }); },
     "Inode 6: the extent at file block 8 is not part of append record 8 of band 2"},
    {"ExtentLongerThanItsAppendRecord",
     [](V& v) { v.change_append(kB2, 0, [](AppendRecord& a) { a.blocks = 2; }); },
     "Inode 4: the extent at file block 0 is not part of append record 0 of band 3"},
    {"ChecksumsThatAreNotTheAppendRecords",
     [](V& v) { v.change_extent(4, 0, [](ExtentRecord& e) { e.crcs[1] ^= 1; }); },
     "Inode 4: the checksums of the extent at file block 0 are not those of append record 0 of "
     "band 3."},
    {"ContentsThatFailTheirChecksum",
     [](V& v) { v.change_extent(4, 0, [](ExtentRecord& e) { e.crcs[1] ^= 1; }); },
     "Inode 4 (/dir/inner), byte 4096: the block (band 3, block 1) cannot be read: file data fails "
     "its checksum."},
    {"ContentsOfAnUnnamedFileThatFailTheirChecksum",
     [](V& v) { v.change_extent(7, 0, [](ExtentRecord& e) { e.crcs[1] ^= 1; }); },
     "Inode 7 (without a name), byte 4096"},
};

inline const Corruption kSharedExtents[] = {
    {"ReferenceToNoInode",
     [](V& v) { v.change_reference(9, 1, [](ReferenceRecord& r) { r.shared = InodeNo{99}; }); },
     "Inode 9: the reference at file block 1 leads to blocks 0 to 1 of inode 99, which does not "
     "exist."},
    {"ReferenceToAFile",
     [](V& v) { v.change_reference(9, 1, [](ReferenceRecord& r) { r.shared = InodeNo{6}; }); },
     "Inode 9: the reference at file block 1 leads to blocks 0 to 1 of inode 6, which is a file."},
    {"ReferenceToAHoleAndBlocksOfAFile",
     [](V& v) { v.change_reference(9, 1, [](ReferenceRecord& r) {
                  r = {InodeNo{6}, 3, 2};
                }); },
     "Inode 9: the reference at file block 1 leads to blocks 3 to 4 of inode 6, which is a file."},
    {"ReferenceToItsOwnFile",
     [](V& v) { v.change_reference(8, 0, [](ReferenceRecord& r) { r.shared = InodeNo{8}; }); },
     "Inode 8: the reference at file block 0 leads to blocks 0 to 3 of inode 8, which is a file."},
    {"ReferenceToADirectory",
     [](V& v) { v.change_reference(9, 1, [](ReferenceRecord& r) { r.shared = InodeNo{3}; }); },
     "Inode 9: the reference at file block 1 leads to blocks 0 to 1 of inode 3, which is a "
     "directory."},
    {"ReferenceToBlocksThatAreNotThere",
     [](V& v) { v.change_reference(9, 1, [](ReferenceRecord& r) { r.block = 3; }); },
     "Inode 9: the reference at file block 1 leads to blocks 3 to 4 of inode 10, which does not "
     "have them all."},
    {"ReferencePastTheEnd",
     [](V& v) { v.change_inode(9, [](InodeRecord& r) { r.size = 2 * kBlockBytes; }); },
     "Inode 9 has 8192 bytes, but an extent reaches to block 3."},
    {"ReferenceWhollyPastTheEnd", [](V& v) { v.put_reference(9, 5, 10, 0, 1); },
     "Inode 9 has 12288 bytes, but an extent reaches to block 6."},
    {"ReferenceOverAnExtent",
     [](V& v) {
       v.put_reference(6, 2, 10, 0, 2);
       v.put_share_count(10, 0, 2, 3);
     },
     "Inode 6: the reference at file block 2 overlaps the one before it."},
    {"ExtentOverAReference",
     [](V& v) {
       v.put_reference(6, 3, 10, 0, 2);
       v.put_share_count(10, 0, 2, 3);
     },
     "Inode 6: the extent at file block 4 overlaps the one before it."},
    {"ReferencesAreCountedAmongAFilesBlocks",
     [](V& v) { v.change_inode(8, [](InodeRecord& r) { r.blocks = 0; }); },
     "Inode 8 counts 0 blocks, but its extents map 4."},
    {"ReferenceOfADirectory", [](V& v) { v.put_reference(3, 0, 10, 0, 1); },
     "Inode 3 is a directory, but has a reference."},
    {"ReferenceInASharedInode", [](V& v) { v.put_reference(10, 5, 10, 0, 1); },
     "Inode 10 is a shared-extent inode, but has a reference."},
    {"DamagedReference",
     [](V& v) {
       auto bytes = encode(ReferenceRecord{InodeNo{10}, 0, 4});
       bytes[4] = std::byte{200};
       v.put(key_of(InodeNo{8}, Kind::kExtent), bytes);
     },
     "Item (owner 0x8, kind 8, offset 0) holds impossible values."},
    {"ReferenceIsMissing", [](V& v) { v.erase(key_of(InodeNo{9}, Kind::kExtent, 1)); },
     "Shared-extent inode 10: 2 references to its blocks from 0 to 1 are counted, but there are "
     "1."},
    {"BlocksNoFileRefersTo",
     [](V& v) { v.change_reference(8, 0, [](ReferenceRecord& r) { r.count = 3; }); },
     "Shared-extent inode 10: no file refers to its blocks from 3 to 3."},
    {"BlocksInTheMiddleNoFileRefersTo",
     [](V& v) {
       v.change_reference(8, 0, [](ReferenceRecord& r) { r.count = 1; });
       v.put_reference(8, 3, 10, 3, 1);
       v.erase(key_of(InodeNo{9}, Kind::kExtent, 1));
     },
     "Shared-extent inode 10: no file refers to its blocks from 1 to 1."},
    {"NoFileRefersToIt",
     [](V& v) {
       v.erase(key_of(InodeNo{8}, Kind::kExtent, 0));
       v.erase(key_of(InodeNo{9}, Kind::kExtent, 1));
     },
     "Inode 10 calls itself shared, but no file refers to its blocks."},
    {"ShareCountTooLow", [](V& v) { v.put_share_count(10, 0, 2, 1); },
     "Shared-extent inode 10: 1 references to its blocks from 0 to 1 are counted, but there are "
     "2."},
    {"ShareCountTooHigh", [](V& v) { v.put_share_count(10, 2, 2, 7); },
     "Shared-extent inode 10: 7 references to its blocks from 2 to 3 are counted, but there are "
     "1."},
    {"ShareCountIsMissing", [](V& v) { v.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 2)); },
     "Shared-extent inode 10: no reference count covers its blocks from 2 to 3."},
    {"ShareCountsAreMissing",
     [](V& v) {
       v.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 0));
       v.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 2));
     },
     "Shared-extent inode 10: no reference count covers its blocks from 0 to 1."},
    {"ShareCountTooLong", [](V& v) { v.put_share_count(10, 2, 3, 1); },
     "Shared-extent inode 10: a reference count covers the blocks from 4 to 4, which no extent "
     "maps."},
    {"ShareCountsOverlap", [](V& v) { v.put_share_count(10, 0, 3, 2); },
     "Inode 10: the reference count at block 2 overlaps the one before it."},
    {"DamagedShareCount",
     [](V& v) { v.put_text(key_of(InodeNo{10}, Kind::kReferenceCount, 2), "12345678"); },
     "Item (owner 0xa, kind 9, offset 2) holds impossible values."},
    {"ShareCountWhereNoBlockCanBe", [](V& v) { v.put_share_count(10, ~std::uint64_t{0}, 1, 1); },
     "Item (owner 0xa, kind 9, offset 18446744073709551615) holds impossible values."},
    {"ShareCountOfAFile", [](V& v) { v.put_share_count(6, 0, 3, 1); },
     "Inode 6 is a file, but has reference counts."},
    {"ShareCountOfADirectory", [](V& v) { v.put_share_count(3, 0, 3, 1); },
     "Inode 3 is a directory, but has reference counts."},
    {"SharedInodeThatCallsItselfAFile",
     [](V& v) { v.change_inode(10, [](InodeRecord& r) { r.mode = S_IFREG | 0644; }); },
     "Inode 10 is a file, but has no name, and files refer to its blocks."},
    {"SharedInodeThatCallsItselfADirectory",
     [](V& v) { v.change_inode(10, [](InodeRecord& r) { r.mode = S_IFDIR | 0755; }); },
     "Inode 10 calls itself a directory, but its items are not those of one."},
    {"FileThatCallsItselfShared",
     [](V& v) { v.change_inode(6, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "Inode 6 calls itself shared, but has a name."},
    {"SmallFileThatCallsItselfShared",
     [](V& v) { v.change_inode(2, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "Inode 2 calls itself shared, but has a name."},
    {"EmptyFileThatCallsItselfShared",
     [](V& v) {
       v.erase(key_of(InodeNo{2}, Kind::kInline));
       v.change_inode(2, [](InodeRecord& r) {
         r.mode = kSharedMode;
         r.size = 0;
       });
     },
     "Inode 2 calls itself shared, but has a name."},
    {"SmallFileWithoutANameThatCallsItselfShared",
     [](V& v) {
       v.erase_entry(1, "file", 1);
       v.erase_entry(1, "again", 6);
       v.change_inode(2, [](InodeRecord& r) { r.mode = kSharedMode; });
     },
     "Inode 2 calls itself shared, but no file refers to its blocks."},
    {"FileOfReferencesThatCallsItselfShared",
     [](V& v) { v.change_inode(8, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "Inode 8 calls itself shared, but has a name."},
    {"DirectoryThatCallsItselfShared",
     [](V& v) { v.change_inode(3, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "Inode 3 calls itself a shared-extent inode, but its items are not those of one."},
    {"LinkThatCallsItselfShared",
     [](V& v) { v.change_inode(5, [](InodeRecord& r) { r.mode = kSharedMode; }); },
     "Inode 5 calls itself a shared-extent inode, but its items are not those of one."},
    {"SharedInodeWithAName",
     [](V& v) {
       v.put_entry(3, {InodeNo{10}, 2, 0, "shared"});
     },
     "Inode 10 calls itself shared, but has a name."},
    {"SharedInodeWithTheNameOfAFile",
     [](V& v) {
       v.put_entry(3, {InodeNo{10}, 2, 8, "shared"});
     },
     "Inode 10 calls itself shared, but has a name."},
    {"SharedInodeToBeDeleted",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 10),
             encode(OrphanRecord{OrphanRecord::Work::kDelete}));
     },
     "Inode 10 is to be deleted, but is a shared-extent inode."},
    {"SharedInodeToBeTruncated",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kOrphan, 10),
             encode(OrphanRecord{OrphanRecord::Work::kTruncate}));
     },
     "Inode 10 is to be truncated, but is a shared-extent inode."},
    {"SharedInodeWithoutALink",
     [](V& v) { v.change_inode(10, [](InodeRecord& r) { r.links = 0; }); },
     "Shared-extent inode 10 has link count 0 where 1 is due."},
    {"SharedInodeOfAnotherSize",
     [](V& v) { v.change_inode(10, [](InodeRecord& r) { r.size = 2 * kBlockBytes; }); },
     "Shared-extent inode 10 has 8192 bytes, but its last block ends at 16384."},
    {"SharedInodeWithBlocksCountedWrong",
     [](V& v) { v.change_inode(10, [](InodeRecord& r) { r.blocks = 3; }); },
     "Inode 10 counts 3 blocks, but its extents map 4."},
    {"SharedInodeWithoutBlocks",
     [](V& v) {
       InodeRecord shared;
       shared.mode = kSharedMode;
       shared.links = 1;
       v.put(key_of(InodeNo{7}, Kind::kInode), encode(shared));
       v.erase(key_of(InodeNo{7}, Kind::kExtent));
       v.erase(key_of(kVolumeOwner, Kind::kOrphan, 7));
     },
     "Shared-extent inode 7 has no blocks."},
    {"SharedInodeWithInlineData", [](V& v) { v.put_text(key_of(InodeNo{10}, Kind::kInline), "x"); },
     "Inode 10 is a shared-extent inode, but has inline data."},
    {"SharedInodeWithAnAttribute",
     [](V& v) {
       v.put(key_of(InodeNo{10}, Kind::kXattrName, 1), encode(XattrRecord{0, "user.x"}));
       v.change_inode(10, [](InodeRecord& r) { r.xattrs = 1; });
     },
     "Inode 10 is a shared-extent inode, but has attributes."},
    {"RecordOfASharedInodeIsMissing", [](V& v) { v.erase(key_of(InodeNo{10}, Kind::kInode)); },
     "Inode 10 does not exist, but has items (the first is of kind 8)."},
    {"RecordAndShareCountsAreMissing",
     [](V& v) {
       v.erase(key_of(InodeNo{10}, Kind::kInode));
       v.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 0));
       v.erase(key_of(InodeNo{10}, Kind::kReferenceCount, 2));
     },
     "Inode 10 does not exist, but has items (the first is of kind 8)."},
    {"ExtentOfASharedInodeIsMissing", [](V& v) { v.erase(key_of(InodeNo{10}, Kind::kExtent)); },
     "Inode 8: the reference at file block 0 leads to blocks 0 to 3 of inode 10, which does not "
     "have them all."},
    {"AppendRecordNamesTheFileThatWroteIt",
     [](V& v) { v.change_append(kB3, 0, [](AppendRecord& a) { a.inode = InodeNo{8}; }); },
     "Inode 10: the extent at file block 0 is not part of append record 0 of band 5"},
    {"SharedBlocksThatAFileHasToo",
     [](V& v) {
       v.change_extent(10, 0, [&](const ExtentRecord& e) {
         v.put(key_of(InodeNo{4}, Kind::kExtent), encode(e));
       });
     },
     "block 0 of band 5, in the extent at file block 0, belongs to another extent too."},
    {"SharedContentsThatFailTheirChecksum",
     [](V& v) { v.change_extent(10, 0, [](ExtentRecord& e) { e.crcs[1] ^= 1; }); },
     "Inode 9 (/right), byte 8192: the block (band 5, block 1) cannot be read: file data fails its "
     "checksum."},
};

inline std::string name_of_case(const testing::TestParamInfo<Corruption>& info) {
  return info.param.name;
}

}  // namespace lazyfs::fsck
