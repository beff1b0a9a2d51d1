// Ways in which the append and delete logs of a band, and its summary, can disagree with the rest
// of a volume.
#pragma once

#include "test/fsck/corruptions.h"

namespace lazyfs::fsck {

inline void erase_extents_of_second_band(SampleVolume& v) {
  for (const std::uint64_t inode : {4, 7}) {
    v.erase(key_of(InodeNo{inode}, Kind::kExtent));
    v.change_inode(inode, [](InodeRecord& r) { r.blocks = 0; });
  }
}

inline const Corruption kBands[] = {
    {"AppendRecordsWithAGap", [](V& v) { v.erase(key_of(kB1, Kind::kAppendRecord, 8)); },
     "Band 2: no append record covers the blocks from 8 to 8."},
    {"FirstAppendRecordIsMissing", [](V& v) { v.erase(key_of(kB1, Kind::kAppendRecord, 0)); },
     "Band 2: no append record covers the blocks from 0 to 7."},
    {"FirstAppendRecordIsMissingAndNoLiveBlocksAreCounted",
     [](V& v) {
       v.erase(key_of(kB1, Kind::kAppendRecord, 0));
       v.change_summary(kB1, [](BandSummaryRecord& s) { s.live = 0; });
     },
     "Band 2: no append record covers the blocks from 0 to 7."},
    {"FirstAppendRecordAndExtentsAreMissing",
     [](V& v) {
       v.erase(key_of(kB2, Kind::kAppendRecord, 0));
       erase_extents_of_second_band(v);
     },
     "Band 3: no append record covers the blocks from 0 to 2."},
    {"AppendRecordsWithAGapAndNoLiveBlocks",
     [](V& v) {
       if (*v.device->write_pointer(V::kUnused) == 0) v.append(V::kUnused, 3);
       v.put(key_of(kVolumeOwner, Kind::kBandSummary, V::kUnused.value),
             encode(BandSummaryRecord{3, 0, 2, 0}));
       for (const std::uint32_t rba : {0, 2}) {
         v.put(key_of(V::kUnused, Kind::kAppendRecord, rba),
               encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
       }
     },
     "Band 4: no append record covers the blocks from 1 to 1."},
    {"AppendRecordsOfABandWithDeleteRecordsAreMissing",
     [](V& v) { v.erase(key_of(kB3, Kind::kAppendRecord, 0)); },
     "Band 5: delete record 4 names append record 0, which does not exist."},
    {"BlocksOfADeadBandNeitherLiveNorDead",
     [](V& v) {
       erase_extents_of_second_band(v);
       v.put(key_of(kB2, Kind::kDeleteRecord, 0), encode(DeleteRecord{InodeNo{4}, 0, 0, 3, 0}));
       v.change_summary(kB2, [](BandSummaryRecord& s) { s.live = 0; });
     },
     "Band 3: the blocks from 3 to 4 are neither live nor dead."},
    {"AppendRecordPastTheBandsEnd",
     [](V& v) {
       v.put(key_of(kB1, Kind::kAppendRecord, 65), encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
     },
     "Item (owner 0x8000000100000002, kind 24, offset 65) holds impossible values."},
    {"AppendRecordsThatOverlap",
     [](V& v) { v.change_append(kB1, 0, [](AppendRecord& a) { a.blocks = 9; }); },
     "Band 2: append record 8 overlaps the one before it."},
    {"AppendRecordsThatEndEarly", [](V& v) { v.erase(key_of(kB1, Kind::kAppendRecord, 9)); },
     "Band 2: the summary counts 13 appended blocks, but there are 9."},
    {"AppendRecordBehindTheBandsEnd",
     [](V& v) { v.change_append(kB1, 9, [](AppendRecord& a) { a.blocks = 56; }); },
     "Item (owner 0x8000000100000002, kind 24, offset 9) holds impossible values."},
    {"AppendRecordsCountedWrong",
     [](V& v) { v.change_summary(kB1, [](BandSummaryRecord& s) { s.append_records = 4; }); },
     "Band 2: the summary counts 4 append records, but there are 3."},
    {"AppendRecordsOfABandWithoutLiveBlocksCountedWrong",
     [](V& v) {
       // A volume may get the same damage twice.
       if (*v.device->write_pointer(V::kUnused) == 0) v.append(V::kUnused, 1);
       v.put(key_of(kVolumeOwner, Kind::kBandSummary, V::kUnused.value),
             encode(BandSummaryRecord{1, 0, 2, 0}));
       v.put(key_of(V::kUnused, Kind::kAppendRecord), encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
     },
     "Band 4: the summary counts 2 append records, but there are 1."},
    {"DeleteRecordsCountedWrong",
     [](V& v) { v.change_summary(kB1, [](BandSummaryRecord& s) { s.delete_records = 0; }); },
     "Band 2: the summary counts 0 delete records, but there are 1."},
    {"LiveBlocksCountedWrong",
     [](V& v) { v.change_summary(kB1, [](BandSummaryRecord& s) { s.live = 9; }); },
     "Band 2: the summary counts 9 live blocks, but there are 8."},
    {"BlockNeitherLiveNorDead", [](V& v) { v.erase(key_of(kB1, Kind::kDeleteRecord, 3)); },
     "Band 2: the blocks from 3 to 3 are neither live nor dead."},
    {"DeletedBlockThatIsLive",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.blocks = 2; }); },
     "Band 2: the blocks from 4 to 4 are dead, but an extent refers to them."},
    {"LostBlocksThatAreLive",
     [](V& v) {
       v.put(key_of(kB2, Kind::kAppendRecord, 3), encode(AppendRecord{InodeNo{0}, 0, 2, 0}));
     },
     "Band 3: the blocks from 3 to 4 are dead, but an extent refers to them."},
    {"BlockThatDiedTwice",
     [](V& v) {
       v.change_delete(kB1, 3, [](DeleteRecord& d) { d.blocks = 2; });
       v.put(key_of(kB1, Kind::kDeleteRecord, 4), encode(DeleteRecord{InodeNo{6}, 4, 4, 1, 0}));
     },
     "Band 2: block 4 in delete record 4 is dead already."},
    {"DeleteRecordWithoutAnAppendRecord",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.append_record = 2; }); },
     "Band 2: delete record 3 names append record 2, which does not exist."},
    {"DeleteRecordOfAnotherInode",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.inode = InodeNo{2}; }); },
     "Band 2: delete record 3 (inode 2, file block 3, 1 blocks) is not part of append record 0 "
     "(inode 6, file block 0, 8 blocks)."},
    {"DeleteRecordOfAnotherFileBlock",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.file_block = 4; }); },
     "Band 2: delete record 3 (inode 6, file block 4, 1 blocks) is not part of append record 0"},
    {"DeleteRecordLongerThanItsAppendRecord",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.blocks = 6; }); },
     "Band 2: delete record 3 (inode 6, file block 3, 6 blocks) is not part of append record 0"},
    {"DeleteRecordLongerThanItsBand",
     [](V& v) { v.change_delete(kB1, 3, [](DeleteRecord& d) { d.blocks = 62; }); },
     "Item (owner 0x8000000100000002, kind 25, offset 3) holds impossible values."},
    {"DeleteRecordPastTheBandsEnd",
     [](V& v) {
       v.put(key_of(kB1, Kind::kDeleteRecord, 65), encode(DeleteRecord{InodeNo{6}, 65, 65, 1, 0}));
     },
     "Item (owner 0x8000000100000002, kind 25, offset 65) holds impossible values."},
    {"DeleteRecordInAnotherPlace",
     [](V& v) {
       v.put(key_of(kB1, Kind::kDeleteRecord, 5), encode(DeleteRecord{InodeNo{6}, 3, 3, 1, 0}));
     },
     "Item (owner 0x8000000100000002, kind 25, offset 5) holds impossible values."},
    {"DamagedSummary", [](V& v) { v.put_text(key_of(kVolumeOwner, Kind::kBandSummary, 2), "x"); },
     "Item (owner 0x8000000000000000, kind 18, offset 2) holds impossible values."},
    {"MoreAppendedThanTheBandHolds",
     [](V& v) { v.change_summary(kB1, [](BandSummaryRecord& s) { s.appended = 65; }); },
     "Band 2 has 64 blocks, but its summary counts 65 appended ones."},
    {"MoreAppendedThanTheBandHoldsWithoutAnythingLive",  // as if a crash had interrupted its end
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kBandSummary, 4), encode(BandSummaryRecord{65, 0, 1, 0}));
       v.put(key_of(BandId{4}, Kind::kAppendRecord), encode(AppendRecord{InodeNo{0}, 0, 1, 0}));
     },
     "Band 4 has 64 blocks, but its summary counts 65 appended ones."},
    {"ExtentsInABandWithoutALog",
     [](V& v) {
       v.erase(key_of(kVolumeOwner, Kind::kBandSummary, 3));
       v.erase(key_of(kB2, Kind::kAppendRecord, 0));
       v.erase(key_of(kB2, Kind::kAppendRecord, 3));
     },
     "reaches block 3 of band 3, of which 0 are appended."},
    {"SummaryOfNoBand",
     [](V& v) { v.put(key_of(kVolumeOwner, Kind::kBandSummary, 24), encode(BandSummaryRecord{})); },
     "Band 24 has a summary, but the device has no such band."},
    {"SummaryOfASuperBand",
     [](V& v) { v.put(key_of(kVolumeOwner, Kind::kBandSummary, 0), encode(BandSummaryRecord{})); },
     "Band 0 has a summary of file data, but holds superblocks."},
    {"LogOfASuperBand",
     [](V& v) {
       v.put(key_of(BandId{0}, Kind::kAppendRecord), encode(AppendRecord{InodeNo{2}, 0, 1, 0}));
     },
     "Band 0 has an append log of file data, but holds superblocks."},
    {"LogOfNoBand",
     [](V& v) {
       v.put(key_of(BandId{24}, Kind::kAppendRecord), encode(AppendRecord{InodeNo{2}, 0, 1, 0}));
     },
     "Item (owner 0x8000000100000018, kind 24, offset 0) belongs to nothing."},
    {"LogWithoutASummary", [](V& v) { v.erase(key_of(kVolumeOwner, Kind::kBandSummary, 2)); },
     "Band 2 has append or delete records, but no summary."},
    {"SummaryWithoutALog",
     [](V& v) {
       v.put(key_of(kVolumeOwner, Kind::kBandSummary, 4), encode(BandSummaryRecord{1, 0, 0, 0}));
     },
     "Band 4: the summary counts 1 appended blocks, but there are 0."},
    {"ItemOfABandOfAnUnknownKind", [](V& v) { v.put_text(key_of(kB1, Kind{26}), "?"); },
     "Item (owner 0x8000000100000002, kind 26, offset 0) holds impossible values."},
    {"WritePointerBehindWhatIsAppended",
     [](V& v) { ASSERT_TRUE(v.device->set_write_pointer(kB2, 4)); },
     "Band 3: 5 blocks are appended, but the write pointer stands at 4."},
};

}  // namespace lazyfs::fsck
