#include "fsck/attribute_items.h"

#include <algorithm>

namespace lazyfs::fsck {
namespace {

// Attributes that Linux can list: 64 KiB of names. Bounds the memory that a damaged inode takes.
constexpr std::size_t kMaxHeldAttributes = 65536;
constexpr std::uint64_t kMaxPieces = 256;  // of a value: the number is the key's last byte

}  // namespace

void AttributeItems::begin(InodeNo inode, bool may_lack_names) {
  no_ = inode;
  may_lack_names_ = may_lack_names;
  count_ = 0;
  attributes_.clear();
  names_.clear();
}

void AttributeItems::name(const meta::Item& item) {
  count_ += 1;
  const auto record = decode_xattr(item.value);
  if (!record || item.key.offset >= kXattrIdEnd) return c_.bad_item(item.key);
  if (attributes_.size() >= kMaxHeldAttributes) {
    if (c_.finding(Action::kRemove, "Inode {} has more attributes than can be", no_.value)) {
      c_.erase(item.key);
    }
    return;
  }
  if (!names_.insert(record->name).second &&
      c_.finding(Action::kRemove, "Inode {} has the attribute '{}' twice", no_.value,
                 record->name)) {
    return c_.erase(item.key);
  }
  attributes_[item.key.offset] = {record->value_bytes, 0};
}

void AttributeItems::value(const meta::Item& item) {
  const std::uint64_t id = item.key.offset / kMaxPieces, piece = item.key.offset % kMaxPieces;
  const auto found = attributes_.find(id);
  if (found == attributes_.end()) {
    if (!may_lack_names_ &&
        c_.finding(Action::kRemove,
                   "Inode {} has piece {} of the value of attribute {}, which has no name",
                   no_.value, piece, id)) {
      c_.erase(item.key);
    }
    return;
  }
  Attribute& a = found->second;
  const std::uint64_t due =
      std::min<std::uint64_t>(a.value_bytes - a.found_bytes, meta::kMaxValueBytes);
  const bool fits = due > 0 && item.value.size() == due &&
                    a.found_bytes == piece * meta::kMaxValueBytes;
  if (fits) {
    a.found_bytes += static_cast<std::uint32_t>(due);
    return;
  }
  // Of an attribute that lacks a piece a repair removes all: end().
  if (c_.finding(Action::kRemove,
                 "Inode {}: piece {} of the value of attribute {} is of the wrong length or place",
                 no_.value, piece, id)) {
    c_.erase(item.key);
  }
}

void AttributeItems::end(const InodeRecord* record) {
  if (record && record->xattrs != count_) {
    c_.finding(Action::kCorrect, "Inode {} counts {} attributes, but has {}", no_.value,
               record->xattrs, count_);
  }
  for (const auto& [id, a] : attributes_) {
    if (a.found_bytes == a.value_bytes) continue;
    if (c_.finding(Action::kRemove,
                   "Inode {}: attribute {} has {} bytes, but only {} of them exist", no_.value, id,
                   a.value_bytes, a.found_bytes)) {
      erase(id);
    }
  }
}

void AttributeItems::erase_all() {
  for (const auto& [id, a] : attributes_) erase(id);
}

void AttributeItems::erase(std::uint64_t id) {
  meta::Batch batch;
  batch.erase(key_of(no_, Kind::kXattrName, id));
  for (std::uint64_t piece = 0; piece < kMaxPieces; ++piece) {
    batch.erase(key_of(no_, Kind::kXattrValue, id * kMaxPieces + piece));
  }
  c_.apply(batch);
}

}  // namespace lazyfs::fsck
