// What the kernel's request queue of a block device says, below /sys: limits, and the scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "zoned/zone_disk.h"

namespace lazyfs::zoned {

// The folder "queue" of a block device, by its numbers: /sys/dev/block/259:0/queue.
std::string queue_folder(unsigned major, unsigned minor);

// A limit whose file does not exist is 0, and write_bytes is 512. The kernel splits large writes
// into several requests; a write of max_write_bytes always stays one request.
DiskLimits read_limits(const std::string& queue);

// Kernels before 6.10 keep the order of the writes to a zone only under the scheduler mq-deadline.
struct SchedulerNeed {
  bool must_change = false;
  bool is_offered = false;  // mq-deadline
};
// Pure. `schedulers`: the contents of the file, with the present scheduler in brackets: "[none]
// mq-deadline". `release`: the kernel's, such as 6.1.0-13-amd64.
SchedulerNeed scheduler_need(std::string_view schedulers, std::string_view release);
// Selects mq-deadline where it is needed. If that fails, warns and names the remedy.
void prepare_scheduler(const std::string& queue, const std::string& device);

}  // namespace lazyfs::zoned
