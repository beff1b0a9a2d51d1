#include "data/band_choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/space_account.h"

namespace lazyfs::data {
namespace {

// Free bands of any length that the stream leaves to others; what users leave, free_for() counts in
// blocks. `may_share`: another stream of the same class has an open band with room.
std::size_t bands_to_keep(Stream stream, bool may_share) {
  if (!is_collectors(stream)) return 0;
  return stream == Stream::kCollector && !may_share ? 0 : 1;
}

// The free bands of the length that suits the stream; nullptr if a user's stream must leave them to
// others. REQUIRES: a band is free.
const BandList::Numbers* free_for(Stream stream, const BandList& bands) {
  const auto& by_blocks = bands.free_by_blocks();
  const auto& [shortest, longest] = std::pair(by_blocks.begin(), std::prev(by_blocks.end()));
  if (is_collectors(stream)) return &longest->second;
  const auto may_begin = [&bands](std::uint32_t band_blocks) {
    return bands.blocks().free >= SpaceAccount::kept_from_users(bands) + band_blocks;
  };
  const bool are_long_left = longest->second.size() > SpaceAccount::kReserveBands;
  if (stream == Stream::kLarge && are_long_left && may_begin(longest->first)) {
    return &longest->second;
  }
  return may_begin(shortest->first) ? &shortest->second : nullptr;
}

}  // namespace

OpenChoice choose_open(const BandList& bands, const OpenRequest& request) {
  OpenChoice choice;
  std::vector<BandView> of_others;
  std::uint32_t open = 0, alike = 0;  // bands that count
  bool is_alike_leased = false;
  const auto is_alike = [&](Stream stream) {
    return is_collectors(stream) == is_collectors(request.stream);
  };
  for (const std::uint32_t i : bands.open()) {
    const Band& band = bands[BandId{i}];
    const bool is_own = band.stream == request.stream;
    open += band.is_conventional ? 0 : 1;
    alike += !band.is_conventional && is_alike(band.stream) ? 1 : 0;
    if (band.leased) {
      choice.own_leased |= is_own;
      is_alike_leased |= is_alike(band.stream);
    } else {
      (is_own ? choice.open : of_others).push_back(bands.view(BandId{i}));
    }
  }
  // The last band that may be open is kept for the other class while that class has none.
  const bool is_last_kept = open == alike && open > 0;
  const bool may_open = open + (is_last_kept ? 1 : 0) < request.max_open;
  const auto offer_free = [&](std::size_t keep) {
    if (!may_open || bands.free().size() <= keep) return;
    const BandList::Numbers* suitable = free_for(request.stream, bands);
    if (!suitable) return;
    const auto at = suitable->lower_bound(request.free_from.value);
    choice.free = BandId{at == suitable->end() ? *suitable->begin() : *at};
  };
  const auto is_other_class = [&](const BandView& other) { return !is_alike(other.stream); };
  const bool may_share = !std::ranges::all_of(of_others, is_other_class);
  offer_free(bands_to_keep(request.stream, may_share));
  const bool may_mix = request.anywhere || is_collectors(request.stream) || !may_open;
  if (!choice.open.empty() || choice.free || choice.own_leased || !may_mix) return choice;

  if (may_share) {
    std::erase_if(of_others, is_other_class);
  } else if (!may_open && is_alike_leased && !is_collectors(request.stream)) {
    choice.own_leased = true;
    return choice;
  }
  choice.open = std::move(of_others);
  // The collector's older streams begin the last free band only if no open band remains.
  if (choice.open.empty() && is_collectors(request.stream)) offer_free(0);
  return choice;
}

std::optional<BandId> choose_for_log(const BandList& bands, std::uint32_t min_blocks) {
  const BandList::Numbers& free = bands.free();
  // The room to clean any band remains.
  const auto serves = [&, kept = bands.largest_blocks()](std::uint32_t i) {
    const Band& band = bands[BandId{i}];
    return !band.is_conventional && band.blocks >= min_blocks &&
           bands.blocks().free >= std::uint64_t{band.blocks} + kept;
  };
  const std::uint32_t centre = bands.count() / 2;
  const auto from = free.lower_bound(centre);
  const auto above = std::find_if(from, free.end(), serves);
  const auto below = std::find_if(std::make_reverse_iterator(from), free.rend(), serves);
  if (above == free.end() && below == free.rend()) return std::nullopt;
  const bool is_lower =
      below != free.rend() && (above == free.end() || centre - *below <= *above - centre);
  return BandId{is_lower ? *below : *above};
}

}  // namespace lazyfs::data
