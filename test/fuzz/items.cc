// The fuzz target for the values of items (fuzz/targets.h).
#include "fs/item/schema.h"
#include "fuzz/input.h"

namespace lazyfs::fuzz {
namespace {

// A value that can be decoded is encoded as one that decodes to the same record.
template <class Decode>
void try_kind(Bytes value, Decode decode) {
  const auto record = decode(value);
  if (!record) return;
  const auto bytes = fs::encode(*record);
  require(bytes.size() <= meta::kMaxValueBytes, "an item that was read can be written");
  const auto again = decode(bytes);
  require(again && *again == *record, "an item is encoded as it was decoded");
}

}  // namespace

void items(Bytes input) {
  Input from(input);
  const auto kind = static_cast<fs::Kind>(from.number(1));
  const Bytes value = from.take(meta::kMaxValueBytes);
  using fs::Kind;
  switch (kind) {
    case Kind::kInode: return try_kind(value, fs::decode_inode);
    case Kind::kDentryName: return try_kind(value, fs::decode_dentries);
    case Kind::kDentrySeq: return try_kind(value, fs::decode_dentry);
    case Kind::kXattrName: return try_kind(value, fs::decode_xattr);
    case Kind::kExtent: return try_kind(value, fs::decode_map_record);
    case Kind::kReferenceCount: return try_kind(value, fs::decode_reference_count);
    case Kind::kCounters: return try_kind(value, fs::decode_counters);
    case Kind::kOrphan: return try_kind(value, fs::decode_orphan);
    case Kind::kLostRange: return try_kind(value, fs::decode_lost_range);
    case Kind::kBandSummary: return try_kind(value, fs::decode_band_summary);
    case Kind::kAppendRecord: return try_kind(value, fs::decode_append_record);
    case Kind::kDeleteRecord: return try_kind(value, fs::decode_delete_record);
    case Kind::kSymlink:
    case Kind::kXattrValue:
    case Kind::kInline: return;  // nothing but bytes
  }
}

}  // namespace lazyfs::fuzz
