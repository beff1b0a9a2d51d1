#include "fuse/requests/listing_advice.h"

#include <algorithm>

namespace lazyfs::fuse {

ListingAdvice::Attributes ListingAdvice::begin_reply(InodeNo directory, bool from_start) {
  MutexLock lock(mu_);
  Listing* const listing = find(directory);
  if (listing == nullptr) return Attributes::kAll;
  if (from_start) set(*listing, 0);
  if (listing->entries < kBeforeSamples) return Attributes::kAll;
  return listing->entries < kBeforeNames ? Attributes::kMost : Attributes::kNone;
}

void ListingAdvice::add(InodeNo directory, std::uint64_t entries) {
  MutexLock lock(mu_);
  Listing& listing = find_or_replace(directory);
  listing.used = ++turn_;
  set(listing, listing.entries + entries);
}

void ListingAdvice::restart(InodeNo directory) {
  MutexLock lock(mu_);
  if (Listing* const listing = find(directory)) set(*listing, 0);
}

ListingAdvice::Listing* ListingAdvice::find(InodeNo directory) {
  const auto found = std::ranges::find(listings_, directory, &Listing::directory);
  return found == listings_.end() ? nullptr : &*found;
}

ListingAdvice::Listing& ListingAdvice::find_or_replace(InodeNo directory) {
  if (Listing* const listing = find(directory)) return *listing;
  Listing& oldest = *std::ranges::min_element(listings_, {}, &Listing::used);
  set(oldest, 0);
  oldest.directory = directory;
  return oldest;
}

void ListingAdvice::set(Listing& listing, std::uint64_t entries) {
  const bool was_long = listing.entries >= kBeforeSamples, is_long = entries >= kBeforeSamples;
  listing.entries = entries;
  if (is_long && !was_long) long_listings_.fetch_add(1, std::memory_order_relaxed);
  if (was_long && !is_long) long_listings_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lazyfs::fuse
