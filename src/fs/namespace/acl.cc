#include "fs/namespace/acl.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>

#include "base/endian.h"

namespace lazyfs::fs {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kHeaderBytes = 4, kEntryBytes = 8;
constexpr std::uint32_t kRwx = 7;

// By how many bits the mode's copy of the entry is shifted; nothing when the mode has none.
std::optional<unsigned> shift_of(AclTag tag, bool has_mask) {
  switch (tag) {
    case AclTag::kUserObject: return 6;
    case AclTag::kMask: return 3;
    case AclTag::kGroupObject: return has_mask ? std::nullopt : std::optional<unsigned>(3);
    case AclTag::kOther: return 0;
    case AclTag::kUser:
    case AclTag::kGroup: return std::nullopt;
  }
  return std::nullopt;
}

std::ptrdiff_t count(const Acl& acl, AclTag tag) {
  return std::ranges::count(acl, tag, &AclEntry::tag);
}

bool has_mask(const Acl& acl) { return count(acl, AclTag::kMask) > 0; }

bool is_valid(const Acl& acl) {
  const bool has_names = count(acl, AclTag::kUser) + count(acl, AclTag::kGroup) > 0;
  const std::ptrdiff_t masks = count(acl, AclTag::kMask);
  return count(acl, AclTag::kUserObject) == 1 && count(acl, AclTag::kGroupObject) == 1 &&
         count(acl, AclTag::kOther) == 1 && masks <= 1 && (masks == 1 || !has_names);
}

}  // namespace

Result<Acl> decode_acl(std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  if (bytes.size() < kHeaderBytes || (bytes.size() - kHeaderBytes) % kEntryBytes != 0 ||
      load_le_at<std::uint32_t>(bytes, 0) != kVersion) {
    return fail(Errc::kInvalid);
  }
  Acl acl;
  for (std::size_t at = kHeaderBytes; at < bytes.size(); at += kEntryBytes) {
    const std::uint16_t tag = load_le_at<std::uint16_t>(bytes, at);
    const std::uint16_t permissions = load_le_at<std::uint16_t>(bytes, at + 2);
    if (!std::has_single_bit(tag) || tag > static_cast<std::uint16_t>(AclTag::kOther) ||
        permissions > kRwx) {
      return fail(Errc::kInvalid);
    }
    acl.push_back(
        {static_cast<AclTag>(tag), permissions, load_le_at<std::uint32_t>(bytes, at + 4)});
  }
  if (!is_valid(acl)) return fail(Errc::kInvalid);
  return acl;
}

std::string encode(const Acl& acl) {
  std::string text(kHeaderBytes + acl.size() * kEntryBytes, '\0');
  const std::span<std::byte> to = std::as_writable_bytes(std::span(text));
  store_le_at(to, 0, kVersion);
  std::size_t at = kHeaderBytes;
  for (const AclEntry& entry : acl) {
    store_le_at(to, at, static_cast<std::uint16_t>(entry.tag));
    store_le_at(to, at + 2, entry.permissions);
    store_le_at(to, at + 4, entry.id);
    at += kEntryBytes;
  }
  return text;
}

bool is_minimal(const Acl& acl) { return acl.size() == 3; }

std::uint32_t mode_with(std::uint32_t mode, const Acl& acl) {
  const bool masked = has_mask(acl);
  for (const AclEntry& entry : acl) {
    const auto shift = shift_of(entry.tag, masked);
    if (shift) mode = (mode & ~(kRwx << *shift)) | (std::uint32_t{entry.permissions} << *shift);
  }
  return mode;
}

Acl with_mode(Acl acl, std::uint32_t mode) {
  const bool masked = has_mask(acl);
  for (AclEntry& entry : acl) {
    const auto shift = shift_of(entry.tag, masked);
    if (shift) entry.permissions = static_cast<std::uint16_t>((mode >> *shift) & kRwx);
  }
  return acl;
}

Acl inherited_acl(Acl inherited, std::uint32_t mode) {
  const bool masked = has_mask(inherited);
  for (AclEntry& entry : inherited) {
    const auto shift = shift_of(entry.tag, masked);
    if (shift) entry.permissions &= static_cast<std::uint16_t>((mode >> *shift) & kRwx);
  }
  return inherited;
}

}  // namespace lazyfs::fs
