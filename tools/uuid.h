// UUIDs as people type and read them, new UUIDs, and a volume's random seed of name hashes.
#pragma once

#include <sys/random.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"
#include "meta/log/superblock.h"

namespace lazyfs {

inline constexpr std::string_view kUuidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

inline std::string uuid_text(const meta::Uuid& uuid) {
  std::string text;
  for (const std::uint8_t byte : uuid) {
    if (text.size() < kUuidForm.size() && kUuidForm[text.size()] == '-') text += '-';
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", unsigned{byte});
    text += hex;
  }
  return text;
}

// Error: kInvalid for anything but 32 hexadecimal digits in groups as kUuidForm has them.
inline Result<meta::Uuid> parse_uuid(std::string_view text) {
  if (text.size() != kUuidForm.size()) return fail(Errc::kInvalid);
  meta::Uuid uuid{};
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kUuidForm[i] == '-') {
      if (text[i] != '-') return fail(Errc::kInvalid);
      continue;
    }
    const auto digit = std::string_view("0123456789abcdef").find(text[i] | 0x20);
    if (digit == std::string_view::npos) return fail(Errc::kInvalid);
    uuid[digits / 2] = static_cast<std::uint8_t>(std::size_t{uuid[digits / 2]} << 4 | digit);
    ++digits;
  }
  return uuid;
}

// A random one (RFC 4122, version 4). Error: kDeviceRead when the kernel gives no random bytes.
inline Result<meta::Uuid> new_uuid() {
  meta::Uuid uuid{};
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return fail(Errc::kDeviceRead);
  }
  uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0F) | 0x40);
  uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

// For mkfs::Options::name_seed. Error: as of new_uuid().
inline Result<std::uint64_t> new_name_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    return fail(Errc::kDeviceRead);
  }
  return seed;
}

}  // namespace lazyfs
