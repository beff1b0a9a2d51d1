// Several threads at work on one volume, each in a folder of its own, and what a power cut may
// leave of them all.
#pragma once

#include <cstdint>
#include <vector>

#include "crash/trace.h"

namespace lazyfs::crash {

// The folder of a thread; its workload names nothing outside of it.
std::string folder_of(std::size_t thread);

// `threads` folders, in each what small_image() has in its root.
Image crew_image(std::size_t threads);
// `workload` with all its paths in the thread's folder.
Workload moved_to(std::size_t thread, Workload workload);

// Each thread knows what it did and when; all see the same device.
class Crew {
 public:
  // Carries the workloads out, one thread each, on a volume with a background of its own.
  Crew(const Image& image, const std::vector<Workload>& workloads);

  const device::Recording& recording() const { return recording_; }
  std::size_t first() const { return first_; }
  // What contradicts the models though no power was cut.
  const std::vector<std::string>& problems() const { return problems_; }
  // What contradicts them after a power cut: each folder must be as one of its thread's models, and
  // none older than what a sync of any thread has promised.
  std::vector<std::string> differences(std::size_t op_count, const Observation& found) const;

 private:
  // Stamps order what the threads do: an operation that began behind the end of another has the
  // higher one.
  struct Stamps {
    std::uint64_t begin = 0, end = 0;
  };
  struct Worker {
    Trace trace;                 // its recording is empty
    std::vector<Stamps> stamps;  // of the steps
  };

  void work(fs::Volume& volume, const Workload& workload, Worker& worker);
  Trace::Range possible(const Worker& worker, std::size_t op_count) const;

  std::vector<Worker> workers_;
  device::Recording recording_;
  std::size_t first_ = 0;
  std::vector<std::string> problems_;
  std::atomic<std::uint64_t> stamp_{0};
  device::RecordingDevice* recorded_ = nullptr;  // while the threads work
};

}  // namespace lazyfs::crash
