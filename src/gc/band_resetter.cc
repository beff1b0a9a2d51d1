#include "gc/band_resetter.h"

#include <algorithm>
#include <new>

#include "base/log.h"

namespace lazyfs::gc {

Result<std::vector<BandId>> BandResetter::reset_empty_bands() {
  const std::vector<BandId> empty = bands_.empty_bands();
  std::vector<BandId> done;
  if (empty.empty()) return done;
  done.reserve(empty.size());
  // Sealed before the commit, so that writers may begin other bands in their place meanwhile.
  for (const BandId band : empty) device_.seal(band);
  TRY(port_.make_durable());
  for (const BandId band : empty) {
    if (!bands_.begin_reset(band)) continue;  // a reader has pinned it now
    ignore_error(reset(band), "logged, and the band is set aside");
    done.push_back(band);
  }
  return done;
}

Result<std::size_t> BandResetter::reset_failed_bands() {
  std::vector<BandId> empty;
  for (const data::BandView& band : bands_.bad_bands()) {
    if (band.counters.live == 0 && !band.is_given_up) empty.push_back(band.band);
  }
  const auto is_emptied = [this](BandId band) { return emptied_.contains(band); };
  if (!std::ranges::all_of(empty, is_emptied)) TRY(port_.make_durable());  // rule 2
  std::size_t count = 0;
  for (const BandId band : empty) {
    if (!bands_.begin_retry(band)) continue;
    const auto done = reset(band);
    if (done) {
      log::info("band {}: reset after it failed, to be tried again", band.value);
      ++count;
    } else if (done.error() == Errc::kLogFull) {  // the others' logs could not be erased either
      if (count == 0) return fail(done.error());
      break;
    }
  }
  return count;
}

// The two steps of reset(), which must end what was begun: they do not throw std::bad_alloc.
Result<> BandResetter::reset_on_device(BandId band) try {
  const bool is_conventional =
      device_.geometry().band_kinds[band.value] == device::BandKind::kConventional;
  if (is_conventional || emptied_.contains(band)) return ok();
  TRY(device_.reset(band));
  emptied_.insert(band);
  return ok();
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> BandResetter::erase_log(BandId band) try {
  return port_.erase_log(band);
} catch (const std::bad_alloc&) {
  return fail(Errc::kNoMemory);
}

Result<> BandResetter::reset(BandId band) {
  const Result<> emptied = reset_on_device(band);
  const Result<> done = emptied ? erase_log(band) : emptied;
  if (done) {
    emptied_.erase(band);
    tail_cleaner_.forget_damaged(band);
    ++counters_.bands_reset;
  } else {
    log::error("band {}: cannot be reset: {}", band.value, describe(done.error()));
  }
  // A full log, or a lack of memory, is not the band's fault: it is tried again.
  const bool is_blameless =
      !done && (done.error() == Errc::kLogFull || done.error() == Errc::kNoMemory);
  const data::Blame blame = is_blameless ? data::Blame::kNone
                            : !emptied   ? data::blame_for(emptied.error())
                                          : data::Blame::kBand;
  bands_.finish_reset(band, done.has_value(), blame);
  mover_.forget_unreadable(band);
  return done;
}

}  // namespace lazyfs::gc
