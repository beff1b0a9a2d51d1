#include "crash/parallel_run.h"

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "crash/medium.h"
#include "crash/workloads.h"

namespace lazyfs::crash {

std::string folder_of(std::size_t thread) { return "t" + std::to_string(thread); }

Workload moved_to(std::size_t thread, Workload workload) {
  const std::string prefix = "/" + folder_of(thread);
  for (Operation& o : workload) {
    const bool has_new_name =
        o.act == Act::kLink || o.act == Act::kRename || o.act == Act::kExchange ||
        o.act == Act::kWhiteout || o.act == Act::kCopy;
    if (!o.path.empty()) o.path.insert(0, prefix);
    if (has_new_name) o.other.insert(0, prefix);
    o.tag += 100'000 * static_cast<std::uint32_t>(thread);
  }
  return workload;
}

Image image_with_folders(std::size_t threads) {
  Workload setup;
  for (std::size_t i = 0; i < threads; ++i) {
    setup.push_back({.act = Act::kMakeDirectory, .path = "/" + folder_of(i)});
    const Workload in_folder = moved_to(i, small_setup());
    setup.insert(setup.end(), in_folder.begin(), in_folder.end());
  }
  return make_image(24, 32, setup);
}

ParallelRun::ParallelRun(const Image& image, const std::vector<Workload>& workloads)
    : workers_(workloads.size()) {
  device::KeepAll keep_all;
  const auto device =
      device::after_power_cut(image.recording, image.recording.ops.size(), keep_all);
  device::RecordingDevice recorded(*device);
  const std::size_t readable = recorded.op_count();
  recorded_ = &recorded;
  fs::MountOptions options = quiet_options();
  options.background = true;
  options.commit_interval = std::chrono::milliseconds(1);
  options.dirty_bytes = 64 * kBlockBytes;
  auto volume = fs::Volume::mount(recorded, options);
  CHECK(volume.has_value());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].trace.models.push_back(image.model.only(folder_of(i)));
    threads.emplace_back([&, i] { work(**volume, workloads[i], workers_[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  const Observation all = observe(**volume);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    for (const auto& found : {worker.trace.problems, worker.trace.models.back().differences(
                                                         only(all, folder_of(i)), false)}) {
      problems_.insert(problems_.end(), found.begin(), found.end());
    }
  }
  (*volume)->shut_down();
  volume->reset();
  recording_ = recorded.recording();
  const std::ptrdiff_t added = begin_with_medium(recording_, readable, image.recording.ops);
  first_ = image.recording.ops.size();
  for (Worker& worker : workers_) {
    for (Trace::Step& step : worker.trace.steps) {
      step.begin += static_cast<std::size_t>(added);
      step.end += static_cast<std::size_t>(added);
    }
  }
  recorded_ = nullptr;
}

void ParallelRun::work(fs::Volume& volume, const Workload& workload, Worker& worker) {
  Trace& trace = worker.trace;
  for (const Operation& operation : workload) {
    const std::uint64_t begin_stamp = ++stamp_;
    const std::size_t begin = recorded_->op_count();
    const auto made = perform(volume, operation, trace.models.back());
    const std::size_t end = recorded_->op_count();
    const std::uint64_t end_stamp = ++stamp_;
    if (!made) {
      const bool must_succeed =
          promises(operation.act) && trace.models.back().find(operation.path);
      if (must_succeed) trace.problems.push_back(to_string(operation) + " failed");
      continue;
    }
    Model next = trace.models.back();
    next.apply(operation, *made);
    trace.models.push_back(std::move(next));
    trace.steps.push_back({begin, end, promises(operation.act)});
    worker.stamps.push_back({begin_stamp, end_stamp});
  }
}

Trace::Range ParallelRun::possible(const Worker& worker, std::size_t op_count) const {
  Trace::Range range = worker.trace.possible(op_count);
  for (const Worker& other : workers_) {
    for (std::size_t i = 0; i < other.stamps.size(); ++i) {
      const Trace::Step& step = other.trace.steps[i];
      if (!step.promises || step.end > op_count) continue;
      const auto before = std::ranges::lower_bound(worker.stamps, other.stamps[i].begin, {},
                                                   &Stamps::end);
      range.low = std::max<std::size_t>(range.low, before - worker.stamps.begin());
    }
  }
  range.high = std::max(range.low, range.high);
  return range;
}

std::vector<std::string> ParallelRun::differences(std::size_t op_count,
                                                  const Observation& found) const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const auto differences = workers_[i].trace.differences(possible(workers_[i], op_count),
                                                           only(found, folder_of(i)));
    for (const std::string& difference : differences) {
      all.push_back(folder_of(i) + ": " + difference);
    }
  }
  return all;
}

}  // namespace lazyfs::crash
