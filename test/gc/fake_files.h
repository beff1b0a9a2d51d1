// A filesystem in memory for tests of the collector: implements gc::Port with a map from (owner,
// block) to bands, and the bands' append logs.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "data/appender.h"
#include "data/band_table.h"
#include "gc/port.h"

namespace lazyfs::gc {

// Each append is one record of one owner's consecutive blocks. Not thread-safe.
class FakeFiles final : public Port {
 public:
  FakeFiles(data::BandTable& bands, data::Appender& appender)
      : bands_(bands), appender_(appender), page_(kBlockBytes) {}

  // ---- what users do ----
  void write(InodeNo owner, std::uint64_t block, std::uint32_t blocks,
             data::Stream stream = data::Stream::kSmall) {
    while (blocks > 0) {
      auto lease = appender_.lease(stream, blocks, true);
      ASSERT_TRUE(lease);
      const std::vector<device::Piece> pages(std::min(blocks, lease->room()), page_.span());
      const auto placed = lease->append(pages);
      ASSERT_TRUE(placed);
      map(owner, block, placed->at, placed->blocks());
      lease->recorded(placed->blocks());
      block += placed->blocks();
      blocks -= placed->blocks();
    }
  }
  void remove(InodeNo owner, std::uint64_t block) {
    const auto at = places_.find({owner, block});
    if (at == places_.end()) return;
    bands_.account_death(at->second.band, 1, 1);
    places_.erase(at);
  }
  // The block becomes another owner's where it lies, as when two files begin to share it.
  void give(InodeNo from, std::uint64_t block, InodeNo to) {
    auto given = places_.extract({from, block});
    ASSERT_FALSE(given.empty());
    given.key() = {to, block};
    places_.insert(std::move(given));
  }
  std::size_t mapped() const { return places_.size(); }
  // No two blocks have one place, and each place is an appended block of its band.
  bool is_sound() const {
    std::set<BandAddress> places;
    for (const auto& [block, place] : places_) {
      if (!places.insert(place).second) return false;
      if (place.rba >= bands_.view(place.band).counters.appended) return false;
    }
    return true;
  }

  // ---- what the collector asks ----
  std::function<void()> before_remap = [] {}, before_commit = [] {};  // other threads' work
  std::size_t commits = 0;
  std::set<InodeNo> damaged;  // owners whose blocks cannot be found
  std::map<InodeNo, Errc> remap_errors;
  std::optional<Errc> log_tail_error, erase_log_error;

  Visit visit_live(BandId band, std::uint32_t from_rba, std::size_t at_least) override {
    Visit visit{.runs = {}, .next_rba = from_rba};
    std::size_t blocks = 0;
    for (auto at = logs_[band].lower_bound(from_rba); at != logs_[band].end(); ++at) {
      if (blocks >= at_least) return visit;
      if (damaged.contains(at->second.owner)) visit.is_damaged = true;
      for (LiveRun& run : live_of(band, at->first, at->second)) {
        if (damaged.contains(run.owner)) continue;
        blocks += run.blocks();
        visit.runs.push_back(std::move(run));
      }
      visit.next_rba = at->first + 1;
    }
    visit.is_end = true;
    return visit;
  }
  Result<std::optional<AppendUse>> last_append_before(BandId band, std::uint32_t rba) override {
    auto at = logs_[band].lower_bound(rba);
    if (at == logs_[band].begin()) return std::nullopt;
    --at;
    if (damaged.contains(at->second.owner)) return fail(Errc::kNodeChecksumBad);
    AppendUse use{.rba = at->first};
    for (const LiveRun& run : live_of(band, at->first, at->second)) use.live_blocks += run.blocks();
    return use;
  }
  Result<> remap_if_unchanged(const LiveRun& run, BandAddress to) override {
    const auto work = before_remap;  // it may replace itself
    work();
    const auto error = remap_errors.find(run.owner);
    if (error != remap_errors.end()) return fail(error->second);
    std::uint32_t live = 0;
    for (std::uint32_t i = 0; i < run.blocks(); ++i) {
      const auto at = places_.find({run.owner, run.file_block + i});
      if (at == places_.end() || at->second != BandAddress{run.at.band, run.at.rba + i}) continue;
      bands_.account_death(run.at.band, 1, 1);
      at->second = {to.band, to.rba + i};
      ++live;
    }
    logs_[to.band][to.rba] = {run.owner, run.file_block, run.blocks()};
    bands_.account_append(to.band, run.blocks(), live, 1);
    return ok();
  }
  void record_lost(data::Lease& lease) override {
    const std::uint32_t blocks = lease.unrecorded();
    if (blocks == 0) return;
    bands_.account_append(lease.band(), blocks, 0, 1);
    lease.recorded(blocks);
  }
  Result<> make_durable() override {
    ++commits;
    before_commit();
    return ok();
  }
  bool has_failed() override { return false; }
  Result<> erase_log(BandId band) override {
    if (erase_log_error) return fail(*erase_log_error);
    logs_.erase(band);
    return ok();
  }
  Result<std::optional<LogTail>> log_tail(BandId band, std::uint32_t from_rba,
                                          std::size_t) override {
    if (log_tail_error) return fail(*log_tail_error);
    const std::uint64_t end = bands_.view(band).counters.appended;
    const auto live = std::ranges::count_if(places_, [&](const auto& block) {
      return block.second.band == band && block.second.rba >= from_rba;
    });
    return LogTail{.dead_blocks = end - from_rba - static_cast<std::uint64_t>(live)};
  }
  Result<> erase_log_tail(BandId band, std::uint32_t from_rba, std::uint32_t,
                          const LogTail&) override {
    auto& log = logs_[band];
    log.erase(log.lower_bound(from_rba), log.end());
    return ok();
  }

 private:
  struct Append {
    InodeNo owner;
    std::uint64_t file_block = 0;
    std::uint32_t blocks = 0;
  };

  void map(InodeNo owner, std::uint64_t block, BandAddress at, std::uint32_t blocks) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
      remove(owner, block + i);
      places_[{owner, block + i}] = {at.band, at.rba + i};
    }
    logs_[at.band][at.rba] = {owner, block, blocks};
    bands_.account_append(at.band, blocks, blocks, 1);
  }
  std::vector<LiveRun> live_of(BandId band, std::uint32_t rba, const Append& append) {
    std::vector<LiveRun> runs;
    for (std::uint32_t i = 0; i < append.blocks; ++i) {
      const auto at = places_.find({append.owner, append.file_block + i});
      const BandAddress here{band, rba + i};
      if (at == places_.end() || at->second != here) continue;
      runs.push_back({append.owner, append.file_block + i, here, {crc32c(page_.span())}});
    }
    return runs;
  }

  data::BandTable& bands_;
  data::Appender& appender_;
  AlignedBuffer page_;
  std::map<std::pair<InodeNo, std::uint64_t>, BandAddress> places_;
  std::map<BandId, std::map<std::uint32_t, Append>> logs_;
};

}  // namespace lazyfs::gc
