#include "fs/xattr.h"

#include <algorithm>

namespace lazyfs::fs {
namespace {

constexpr std::size_t kMaxXattrs = 4096;  // of one inode; the kernel lists at most 64 KiB of names
constexpr std::uint64_t kMaxXattrId = std::uint64_t{1} << 48;

std::uint64_t pieces_of(std::uint32_t value_bytes) {
  return (value_bytes + meta::kMaxValueBytes - 1) / meta::kMaxValueBytes;
}
meta::Key piece_key(InodeNo inode, std::uint64_t id, std::uint64_t piece) {
  return key_of(inode, Kind::kXattrValue, id << 8 | piece);
}

void erase_pieces(meta::Batch& batch, InodeNo inode, std::uint64_t id, std::uint64_t from,
                  std::uint64_t to) {
  for (std::uint64_t piece = from; piece < to; ++piece) batch.erase(piece_key(inode, id, piece));
}

void put_pieces(meta::Batch& batch, InodeNo inode, std::uint64_t id, std::string_view value) {
  for (std::uint64_t piece = 0; !value.empty(); ++piece) {
    const auto part = value.substr(0, meta::kMaxValueBytes);
    batch.put(piece_key(inode, id, piece), std::as_bytes(std::span(part)));
    value.remove_prefix(part.size());
  }
}

Result<> check_xattr_name(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) return fail(Errc::kInvalid);
  if (name.size() > kMaxNameBytes) return fail(Errc::kBufferTooSmall);
  return ok();
}

}  // namespace

Result<std::vector<Xattrs::Named>> Xattrs::names_of(InodeNo inode) {
  ASSIGN_OR_RETURN(const auto items,
                   store_.scan(key_of(inode, Kind::kXattrName),
                               key_of(inode, Kind::kXattrName, meta::kMaxOffset), kMaxXattrs + 1));
  std::vector<Named> names;
  for (const meta::Item& item : items) {
    ASSIGN_OR_RETURN(auto record, decode_xattr(item.value));
    names.push_back({item.key.offset, std::move(record)});
  }
  return names;
}

Result<std::string> Xattrs::get(InodeNo number, std::string_view name) {
  TRY(check_xattr_name(name));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  if (inode->record.xattrs == 0) return fail(Errc::kNoAttribute);
  ASSIGN_OR_RETURN(const auto names, names_of(number));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  if (found == names.end()) return fail(Errc::kNoAttribute);
  std::string value;
  for (std::uint64_t piece = 0; piece < pieces_of(found->record.value_bytes); ++piece) {
    ASSIGN_OR_RETURN(const auto part, store_.get(piece_key(number, found->id, piece)));
    if (!part) return fail(Errc::kItemBad);
    value.append(reinterpret_cast<const char*>(part->data()), part->size());
  }
  if (value.size() != found->record.value_bytes) return fail(Errc::kItemBad);
  return value;
}

Result<> Xattrs::set(InodeNo number, std::string_view name, std::string_view value,
                     Volume::XattrMode mode) {
  TRY(check_xattr_name(name));
  if (value.size() > kMaxXattrBytes) return fail(Errc::kAttributeTooBig);
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  WriterLock lock(inode->mu);
  if (inode->gone) return fail(Errc::kStale);
  ASSIGN_OR_RETURN(const auto names, names_of(number));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  const bool exists = found != names.end();
  if (exists && mode == Volume::XattrMode::kCreate) return fail(Errc::kExists);
  if (!exists && mode == Volume::XattrMode::kReplace) return fail(Errc::kNoAttribute);
  if (!exists && names.size() >= kMaxXattrs) return fail(Errc::kNoSpace);

  const std::uint64_t id = exists ? found->id : names.empty() ? 1 : names.back().id + 1;
  if (id >= kMaxXattrId) return fail(Errc::kNoSpace);
  const XattrRecord changed{static_cast<std::uint32_t>(value.size()), std::string(name)};
  InodeRecord record = inode->record;
  record.change = clock_.now();
  if (!exists) ++record.xattrs;
  meta::Batch batch;
  if (exists) {
    erase_pieces(batch, number, id, pieces_of(changed.value_bytes),
                 pieces_of(found->record.value_bytes));
  }
  put_pieces(batch, number, id, value);
  batch.put(key_of(number, Kind::kXattrName, id), encode(changed));
  batch.put(key_of(number, Kind::kInode), encode(for_tree(*inode, record)));
  TRY(store_.apply(batch));
  inode->record = record;
  return ok();
}

Result<> Xattrs::remove(InodeNo number, std::string_view name) {
  TRY(check_xattr_name(name));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  WriterLock lock(inode->mu);
  if (inode->gone) return fail(Errc::kStale);
  ASSIGN_OR_RETURN(const auto names, names_of(number));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  if (found == names.end()) return fail(Errc::kNoAttribute);
  if (inode->record.xattrs == 0) return fail(Errc::kItemBad);
  InodeRecord record = inode->record;
  record.change = clock_.now();
  --record.xattrs;
  meta::Batch batch;
  erase_pieces(batch, number, found->id, 0, pieces_of(found->record.value_bytes));
  batch.erase(key_of(number, Kind::kXattrName, found->id));
  batch.put(key_of(number, Kind::kInode), encode(for_tree(*inode, record)));
  TRY(store_.apply(batch, meta::Reserve::kDelete));
  inode->record = record;
  return ok();
}

Result<std::vector<std::string>> Xattrs::list(InodeNo number) {
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  std::vector<std::string> list;
  if (inode->record.xattrs == 0) return list;
  ASSIGN_OR_RETURN(auto names, names_of(number));
  for (Named& name : names) list.push_back(std::move(name.record.name));
  return list;
}

}  // namespace lazyfs::fs
