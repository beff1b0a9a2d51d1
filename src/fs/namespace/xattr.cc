#include "fs/namespace/xattr.h"

#include <algorithm>

#include "fs/inode/protection.h"
#include "fs/namespace/acl.h"

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

Result<std::string> Xattrs::get_locked(const Inode& inode, std::string_view name) {
  if (inode.record.xattrs == 0) return fail(Errc::kNoAttribute);
  ASSIGN_OR_RETURN(const auto names, names_of(inode.no));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  if (found == names.end()) return fail(Errc::kNoAttribute);
  std::string value;
  for (std::uint64_t piece = 0; piece < pieces_of(found->record.value_bytes); ++piece) {
    ASSIGN_OR_RETURN(const auto part, store_.get(piece_key(inode.no, found->id, piece)));
    if (!part) return fail(Errc::kItemBad);
    value.append(reinterpret_cast<const char*>(part->data()), part->size());
  }
  if (value.size() != found->record.value_bytes) return fail(Errc::kItemBad);
  return value;
}

Result<std::string> Xattrs::get(InodeNo number, std::string_view name) {
  TRY(check_xattr_name(name));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  ReaderLock lock(inode->mu);
  return get_locked(*inode, name);
}

void put_xattr(meta::Batch& batch, InodeNo inode, std::uint64_t id, std::string_view name,
               std::string_view value) {
  put_pieces(batch, inode, id, value);
  const XattrRecord record{static_cast<std::uint32_t>(value.size()), std::string(name)};
  batch.put(key_of(inode, Kind::kXattrName, id), encode(record));
}

Result<> Xattrs::put_into(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                          std::string_view name, std::string_view value, XattrMode mode) {
  ASSIGN_OR_RETURN(const auto names, names_of(inode.no));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  const bool exists = found != names.end();
  const bool never = mode == XattrMode::kNever;
  if (exists && (never || mode == XattrMode::kCreate)) return fail(Errc::kExists);
  if (!exists && (never || mode == XattrMode::kReplace)) return fail(Errc::kNoAttribute);
  if (!exists && names.size() >= kMaxXattrs) return fail(Errc::kNoSpace);
  const std::uint64_t id = exists ? found->id : names.empty() ? 1 : names.back().id + 1;
  if (id >= kMaxXattrId) return fail(Errc::kNoSpace);
  if (exists) {
    erase_pieces(batch, inode.no, id, pieces_of(static_cast<std::uint32_t>(value.size())),
                 pieces_of(found->record.value_bytes));
  } else {
    ++record.xattrs;
  }
  put_xattr(batch, inode.no, id, name, value);
  record.change = change_time(clock_, {&inode});
  return ok();
}

Result<> Xattrs::remove_in(meta::Batch& batch, const Inode& inode, InodeRecord& record,
                           std::string_view name) {
  ASSIGN_OR_RETURN(const auto names, names_of(inode.no));
  const auto found = std::ranges::find(names, name, [](const Named& n) { return n.record.name; });
  if (found == names.end()) return fail(Errc::kNoAttribute);
  if (record.xattrs == 0) return fail(Errc::kItemBad);
  --record.xattrs;
  record.change = change_time(clock_, {&inode});
  erase_pieces(batch, inode.no, found->id, 0, pieces_of(found->record.value_bytes));
  batch.erase(key_of(inode.no, Kind::kXattrName, found->id));
  return ok();
}

Result<> Xattrs::set(InodeNo number, std::string_view name, std::string_view value,
                     XattrMode mode) {
  TRY(check_xattr_name(name));
  if (value.size() > kMaxXattrBytes) return fail(Errc::kAttributeTooBig);
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  TRY(check_unprotected(inode->record));
  InodeRecord record = inode->record;
  meta::Batch batch;
  bool keep = true;
  if (name == kAccessAcl || name == kDefaultAcl) {
    ASSIGN_OR_RETURN(const Acl acl, decode_acl(value));
    if (name == kAccessAcl) {
      record.mode = mode_with(record.mode, acl);
      record.change = change_time(clock_, {inode.get()});
      keep = !is_minimal(acl);
    }
  }
  if (keep) {
    TRY(put_into(batch, *inode, record, name, value, mode));
  } else if (const auto removed = remove_in(batch, *inode, record, name);
             !removed && removed.error() != Errc::kNoAttribute) {
    return removed;
  }
  batch.put(key_of(number, Kind::kInode), encode(for_tree(*inode, record)));
  TRY(store_.try_apply(batch));
  inode->record = record;
  return ok();
}

Result<> Xattrs::remove(InodeNo number, std::string_view name) {
  TRY(check_xattr_name(name));
  ASSIGN_OR_RETURN(const InodeRef inode, inodes_.get(number));
  WriterLock lock(inode->mu);
  if (inode->deleted) return fail(Errc::kStale);
  TRY(check_unprotected(inode->record));
  InodeRecord record = inode->record;
  meta::Batch batch;
  const auto removed = remove_in(batch, *inode, record, name);
  const bool is_acl = name == kAccessAcl || name == kDefaultAcl;
  if (!removed && removed.error() == Errc::kNoAttribute && is_acl) return ok();
  TRY(removed);
  batch.put(key_of(number, Kind::kInode), encode(for_tree(*inode, record)));
  TRY(store_.try_apply(batch, meta::Reserve::kDelete));
  inode->record = record;
  return ok();
}

Result<> Xattrs::follow_mode(meta::Batch& batch, const Inode& inode, InodeRecord& record) {
  const auto value = get_locked(inode, kAccessAcl);
  if (!value) return value.error() == Errc::kNoAttribute ? ok() : Result<>(fail(value.error()));
  ASSIGN_OR_RETURN(Acl acl, decode_acl(*value));
  return put_into(batch, inode, record, kAccessAcl,
                  encode(with_mode(std::move(acl), record.mode)), XattrMode::kAny);
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
