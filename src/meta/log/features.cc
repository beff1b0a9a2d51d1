#include "meta/log/features.h"

#include <fmt/core.h>

#include <bit>
#include <string_view>

namespace lazyfs::meta {
namespace {

// "bits 0 and 5"
std::string bits_of(std::uint32_t word) {
  std::string text;
  unsigned left = static_cast<unsigned>(std::popcount(word));
  text = left == 1 ? "bit" : "bits";
  for (unsigned bit = 0; bit < 32; ++bit) {
    if ((word >> bit & 1) == 0) continue;
    text += fmt::format(" {}", bit);
    --left;
    if (left > 0) text += left == 1 ? " and" : ",";
  }
  return text;
}

}  // namespace

Result<> check_features(const Features& features, bool read_only) {
  if ((features.incompat & ~kKnownFeatures.incompat) != 0) return fail(Errc::kFeatureUnknown);
  if (!read_only && (features.ro_compat & ~kKnownFeatures.ro_compat) != 0) {
    return fail(Errc::kFeatureReadOnly);
  }
  return ok();
}

std::string explain(device::Device& device, Errc error) {
  const std::string text(describe(error));
  if (error != Errc::kFeatureUnknown && error != Errc::kFeatureReadOnly) return text;
  const auto superblock = read_superblock(device);
  if (!superblock) return text;
  const bool refused = error == Errc::kFeatureUnknown;
  const Features& features = superblock->features;
  const std::uint32_t unknown = refused ? features.incompat & ~kKnownFeatures.incompat
                                        : features.ro_compat & ~kKnownFeatures.ro_compat;
  const std::string_view word = refused ? "incompatible" : "read-only compatible";
  return fmt::format("{} ({} features: {})", text, word, bits_of(unknown));
}

}  // namespace lazyfs::meta
