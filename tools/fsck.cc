// fsck.lazyfs: checks a filesystem, and repairs it if asked. Exit status as in fsck(8).
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/size.h"
#include "device/backing.h"
#include "device/undo_file.h"
#include "disk/copies.h"
#include "disk/names.h"
#include "disk/open.h"
#include "fsck/check.h"
#include "fsck/repair.h"
#include "meta/log/damaged_headers.h"
#include "meta/log/features.h"
#include "meta/log/restore_superblock.h"
#include "meta/store/store.h"
#include "tools/block_device_claim.h"
#include "tools/command_line.h"
#include "tools/progress.h"
#include "tools/words.h"

namespace {

using namespace lazyfs;
using device::Backing;

enum ExitStatus { kClean = 0, kCorrected = 1, kLeftUncorrected = 4, kCouldNotRun = 8, kUsage = 16 };

struct Arguments {
  std::string device;
  std::string losses, progress = "auto";
  std::string keep, undo;  // undo files: to be made, to be carried out
  bool no_change = false, preen = false, yes = false, force = false, data = false, json = false;
};

Done done_of(std::string_view stage, fsck::StageProgress progress) {
  const bool is_data = stage == "data";
  const std::uint64_t unit = is_data ? kBlockBytes : 1;
  return {.stage = stage,
          .done = progress.done * unit,
          .total = progress.total * unit,
          .unit = is_data ? Unit::kBytes : Unit::kItems};
}

// Where an identification block names the volume, the superblock follows.
meta::StoreOptions repair_options(const device::Device& device) {
  const auto now = std::max<std::int64_t>(system_clock().now().seconds, 0);
  meta::StoreOptions options{.background = false, .check_seconds = static_cast<std::uint64_t>(now)};
  if (const auto name = disk::name_on(device)) {
    options.label = name->label;
    options.new_uuid = name->uuid;
  }
  return options;
}

// A power cut during a change of the name leaves the superblock with the old one.
bool is_misnamed(const device::Device& device, const Result<meta::Superblock>& superblock) {
  const auto name = disk::name_on(device);
  if (!name) return false;
  return !superblock ||
         *name != disk::VolumeName{superblock->volume_uuid(), superblock->label};
}

// Names of files may have control characters.
void print_line(std::string_view text) { std::puts(printable(text).c_str()); }

int refuse(const std::string& device, std::string_view why) {
  std::fprintf(stderr, "fsck.lazyfs: %s: %s\n", printable(device).c_str(),
               printable(why).c_str());
  return kCouldNotRun;
}

// `failure`: why the repair has failed; "" if it has not.
void print_json(const Arguments& arguments, const fsck::CheckReport& report,
                const std::vector<std::string>& problems, const std::vector<std::string>& notes,
                const std::vector<std::string>& repairs, const fsck::RepairReport& repair,
                const std::string& failure) {
  Json losses = Json::array();
  for (const fsck::Loss& loss : repair.losses) {
    losses.push_back(Json::object(
        {{"path", loss.path},
         {"inode", loss.inode.value},
         {"blocks", loss.blocks},
         {"other", loss.other}}));
  }
  const Json json = Json::object({
      {"device", arguments.device},
      {"clean", report.problems == 0 && failure.empty()},
      {"failure", failure},
      {"complete", report.complete},
      {"problem_count", report.problems},
      {"problems", problems},
      {"notes", notes},
      {"nodes", report.nodes},
      {"items", report.items},
      {"inodes", report.inodes},
      {"directories", report.directories},
      {"shared_inodes", report.shared_inodes},
      {"names", report.names},
      {"orphans", report.orphans},
      {"extents", report.extents},
      {"references", report.references},
      {"live_blocks", report.live_blocks},
      {"shared_blocks", report.shared_blocks},
      {"reference_blocks", report.reference_blocks},
      {"dead_blocks", report.dead_blocks},
      {"unaccounted_blocks", report.unaccounted_blocks},
      {"verified_blocks", report.verified_blocks},
      {"repairs", repairs},
      {"rebuilt_bands", repair.rebuilt_bands},
      {"salvaged_blocks", repair.salvaged_blocks},
      {"copied_blocks", repair.copied_blocks},
      {"lost_blocks", repair.lost_blocks},
      {"found_inodes", repair.found_inodes},
      {"loss_count", repair.losses_counted},
      {"losses", losses},
  });
  // A damaged name need not be UTF-8.
  std::puts(json.dump(true).c_str());
}

void print_summary(const Arguments& arguments, const fsck::CheckReport& report,
                   const fsck::RepairReport& repair) {
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  std::string text = arguments.device + ": ";
  text += report.problems == 0 && repair.repairs > 0 ? "repaired"
          : report.problems == 0                     ? "clean"
                                                     : count_text(report.problems, "problem");
  if (report.items == 0) {  // not even the root directory was found
    print_line(text + "; nothing was checked");
    return;
  }
  text += ", " + count_text(report.inodes, "inode") + " (" + number(report.directories) +
          (report.directories == 1 ? " directory), " : " directories), ") +
          number(report.dead_blocks) + " dead and " + count_text(report.live_blocks, "live block");
  if (report.shared_blocks > 0) {
    text += ", " + number(report.shared_blocks) + " of them shared (" +
            number(report.reference_blocks) + " of files)";
  }
  const auto add = [&](std::uint64_t count, const char* noun, const char* what) {
    if (count > 0) text += ", " + count_text(count, noun) + what;
  };
  add(report.verified_blocks, "block", " verified");
  add(report.orphans, "orphan", " for the next mount");
  add(report.unaccounted_blocks, "block", " of no file, free after a mount");
  add(repair.repairs, "repair", "");
  if (repair.found_inodes > 0) text += ", " + number(repair.found_inodes) + " in lost+found";
  add(repair.copied_blocks, "block", " copied");
  add(repair.lost_blocks, "block", " of files lost");
  print_line(text);
}

constexpr std::size_t kLossesShown = 20;

std::string loss_text(const fsck::Loss& loss) {
  const std::string path = loss.path.empty() ? "a file without a name" : loss.path;
  const std::string inode = path + " (inode " + std::to_string(loss.inode.value) + ")";
  return loss.is_whole() ? inode : inode + ": " + lost_parts(loss);
}

// Prints all losses if the file of --losses could not be written, because no later check finds
// them.
void print_losses(const Arguments& arguments, const fsck::RepairReport& repair, bool has_no_file) {
  const std::size_t most = has_no_file ? repair.losses.size() : kLossesShown;
  const std::size_t shown = std::min(repair.losses.size(), most);
  for (std::size_t i = 0; i < shown; ++i) {
    print_line(arguments.device + ": lost: " + loss_text(repair.losses[i]));
  }
  if (repair.losses_counted <= shown) return;
  const bool is_in_file = !arguments.losses.empty() && !has_no_file;
  print_line(arguments.device + ": lost: " + std::to_string(repair.losses_counted - shown) +
             " more" + (is_in_file ? ", in " + arguments.losses : ""));
}

// One run: a check, a repair if asked for, and a second check. The device stays claimed from the
// beginning to the end.
class Run {
 public:
  explicit Run(const Arguments& arguments)
      : arguments_(arguments),
        progress_(arguments.json && arguments.progress == "auto" ? "never" : arguments.progress) {}

  int run() {
    const BlockDeviceClaim claim(arguments_.device);
    if (claim.is_busy()) return refuse(arguments_.device, describe(Errc::kDeviceBusy));
    auto opened =
        Backing::open(arguments_.device, true,
                      claim.is_held() ? Backing::Claim::kNone : Backing::Claim::kExclusive);
    if (!opened) return refuse(arguments_.device, describe(opened.error()));
    held_.emplace(*std::move(opened));
    const bool may_change = arguments_.preen || arguments_.yes;
    const auto status = check_only(may_change);
    const bool has_work = may_rewrite_copy() || (arguments_.yes && has_damaged_header_);
    if (!status || !may_change || (*status != kLeftUncorrected && !has_work)) {
      if (!status) return refuse(arguments_.device, why(status.error()));
      print();
      return *status;
    }
    if (arguments_.preen && !report_.complete) {
      print();
      return refuse(arguments_.device, "metadata is damaged: run fsck.lazyfs -y"), kLeftUncorrected;
    }
    const auto repaired = repair();
    progress_.clear();
    if (!repaired) return give_up(repaired.error());
    has_no_loss_file_ = !write_losses();
    print();
    if (has_no_loss_file_) return refuse(arguments_.losses, kCannotWrite) | kLeftUncorrected;
    if (report_.problems > 0) return kLeftUncorrected;
    return *status == kLeftUncorrected || repair_.repairs > 0 ? kCorrected : kClean;
  }

 private:
  // A device that takes no writes keeps its damaged copy: -p needs the good one only.
  bool may_rewrite_copy() const {
    if (!can_rewrite_copy_ || !arguments_.preen) return can_rewrite_copy_;
    const auto device = Backing::open(arguments_.device, false, Backing::Claim::kNone);
    return device || device.error() != Errc::kDeviceReadOnly;
  }

  // Ends a run whose repair has failed. What the repair has lost before, no later check finds.
  int give_up(Errc error) {
    if (repair_.losses_counted > 0) {
      has_no_loss_file_ = !write_losses();
      if (!arguments_.json) print_losses(arguments_, repair_, has_no_loss_file_);
    } else if (is_new_loss_file_) {
      std::error_code ignored;
      std::filesystem::remove(arguments_.losses, ignored);
    }
    if (arguments_.json) print(why(error));
    return refuse(arguments_.device, why(error));
  }

  // Opens the claimed file or block device again. By now the path may lead to another one, which
  // nobody has claimed or checked.
  Result<Backing> open_again(bool read_only) {
    ASSIGN_OR_RETURN(Backing again,
                     Backing::open(arguments_.device, read_only, Backing::Claim::kNone));
    if (again.is_same(*held_)) return again;
    why_ = "it is not the device any more that was opened first";
    return fail(Errc::kDeviceMissing);
  }
  Result<std::unique_ptr<device::Device>> open_device(bool read_only,
                                                      device::UndoFile* undo = nullptr) {
    ASSIGN_OR_RETURN(const Backing again, open_again(read_only));
    return disk::open(arguments_.device,
                      {.read_only = read_only,
                       .exclusive = false,
                       .held = &again,
                       .undo = undo,
                       .warns = false});  // check_disk_copies()
  }

  // Changes nothing. A volume that cannot be opened is a finding that -y may repair.
  Result<int> check_only(bool may_change) {
    ASSIGN_OR_RETURN(const auto device, open_device(true));
    const auto store = meta::Store::open(*device, {.background = false, .read_only = true});
    if (!store) {
      TRY(check_disk_copies(*device));
      why_ = meta::explain(*device, store.error());
      if (!may_change || !may_be_repaired(store.error())) return fail(store.error());
      report_.complete = false;
      report_.problems += 1;
      found("It cannot be opened: " + std::exchange(why_, {}) + ".");
      return static_cast<int>(kLeftUncorrected);
    }
    TRY(check(*device, **store));
    return static_cast<int>(report_.problems == 0 ? kClean : kLeftUncorrected);
  }

  bool may_be_repaired(Errc error) const {
    switch (error) {
      case Errc::kNoFilesystem: return arguments_.yes;
      case Errc::kSuperblockVersion:
      case Errc::kSuperblockNewer:
      case Errc::kFeatureUnknown: return false;
      default: return true;
    }
  }

  Result<> check(device::Device& device, meta::Store& store) {
    const auto report = fsck::check(
        store, device, {.data = arguments_.data}, [&](const std::string& text) { found(text); },
        [&](std::string_view stage, fsck::StageProgress progress) {
          progress_.show(done_of(stage, progress));
        });
    progress_.clear();
    if (!report) return fail(report.error());
    report_ = *report;
    if (is_misnamed(device, store.superblock())) {
      found("The superblock has another label or UUID than the identification block.");
      ++report_.problems;
    }
    for (const std::string& text : store.log_losses()) log_loss_noted(text);
    TRY(check_disk_copies(device));
    TRY(check_superblocks(device));
    return check_log_headers(device, store);
  }

  // Checks what the device stores twice. A power cut may tear a copy that is being written. So only
  // damage of a copy that is never written counts as a problem.
  Result<> check_disk_copies(device::Device& device) {
    ASSIGN_OR_RETURN(const disk::DamagedCopies copies, disk::damaged_copies(device));
    for (const std::string& text : copies.never_written) found(text);
    report_.problems += copies.never_written.size();
    for (const std::string& text : copies.often_written) copy_noted(text + kOtherIsGood);
    return ok();
  }

  // The same of the superblock.
  Result<> check_superblocks(device::Device& device) {
    ASSIGN_OR_RETURN(const auto bands, meta::damaged_superblocks(device));
    note_superblocks(bands);
    return ok();
  }

  static Result<std::vector<BandId>> damaged_headers(device::Device& device,
                                                     const meta::Store& store) {
    std::vector<BandId> live;
    for (const auto& use : store.log_band_use()) {
      if (use.live_blocks > 0) live.push_back(use.band);
    }
    return meta::damaged_headers(device, live);
  }

  // The log does not need the damaged header of a band until it has emptied the band and begins it
  // again.
  Result<> check_log_headers(device::Device& device, const meta::Store& store) {
    ASSIGN_OR_RETURN(const auto bands, damaged_headers(device, store));
    has_damaged_header_ = !bands.empty();
    for (const BandId band : bands) {
      noted("The header of log band " + std::to_string(band.value) +
            " is damaged. Other blocks say what the band holds, until the log writes the band "
            "again.");
    }
    return ok();
  }

  // A superblock is written to one band and then to the other, so that at most one copy is torn.
  void note_superblocks(const std::vector<BandId>& bands) {
    if (bands.size() > 1) {
      return copy_noted(
          "The newest superblock cannot be used in any band, and an older one was. This is what a "
          "copy of a mounted image looks like: after umount, lazyfsctl wait IMAGE must come before "
          "cp.");
    }
    for (const BandId band : bands) {
      copy_noted("The newest superblock is not in band " + std::to_string(band.value) +
                 ", or cannot be used there." + kOtherIsGood);
    }
  }

  // Fails when the volume may be read only.
  Result<> check_may_repair(device::Device& device) {
    const auto superblock = meta::read_superblock(device);
    if (!superblock) return ok();
    const auto may = meta::check_features(superblock->features, false);
    if (!may) why_ = meta::explain(device, may.error());
    return may;
  }

  // Opens the file of --losses before the repair, because no later check finds the losses. The list
  // of an earlier repair remains until write_losses(). REQUIRES: nothing was changed yet.
  Result<> open_losses() {
    if (arguments_.losses.empty()) return ok();
    std::error_code ignored;
    if (std::filesystem::equivalent(arguments_.losses, arguments_.device, ignored)) {
      why_ = arguments_.losses + ": this is the device that is being repaired";
      return fail(Errc::kDeviceAccess);
    }
    const bool is_new = !std::filesystem::exists(arguments_.losses, ignored);
    loss_file_.open(arguments_.losses, std::ios::app);
    is_new_loss_file_ = is_new && loss_file_;
    if (loss_file_) return ok();
    why_ = arguments_.losses + ": " + kCannotWrite;
    return fail(Errc::kDeviceAccess);
  }

  // Returns false if the file could not be written.
  bool write_losses() {
    if (arguments_.losses.empty()) return true;
    std::error_code ignored;  // a pipe has no length
    std::filesystem::resize_file(arguments_.losses, 0, ignored);
    for (const fsck::Loss& loss : repair_.losses) {
      loss_file_ << unambiguous(loss_text(loss)) << '\n';
    }
    loss_file_.close();
    return !loss_file_.fail();
  }

  // Repairs, and checks again. An undo file gets its end also after a failure.
  Result<> repair() {
    TRY(open_losses());
    if (arguments_.keep.empty()) return repair_device(nullptr);
    const auto undo = device::UndoFile::make(arguments_.keep);
    if (!undo) {
      why_ = arguments_.keep + ": " + std::string(describe(undo.error()));
      return fail(undo.error());
    }
    const Result<> repaired = repair_device(undo->get());
    if (!repaired && (*undo)->is_empty()) {  // -z would not take its name again
      std::error_code ignored;
      std::filesystem::remove(arguments_.keep, ignored);
      return repaired;
    }
    ASSIGN_OR_RETURN(const Backing device, open_again(true));
    const Result<> finished = (*undo)->finish(device);
    if (!repaired || !finished) return repaired ? finished : repaired;
    if (!arguments_.json) {
      print_line(arguments_.device + ": fsck.lazyfs --undo " + arguments_.keep + " " +
                 arguments_.device + " takes the repair back, until the device is changed");
    }
    return ok();
  }

  Result<> repair_device(device::UndoFile* undo) {
    ASSIGN_OR_RETURN(const auto device, open_device(false, undo));
    TRY(check_may_repair(*device));
    const auto listener = [&](const std::string& text) { changed(text); };
    ASSIGN_OR_RETURN(const auto mended, disk::mend_copies(*device));
    for (const std::string& text : mended) changed(text);
    const auto bands = meta::damaged_superblocks(*device);
    const bool was_misnamed = is_misnamed(*device, meta::read_superblock(*device));
    ASSIGN_OR_RETURN(const auto store,
                     fsck::open_for_repair(*device, listener, repair_options(*device)));
    repair_ = fsck::repair(*store, *device, system_clock(), listener,
                           [&](std::string_view stage, fsck::StageProgress progress) {
                             progress_.show(done_of(stage, progress));
                           });
    TRY(repair_.result);
    TRY(empty_bands_without_header(*device, *store));
    if (was_misnamed && !is_misnamed(*device, store->superblock())) {
      changed("The superblock got the label and UUID of the identification block.");
    }
    if (bands) TRY(report_superblocks(*device, *bands));
    problems_.clear();
    notes_.clear();
    const bool could_rewrite_copy = std::exchange(can_rewrite_copy_, false);
    TRY(check(*device, *store));
    if (changes_ == 0 && could_rewrite_copy && !can_rewrite_copy_) {
      changed("Copies were rewritten when the device was opened for writing.");
    }
    repair_.repairs = changes_;
    return store->close();
  }

  // Reports which of the superblocks in `bands`, which were damaged, the repair has rewritten. A
  // band that takes no writes has an old one for good.
  Result<> report_superblocks(device::Device& device, const std::vector<BandId>& bands) {
    ASSIGN_OR_RETURN(const auto left, meta::damaged_superblocks(device));
    for (const BandId band : bands) {
      if (std::ranges::find(left, band) != left.end()) continue;
      changed("The superblock in band " + std::to_string(band.value) + " was rewritten.");
    }
    return ok();
  }

  // Empties log bands with a damaged header. The log writes the header when it begins the band
  // again.
  Result<> empty_bands_without_header(device::Device& device, meta::Store& store) {
    if (!arguments_.yes) return ok();
    ASSIGN_OR_RETURN(const auto bands, damaged_headers(device, store));
    if (bands.empty()) return ok();
    TRY(store.empty_log_bands(bands));
    ASSIGN_OR_RETURN(const auto left, damaged_headers(device, store));
    for (const BandId band : bands) {
      if (std::ranges::find(left, band) != left.end()) continue;
      changed("Log band " + std::to_string(band.value) +
              ", whose header is damaged, was emptied; the log writes a new header when it uses "
              "the band again.");
    }
    return ok();
  }

  void found(const std::string& text) {
    progress_.clear();
    if (arguments_.json) {
      keep(problems_, text);
    } else {
      print_line(arguments_.device + ": " + text);
    }
  }
  void noted(const std::string& text) {
    notes_.push_back(text);
    if (arguments_.json) return;
    progress_.clear();
    print_line(arguments_.device + ": " + text);
  }
  // A repair opens the log again, and finds the same loss.
  void log_loss_noted(const std::string& text) {
    const bool is_known = std::ranges::find(log_losses_, text) != log_losses_.end();
    if (is_known) return notes_.push_back(text);
    log_losses_.push_back(text);
    noted(text);
  }
  void copy_noted(const std::string& text) {
    can_rewrite_copy_ = true;
    noted(text);
  }
  // Bounds the memory that a damaged volume takes; problem_count counts all.
  static void keep(std::vector<std::string>& list, const std::string& text) {
    if (list.size() < kMaxListed) list.push_back(text);
  }
  void changed(const std::string& text) {
    ++changes_;
    progress_.clear();
    if (arguments_.json) {
      keep(repairs_, text);
    } else {
      print_line(arguments_.device + ": repair: " + text);
    }
  }
  void print(const std::string& failure = "") const {
    if (arguments_.json) {
      print_json(arguments_, report_, problems_, notes_, repairs_, repair_, failure);
    } else {
      print_losses(arguments_, repair_, has_no_loss_file_);
      print_summary(arguments_, report_, repair_);
    }
  }

  std::string why(Errc error) const { return why_.empty() ? std::string(describe(error)) : why_; }

  static constexpr std::size_t kMaxListed = 100'000;
  static constexpr const char* kOtherIsGood = " Its other copy is good.";
  static constexpr const char* kCannotWrite = "cannot be written";

  const Arguments& arguments_;
  std::optional<Backing> held_;  // as it was opened first; keeps the claim of an image
  ProgressLine progress_;
  std::string why_;  // it cannot run, if describe() does not say enough
  std::ofstream loss_file_;        // of --losses, open during a repair
  bool has_no_loss_file_ = false;  // it could not be written
  bool is_new_loss_file_ = false;  // this run has made it
  std::vector<std::string> problems_, notes_, repairs_;
  std::vector<std::string> log_losses_;  // notes that were printed
  std::uint64_t changes_ = 0;  // calls of changed()
  bool can_rewrite_copy_ = false, has_damaged_header_ = false;
  fsck::CheckReport report_;
  fsck::RepairReport repair_;
};

int take_back(const Arguments& arguments) {
  const BlockDeviceClaim claim(arguments.device);
  if (claim.is_busy()) return refuse(arguments.device, describe(Errc::kDeviceBusy));
  const auto bytes =
      device::undo(arguments.undo, arguments.device, arguments.force,
                   claim.is_held() ? Backing::Claim::kNone : Backing::Claim::kExclusive);
  if (!bytes) {
    std::fprintf(stderr, "fsck.lazyfs: %s\n", printable(bytes.error()).c_str());
    return kCouldNotRun;
  }
  print_line(arguments.device + ": the repair was taken back: " + size_text(*bytes));
  return kCorrected;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "fsck.lazyfs",
      "Checks a lazyfs that is not mounted, and reports each contradiction. Changes nothing "
      "without -p or -y.",
      LAZYFS_VERSION, kUsage);
  app.set_footer(
      "Exit status: 0 clean, 1 repaired, 4 problems remain, 8 could not run, 16 wrong usage.");
  Arguments arguments;
  CommandOption& n = app.flag("-n", arguments.no_change, "change nothing");
  CommandOption& p = app.flag("-p,-a", arguments.preen, "repair, if all metadata can be read");
  CommandOption& y = app.flag("-y", arguments.yes, "repair whatever can be repaired");
  n.excludes(p).excludes(y);
  p.excludes(y);
  app.flag("-f", arguments.force,
           "with --undo: although the device may have changed; else accepted for compatibility");
  app.flag("--data", arguments.data, "also read all file data and verify its checksums");
  app.flag("--json", arguments.json, "print one JSON object");
  app.option("--losses", arguments.losses, "write what a repair could not give back to this file");
  app.option("--progress", arguments.progress, "how progress is shown on standard error")
      .one_of(kProgressForms)
      .with_default();
  app.option("-z", arguments.keep, "keep what a repair overwrites in this new file");
  app.option("--undo", arguments.undo, "take the repair back that has made this file")
      .excludes(n)
      .excludes(p)
      .excludes(y);
  app.option("DEVICE", arguments.device, "image file or block device").required();
  if (const auto status = app.parse(argc, argv)) return *status;
  if (!arguments.keep.empty() && !arguments.preen && !arguments.yes) {
    std::fprintf(stderr, "fsck.lazyfs: -z: only -p and -y overwrite anything\n");
    return kUsage;
  }
  try {
    if (!arguments.undo.empty()) {
      return end_output("fsck.lazyfs", take_back(arguments), kCouldNotRun);
    }
    const int status = Run(arguments).run();
    return end_output("fsck.lazyfs", status, status | kCouldNotRun);
  } catch (const std::exception& e) {
    return refuse(arguments.device, e.what());
  }
}
