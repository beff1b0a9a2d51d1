#include "data/appender.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"

namespace lazyfs::data {
namespace {

constexpr std::uint32_t kDefaultMaxOpen = 8;
// Two super bands, the head of the metadata log, and the cold band that is being filled.
constexpr std::uint32_t kOpenForMetadata = 4;
constexpr std::uint32_t kMinMaxOpen = 2;  // one for users, one for the collector
static_assert(kMinOpenBands == kOpenForMetadata + kMinMaxOpen);

std::uint32_t max_open_of(const device::Device& device) {
  const std::uint32_t limit = device.capabilities().max_open_bands;
  if (limit == 0) return kDefaultMaxOpen;
  return std::clamp(limit - std::min(limit, kOpenForMetadata), kMinMaxOpen, kDefaultMaxOpen);
}

}  // namespace

// ---- Lease --------------------------------------------------------------------------------------

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(appender_, other.appender_);
  std::swap(band_, other.band_);
  std::swap(next_, other.next_);
  std::swap(blocks_, other.blocks_);
  std::swap(unrecorded_, other.unrecorded_);
  std::swap(failed_, other.failed_);
  std::swap(blame_, other.blame_);
  return *this;
}

Lease::~Lease() {
  if (!appender_) return;
  appender_->end(band_, next_ == blocks_, failed_ || unrecorded_ > 0, blame_);
}

Result<> Lease::reset() {
  const auto done = appender_->device_.reset(band_);
  if (done) return done;
  failed_ = true;
  blame_ = blame_for(done.error());
  log::error("band {}: cannot be reset: {}; the band is set aside", band_.value,
             describe(done.error()));
  return done;
}

Result<Placed> Lease::append(std::span<const device::Piece> pages) {
  CHECK(room() > 0 && !pages.empty() && !failed_);
  pages = pages.first(std::min<std::size_t>(pages.size(), room()));
  Placed placed{{band_, next_}, {}};
  placed.crcs.reserve(pages.size());
  for (const device::Piece& page : pages) {
    CHECK(page.size() == kBlockBytes);
    placed.crcs.push_back(crc32c(page));
  }
  const auto done = appender_->device_.append(placed.at, pages);
  if (!done) {
    failed_ = true;
    blame_ = blame_for(done.error());
    log::error("band {}: append of {} blocks at {} failed: {}; the band is set aside", band_.value,
               pages.size(), next_, describe(done.error()));
    return fail(done.error());
  }
  next_ += placed.blocks();
  unrecorded_ += placed.blocks();
  return placed;
}

// ---- Appender -----------------------------------------------------------------------------------

Appender::Appender(device::Device& device, BandTable& bands, Placement policy,
                   std::function<std::uint64_t()> random)
    : device_(device),
      bands_(bands),
      policy_(policy),
      random_(std::move(random)),
      max_open_(max_open_of(device)),
      keeps_write_pointers_(device.capabilities().keeps_write_pointers) {}

void Appender::seal_surplus() {
  if (device_.capabilities().max_open_bands == 0) return;
  for (const BandId band : bands_.seal_all_but(max_open_ - 1)) device_.seal(band);
}

std::optional<BandId> Appender::pick(const OpenChoice& choice,
                                     std::uint64_t want_blocks) const {
  std::vector<Candidate> candidates;
  candidates.reserve(choice.open.size());
  std::uint64_t newest = 0;
  for (const BandView& band : choice.open) newest = std::max(newest, band.last_append);
  for (const BandView& band : choice.open) {
    candidates.push_back({band.band, static_cast<std::uint32_t>(room_in(band)),
                          newest - band.last_append});
  }
  const PlacementRequest request{.blocks = want_blocks, .age = 0, .random = random_()};
  const auto index = place(policy(), candidates, request);
  return index ? candidates[*index].band : choice.free;
}

// Where the device keeps no write pointers, a free band's end is unknown until it is reset.
Result<Lease> Appender::lease(Stream stream, std::uint64_t want_blocks, bool anywhere) {
  for (;;) {  // a band that cannot be reset is set aside
    ASSIGN_OR_RETURN(Lease taken, take(stream, want_blocks, anywhere));
    if (keeps_write_pointers_ || !taken.is_at_start()) return taken;
    ASSIGN_OR_RETURN(const std::uint32_t end, device_.write_pointer(taken.band()));
    const bool has_pointer = device_.geometry().band_kinds[taken.band().value] ==
                             device::BandKind::kShingled;
    if (end == 0 || !has_pointer || taken.reset()) return taken;
  }
}

Result<Lease> Appender::take(Stream stream, std::uint64_t want_blocks, bool anywhere) {
  MutexLock lock(mu_);
  for (;;) {
    const BandId free_from{policy() == Placement::kRandom
                               ? static_cast<std::uint32_t>(random_() % bands_.band_count())
                               : 0};
    const OpenChoice choice = bands_.choices(stream, max_open_, free_from, anywhere);
    const std::optional<BandId> band = pick(choice, want_blocks);
    if (band && bands_.lease(*band, stream)) {
      const BandView view = bands_.view(*band);
      return Lease(this, *band, static_cast<std::uint32_t>(view.counters.appended), view.blocks);
    }
    if (band) continue;  // meanwhile the log has taken it, or the collector has sealed it
    if (!choice.own_leased || is_collectors(stream)) return fail(Errc::kNoSpace);
    lease_ended_.wait(mu_);
  }
}

void Appender::end(BandId band, bool sealed, bool bad, Blame blame) {
  MutexLock lock(mu_);
  bands_.end_lease(band, sealed, bad, blame);
  if (bad) seal(band);
  lease_ended_.notify_all();
}

// Without memory for it the band stays open for the device.
void Appender::seal(BandId band) try {
  device_.seal(band);
} catch (const std::bad_alloc&) {
  log::error("band {}: is set aside, but not sealed: {}", band.value, describe(Errc::kNoMemory));
}

}  // namespace lazyfs::data
