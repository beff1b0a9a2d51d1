#include "tools/gc_command.h"

#include <cstdint>
#include <cstdio>

#include "base/json.h"
#include "base/size.h"
#include "base/types.h"
#include "fuse/requests/control.h"
#include "tools/mount_point.h"
#include "tools/progress.h"
#include "tools/words.h"

namespace lazyfs {
namespace {

using fuse::CleanPiece;

struct Cleaned {
  std::uint64_t bands = 0, blocks = 0, freed = 0;
};

std::string blocks_text(std::uint64_t blocks) { return size_text(blocks * kBlockBytes); }

CleanPiece ask_to_clean(MountPoint& mount, const GcPlan& plan, std::uint32_t what) {
  CleanPiece piece{.dead_percent = plan.dead_percent, .what = what};
  mount.request(fuse::kCleanRequest, &piece);
  return piece;
}

void print_estimate(const GcPlan& plan, const CleanPiece& estimate) {
  if (estimate.bands == 0) {
    std::printf("%s: no band is at least %u%% dead\n", plan.mount_point.c_str(), plan.dead_percent);
    return;
  }
  std::printf("%s: %s %s at least %u%% dead: up to %s to move, to gain %s\n",
              plan.mount_point.c_str(), count_text(estimate.bands, "band").c_str(),
              estimate.bands == 1 ? "is" : "are", plan.dead_percent,
              blocks_text(estimate.blocks).c_str(), blocks_text(estimate.gain).c_str());
}

// Cleans each band of the estimate at most once, because other programs may make garbage as fast as
// it is cleaned.
Cleaned clean(MountPoint& mount, const GcPlan& plan, const CleanPiece& estimate) {
  ProgressLine progress(plan.json && plan.progress == "auto" ? "never" : plan.progress);
  Cleaned cleaned;
  while (cleaned.bands < estimate.bands) {
    const CleanPiece step = ask_to_clean(mount, plan, CleanPiece::kStep);
    cleaned.bands += step.bands;
    cleaned.blocks += step.blocks;
    cleaned.freed += step.gain;
    if (step.is_done != 0) break;
    progress.show(
        {"gc", cleaned.blocks * kBlockBytes, estimate.blocks * kBlockBytes, Unit::kBytes});
  }
  return cleaned;
}

void print_json(const GcPlan& plan, const CleanPiece& estimate, const Cleaned& cleaned) {
  const Json before = Json::object({{"bands", estimate.bands},
                                    {"move_bytes", estimate.blocks * kBlockBytes},
                                    {"gain_bytes", estimate.gain * kBlockBytes}});
  const Json all = Json::object({{"mount_point", plan.mount_point},
                                 {"dead_percent", plan.dead_percent},
                                 {"estimate", before},
                                 {"bands_cleaned", cleaned.bands},
                                 {"bytes_moved", cleaned.blocks * kBlockBytes},
                                 {"bands_freed", cleaned.freed}});
  std::puts(all.dump(true).c_str());
}

}  // namespace

void gc_command(const GcPlan& plan) {
  MountPoint mount(plan.mount_point);
  const CleanPiece estimate =
      ask_to_clean(mount, plan, plan.only_estimate ? CleanPiece::kEstimate : CleanPiece::kPrepare);
  if (!plan.json) print_estimate(plan, estimate);
  std::fflush(stdout);
  Cleaned cleaned;
  if (!plan.only_estimate) cleaned = clean(mount, plan, estimate);
  if (plan.json) return print_json(plan, estimate, cleaned);
  if (plan.only_estimate) return;
  std::printf("%s: %s cleaned, %s moved, %s freed\n", plan.mount_point.c_str(),
              count_text(cleaned.bands, "band").c_str(), blocks_text(cleaned.blocks).c_str(),
              count_text(cleaned.freed, "band").c_str());
}

}  // namespace lazyfs
