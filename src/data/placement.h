// Which open band takes data: pure policies over values (thesis, section 6.1).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/types.h"

namespace lazyfs::data {

enum class Placement : std::uint8_t {
  kFirstFit,  // the lowest band with room
  kBestFit,   // the band whose room is the smallest that holds the request; else the largest room
  kAgeFit,    // the band whose data is nearest in age to the request's
  kRandom,    // any (is "smart" placement worth its trouble? HotOS'05)
};

std::string_view name_of(Placement policy);  // its name as a mount option

struct Candidate {
  BandId band;
  std::uint32_t room_blocks = 0;  // > 0
  std::uint64_t age = 0;          // time since the band's newest append, any unit
};

struct PlacementRequest {
  std::uint64_t blocks = 0;
  std::uint64_t age = 0;     // age of the data, in the candidates' unit
  std::uint64_t random = 0;  // for kRandom
};

// The index of the candidate to take, or nullopt when there is none. Files span bands: a candidate
// need not hold the whole request. Ties go to the lower band.
std::optional<std::size_t> place(Placement policy, std::span<const Candidate> candidates,
                                 const PlacementRequest& request);

}  // namespace lazyfs::data
