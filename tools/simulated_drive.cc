#include "tools/simulated_drive.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/trace_format.h"

namespace lazyfs {
namespace {

double monotonic_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void sleep_until_ms(double monotonic) {
  timespec until{};
  until.tv_sec = static_cast<time_t>(monotonic / 1e3);
  until.tv_nsec = static_cast<long>((monotonic - static_cast<double>(until.tv_sec) * 1e3) * 1e6);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace

std::expected<std::unique_ptr<SimulatedDrive>, std::string> SimulatedDrive::open(
    const DriveOptions& given) {
  const auto model = sim::choose_model(given.model);
  if (!model) return std::unexpected(given.model + ": no such model; `smrsim disks` lists them");
  auto disk = model->make();
  const std::uint64_t capacity = disk->sectors() * sim::kSectorBytes;
  DriveOptions options = given;
  if (options.size_bytes == 0) options.size_bytes = capacity;
  if (options.size_bytes > capacity) return std::unexpected("--size: the model is smaller");
  if (options.size_bytes % sim::kSectorBytes != 0) {
    return std::unexpected("--size: not a number of whole sectors");
  }
  auto contents = DriveContents::open(options.backing, options.size_bytes, options.forgets_data);
  if (!contents) return std::unexpected(contents.error());
  std::FILE* record = nullptr;
  if (!options.record.empty()) {
    record = std::fopen(options.record.c_str(), "we");
    if (!record) return std::unexpected(options.record + ": cannot be written");
    std::fprintf(record, "%s\n", std::string(sim::kTraceHeader).c_str());
  }
  return std::unique_ptr<SimulatedDrive>(
      new SimulatedDrive(options, std::move(disk), std::move(*contents), record));
}

SimulatedDrive::SimulatedDrive(const DriveOptions& options, std::unique_ptr<sim::Disk> disk,
                               std::unique_ptr<DriveContents> contents, std::FILE* record)
    : options_(options),
      disk_(std::move(disk)),
      contents_(std::move(contents)),
      record_(record),
      size_bytes_(options.size_bytes),
      begin_ms_(monotonic_ms()) {}

SimulatedDrive::~SimulatedDrive() {
  if (record_) std::fclose(record_);
}

double SimulatedDrive::now_ms() const {
  return options_.is_realtime ? std::max(end_ms_, monotonic_ms() - begin_ms_) : end_ms_;
}

void SimulatedDrive::write_record(double start_ms, const sim::Request& request) {
  if (!record_) return;
  sim::Request timed = request;
  timed.time_us = start_ms * 1000;
  std::fprintf(record_, "%s\n", sim::trace_line(timed).c_str());
}

int SimulatedDrive::serve(sim::Op op, std::uint64_t offset, std::uint64_t length) {
  if (offset > size_bytes_ || length > size_bytes_ - offset) return -EINVAL;
  if (length == 0 && op != sim::Op::kFlush) return 0;
  sim::Request request;
  request.op = op;
  std::uint64_t sector = offset / sim::kSectorBytes;
  const std::uint64_t end = (offset + length + sim::kSectorBytes - 1) / sim::kSectorBytes;
  const std::uint64_t refused = disk_->counters().refused;
  const double start_ms = now_ms();
  end_ms_ = start_ms;
  do {  // once, but for ranges that one request cannot describe
    constexpr std::uint64_t kSectorsMax = 1u << 30;
    request.sector = op == sim::Op::kFlush ? 0 : sector;
    request.sectors = static_cast<std::uint32_t>(
        op == sim::Op::kFlush ? 0 : std::min(end - sector, kSectorsMax));
    write_record(end_ms_, request);
    end_ms_ = disk_->serve(end_ms_, request);
    sector += request.sectors;
  } while (sector < end && op != sim::Op::kFlush);
  latency_.add(end_ms_ - start_ms);
  if (options_.is_realtime) sleep_until_ms(begin_ms_ + end_ms_);
  return disk_->counters().refused > refused ? -EIO : 0;
}

int SimulatedDrive::read(std::uint64_t offset, std::span<std::byte> to) {
  if (const int status = serve(sim::Op::kRead, offset, to.size()); status != 0) return status;
  read_bytes_ += to.size();
  return contents_->read(offset, to);
}

int SimulatedDrive::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const int status = serve(sim::Op::kWrite, offset, bytes.size());
  if (status != 0) return status;
  written_bytes_ += bytes.size();
  return contents_->write(offset, bytes);
}

int SimulatedDrive::flush() {
  ++flushes_;
  return serve(sim::Op::kFlush, 0, 0);
}

int SimulatedDrive::discard(std::uint64_t offset, std::uint64_t length) {
  const int status = serve(sim::Op::kDiscard, offset, length);
  return status != 0 ? status : contents_->punch(offset, length);
}

int SimulatedDrive::write_zeros(std::uint64_t offset, std::uint64_t length) {
  const int status = serve(sim::Op::kWrite, offset, length);
  if (status != 0) return status;
  written_bytes_ += length;
  return contents_->punch(offset, length);
}

Json SimulatedDrive::report() {
  const sim::DiskCounters counters = disk_->counters();
  Json report = Json::object({{"model", options_.model},
                              {"size_bytes", size_bytes_},
                              {"realtime", options_.is_realtime},
                              {"seconds", end_ms_ / 1000},
                              {"cleaning_seconds", 0.0},
                              {"requests", latency_.count()},
                              {"read_bytes", read_bytes_},
                              {"written_bytes", written_bytes_},
                              {"flushes", flushes_},
                              {"seeks", counters.seeks.seeks},
                              {"band_rewrites", counters.band_rewrites},
                              {"cached_bytes", counters.cached_bytes},
                              {"streamed_bytes", counters.streamed_bytes},
                              {"cache_fill", counters.cache_fill},
                              {"refused_writes", counters.refused},
                              {"latency_ms", Json::object({{"mean", latency_.mean_ms()},
                                                           {"p50", latency_.percentile_ms(0.5)},
                                                           {"p99", latency_.percentile_ms(0.99)},
                                                           {"max", latency_.max_ms()}})}});
  const double settled_ms = disk_->settle(end_ms_);
  report["cleaning_seconds"] = (settled_ms - end_ms_) / 1000;
  end_ms_ = settled_ms;
  return report;
}

}  // namespace lazyfs
