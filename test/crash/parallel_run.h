// Several threads work on one volume, each in its own folder. The class knows which states a power
// cut may leave.
#pragma once

#include <cstdint>
#include <vector>

#include "crash/trace.h"

namespace lazyfs::crash {

// Returns the folder of a thread. All paths of its workload are in that folder.
std::string folder_of(std::size_t thread);

// Makes `threads` folders, each with the contents of small_image()'s root.
Image image_with_folders(std::size_t threads);
// Returns `workload` with all its paths moved into the thread's folder.
Workload moved_to(std::size_t thread, Workload workload);

class ParallelRun {
 public:
  // Runs each workload on its own thread, on a volume with background threads.
  ParallelRun(const Image& image, const std::vector<Workload>& workloads);

  const device::Recording& recording() const { return recording_; }
  std::size_t first() const { return first_; }
  // Differences from the models without a power cut.
  const std::vector<std::string>& problems() const { return problems_; }
  // Differences from the models after a power cut. Each folder must equal one of its thread's
  // models, and that model must not be older than the last sync of any thread.
  std::vector<std::string> differences(std::size_t op_count, const Observation& found) const;

 private:
  // Stamps order the operations of all threads: if an operation began after another one ended, its
  // begin stamp is higher than the other's end stamp.
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
