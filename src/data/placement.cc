#include "data/placement.h"

#include <tuple>

namespace lazyfs::data {
namespace {

// The candidate with the smallest rank. A rank ends in the band number, so no two are equal.
template <class Rank>
std::size_t least(std::span<const Candidate> candidates, Rank rank) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (rank(candidates[i]) < rank(candidates[best])) best = i;
  }
  return best;
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

}  // namespace

std::string_view name_of(Placement policy) {
  switch (policy) {
    case Placement::kFirstFit: return "first";
    case Placement::kBestFit: return "best";
    case Placement::kAgeFit: return "age";
    case Placement::kRandom: return "random";
  }
  return "unknown";
}

std::optional<std::size_t> place(Placement policy, std::span<const Candidate> candidates,
                                 const PlacementRequest& request) {
  if (candidates.empty()) return std::nullopt;
  switch (policy) {
    case Placement::kFirstFit: return least(candidates, [](const Candidate& c) { return c.band; });
    case Placement::kBestFit:
      return least(candidates, [&](const Candidate& c) {
        const bool fits = c.room_blocks >= request.blocks;
        const std::uint64_t waste =
            fits ? c.room_blocks - request.blocks : request.blocks - c.room_blocks;
        return std::tuple(!fits, waste, c.band);
      });
    case Placement::kAgeFit:
      return least(candidates, [&](const Candidate& c) {
        return std::tuple(distance(c.age, request.age), c.band);
      });
    case Placement::kRandom: return request.random % candidates.size();
  }
  return std::nullopt;
}

}  // namespace lazyfs::data
