// One request to a simulated disk. Addresses and lengths are in sectors of 512 bytes, times in
// milliseconds since the simulation began, unless a name says otherwise.
#pragma once

#include <cstdint>

namespace lazyfs::sim {

inline constexpr std::uint32_t kSectorBytes = 512;
inline constexpr double kMebibyte = 1024.0 * 1024;

enum class Op : char { kRead = 'R', kWrite = 'W', kFlush = 'F', kDiscard = 'D' };

// What a request is for, as far as its trace says.
enum class RequestClass : std::uint8_t { kData, kMetadata, kJournal };
inline constexpr std::size_t kRequestClasses = 3;

struct Request {
  double time_us = 0;  // when the host issued the request, since the trace began
  std::uint64_t sector = 0;
  std::uint32_t sectors = 0;  // 0 of a flush
  Op op = Op::kRead;
  RequestClass kind = RequestClass::kData;
  std::uint64_t end() const { return sector + sectors; }
  std::uint64_t bytes() const { return std::uint64_t{sectors} * kSectorBytes; }
};

constexpr const char* to_string(RequestClass kind) {
  switch (kind) {
    case RequestClass::kData: return "data";
    case RequestClass::kMetadata: return "metadata";
    case RequestClass::kJournal: return "journal";
  }
  return "unknown";
}

}  // namespace lazyfs::sim
