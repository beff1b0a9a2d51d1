#include "sim/replay.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lazyfs::sim {

Replay::Replay(std::vector<std::unique_ptr<Disk>> disks, const VolumeMap& map,
               const ReplayOptions& options)
    : disks_(std::move(disks)),
      map_(map),
      options_(options),
      queues_(disks_.size(), RequestQueue(options.queue, options.queue_depth)),
      busy_(disks_.size()) {
  CHECK(!disks_.empty());
  CHECK(options.window > 0);
  result_.disk_requests.resize(disks_.size());
}

void Replay::add_piece(std::uint64_t owner, std::uint32_t disk, const Request& piece) {
  const std::uint32_t cylinder =
      piece.op == Op::kFlush ? 0 : disks_[disk]->cylinder_of(piece.sector);
  queues_[disk].push({piece, cylinder, owner});
  ++issued_[owner].pieces;
  touched_.push_back(disk);
}

void Replay::issue(double now_ms, const Request& request) {
  std::uint64_t slot = issued_.size();
  if (free_slots_.empty()) {
    issued_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  issued_[slot] = {request, now_ms, 0};
  ++outstanding_;
  if (request.op == Op::kFlush) {
    for (std::uint32_t disk = 0; disk < disks_.size(); ++disk) add_piece(slot, disk, request);
    return;
  }
  map_.pieces(request.sector, request.sectors,
              [&](std::uint32_t disk, std::uint64_t sector, std::uint32_t sectors) {
                Request piece = request;
                piece.sector = sector;
                piece.sectors = sectors;
                add_piece(slot, disk, piece);
              });
  CHECK(issued_[slot].pieces > 0);  // or the request would never be complete (R3)
}

void Replay::start(double now_ms, std::uint32_t disk) {
  const Queued next = queues_[disk].take(disks_[disk]->cylinder());
  busy_[disk] = true;
  ++result_.disk_requests[disk];
  const double end_ms = disks_[disk]->serve(now_ms, next.request);
  events_.push_back({end_ms, disk, next.owner});
  std::ranges::push_heap(events_, std::greater());
}

void Replay::start_idle_disks(double now_ms) {
  for (const std::uint32_t disk : touched_) {
    if (!busy_[disk] && !queues_[disk].empty()) start(now_ms, disk);
  }
  touched_.clear();
}

void Replay::count(double now_ms, const Request& request) {
  if (request.op == Op::kFlush) ++result_.flushes;
  if (request.op == Op::kDiscard) ++result_.discards;
  if (request.op != Op::kRead && request.op != Op::kWrite) return;
  const bool is_write = request.op == Op::kWrite;
  Traffic& traffic = result_.traffic[static_cast<std::size_t>(request.kind)][is_write ? 1 : 0];
  ++traffic.requests;
  traffic.bytes += request.bytes();
  bytes_ += request.bytes();
  if (!options_.with_series) return;
  const auto second = static_cast<std::size_t>(now_ms / 1000);
  if (second >= result_.series.size()) result_.series.resize(second + 1);
  result_.series[second][is_write ? 1 : 0] += request.bytes();
}

void Replay::keep_point(double now_ms, const Request& request) {
  if (options_.points == 0 || completed_ % point_every_ != 0) return;
  std::vector<Point>& points = result_.points;
  points.push_back({now_ms / 1000, request});
  if (points.size() < 2 * options_.points) return;
  // Twice as many as wanted: every other one remains, and from now on half as many are kept.
  for (std::size_t i = 0; i < options_.points; ++i) points[i] = points[2 * i + 1];
  points.resize(options_.points);
  point_every_ *= 2;
}

void Replay::complete(double now_ms, const Issued& issued) {
  count(now_ms, issued.request);
  const double took_ms = now_ms - issued.start_ms;
  if (issued.request.op == Op::kRead) {
    result_.read_latency.add(took_ms);
    if (options_.keeps_reads) result_.read_times_ms.push_back(took_ms);
  }
  if (issued.request.op == Op::kWrite) result_.write_latency.add(took_ms);
  if (issued.request.op != Op::kFlush) {
    result_.latency.add(took_ms);
    ++completed_;
    keep_point(now_ms, issued.request);
  }
  last_end_ms_ = now_ms;
  if (options_.every && issued.request.op != Op::kFlush && completed_ % options_.every == 0) {
    result_.progress.push_back({completed_, now_ms / 1000, bytes_});
  }
}

bool Replay::may_issue(const std::optional<Request>& next, double* at_ms) const {
  if (!next) return false;
  *at_ms = now_ms_;
  if (options_.is_paced) {
    *at_ms = std::max(now_ms_, next->time_us / 1000);
  } else if (outstanding_ >= options_.window) {
    return false;
  } else if (options_.is_thinking) {
    *at_ms = now_ms_ + next->time_us / 1000;
  }
  return events_.empty() || *at_ms <= events_.front().time_ms;
}

ReplayResult Replay::run(const Source& next) {
  std::optional<Request> request = next();
  while (request || !events_.empty()) {
    if (double at_ms = 0; may_issue(request, &at_ms)) {
      now_ms_ = at_ms;
      issue(now_ms_, *request);
      start_idle_disks(now_ms_);
      request = next();
      continue;
    }
    const Event event = events_.front();
    std::ranges::pop_heap(events_, std::greater());
    events_.pop_back();
    now_ms_ = event.time_ms;
    busy_[event.disk] = false;
    if (!queues_[event.disk].empty()) start(now_ms_, event.disk);
    Issued& issued = issued_[event.owner];
    if (--issued.pieces > 0) continue;
    complete(now_ms_, issued);
    --outstanding_;
    free_slots_.push_back(event.owner);
  }
  settle();
  return std::move(result_);
}

void Replay::settle() {
  result_.seconds = last_end_ms_ / 1000;
  double settled_ms = last_end_ms_;
  for (const auto& disk : disks_) {
    result_.disks.push_back(disk->counters());
    settled_ms = std::max(settled_ms, disk->settle(last_end_ms_));
    result_.disks_at_end.push_back(disk->counters());
  }
  result_.cleaning_seconds = (settled_ms - last_end_ms_) / 1000;
}

}  // namespace lazyfs::sim
