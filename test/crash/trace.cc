#include "crash/trace.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/check.h"
#include "crash/copying.h"
#include "crash/medium.h"
#include "device/memory.h"
#include "mkfs/mkfs.h"
#include "test/support/test_device.h"

namespace lazyfs::crash {
namespace {

using fs::Volume;

// The inode of a path, looked up as the kernel does. The destructor forgets the lookups.
class Held {
 public:
  static Result<Held> walk(Volume& volume, std::string_view path) {
    Held held(volume, fs::kRootInode);
    while (!path.empty() && path != "/") {
      path.remove_prefix(1);
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(name.size());
      ASSIGN_OR_RETURN(const fs::Attributes found, volume.lookup(held.no(), name));
      held = Held(volume, found.inode);
    }
    return held;
  }
  Held(Volume& volume, InodeNo inode) : volume_(&volume), inode_(inode) {}
  Held(Held&& other) noexcept : volume_(other.volume_), inode_(other.inode_) {
    other.volume_ = nullptr;
  }
  Held& operator=(Held&& other) noexcept {
    std::swap(volume_, other.volume_);
    std::swap(inode_, other.inode_);
    return *this;
  }
  ~Held() {
    if (volume_) volume_->forget(inode_, 1);
  }
  InodeNo no() const { return inode_; }

 private:
  Volume* volume_;
  InodeNo inode_;
};

std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/')); }
std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

Result<std::uint64_t> make(Volume& volume, const Operation& o) {
  ASSIGN_OR_RETURN(const Held folder, Held::walk(volume, folder_of(o.path)));
  const std::string_view name = name_of(o.path);
  fs::Attributes made;
  if (o.act == Act::kCreate) {
    ASSIGN_OR_RETURN(const fs::Created created, volume.create(folder.no(), name, 0644, {}));
    volume.release(created.file);
    made = created.attributes;
  } else if (o.act == Act::kMakeDirectory) {
    ASSIGN_OR_RETURN(made, volume.make_directory(folder.no(), name, 0755, {}));
  } else {
    ASSIGN_OR_RETURN(made, volume.make_symlink(folder.no(), name, o.other, {}));
  }
  volume.forget(made.inode, 1);
  return made.inode.value;
}

Result<> link(Volume& volume, const Operation& o) {
  ASSIGN_OR_RETURN(const Held inode, Held::walk(volume, o.path));
  ASSIGN_OR_RETURN(const Held folder, Held::walk(volume, folder_of(o.other)));
  ASSIGN_OR_RETURN(const fs::Attributes linked,
                   volume.link(inode.no(), folder.no(), name_of(o.other)));
  volume.forget(linked.inode, 1);
  return ok();
}

Result<> remove(Volume& volume, const Operation& o) {
  ASSIGN_OR_RETURN(const Held folder, Held::walk(volume, folder_of(o.path)));
  if (o.act == Act::kUnlink) return volume.unlink(folder.no(), name_of(o.path));
  return volume.remove_directory(folder.no(), name_of(o.path));
}

Result<> rename(Volume& volume, const Operation& o) {
  ASSIGN_OR_RETURN(const Held from, Held::walk(volume, folder_of(o.path)));
  ASSIGN_OR_RETURN(const Held to, Held::walk(volume, folder_of(o.other)));
  return volume.rename(from.no(), name_of(o.path), to.no(), name_of(o.other),
                       {.exchange = o.act == Act::kExchange});
}

// Returns the whiteout's inode; 0 if both names are of one inode, and nothing happens.
Result<std::uint64_t> leave_whiteout(Volume& volume, const Operation& o) {
  ASSIGN_OR_RETURN(const Held from, Held::walk(volume, folder_of(o.path)));
  ASSIGN_OR_RETURN(const Held to, Held::walk(volume, folder_of(o.other)));
  TRY(volume.rename(from.no(), name_of(o.path), to.no(), name_of(o.other),
                    {.whiteout = fs::Owner{}}));
  ASSIGN_OR_RETURN(const fs::Attributes left, volume.lookup(from.no(), name_of(o.path)));
  volume.forget(left.inode, 1);
  const bool is_whiteout = left.mode == S_IFCHR && left.rdev == 0;
  return is_whiteout ? left.inode.value : 0;
}

Result<> change_range(Volume& volume, InodeNo inode, const Operation& o) {
  if (o.act == Act::kPunch) return volume.punch(inode, o.offset, o.length, {.keep_size = true});
  return volume.zero(inode, o.offset, o.length, {});
}

Result<> change(Volume& volume, const Operation& o, const Model& model) {
  ASSIGN_OR_RETURN(const Held inode, Held::walk(volume, o.path));
  switch (o.act) {
    case Act::kWrite: {
      const std::uint64_t offset = o.offset == kAtEnd ? model.size_of(o.path) : o.offset;
      const std::string text = text_of(o.tag, offset, o.length);
      return volume.write(inode.no(), offset, std::as_bytes(std::span(text)));
    }
    case Act::kTruncate: {
      if (!model.is_file(o.path)) return fail(Errc::kInvalid);
      TRY(volume.set_attributes(inode.no(), {.size = o.offset}));
      return ok();
    }
    case Act::kPunch:
    case Act::kZero:
      if (!model.is_file(o.path)) return fail(Errc::kInvalid);
      return change_range(volume, inode.no(), o);
    case Act::kChangeMode: {
      TRY(volume.set_attributes(inode.no(), {.mode = static_cast<std::uint32_t>(o.offset)}));
      return ok();
    }
    case Act::kChangeFlags: {
      TRY(volume.set_attributes(inode.no(), {.flags = static_cast<std::uint32_t>(o.offset)}));
      return ok();
    }
    case Act::kSetXattr:
      return volume.set_xattr(inode.no(), o.other, text_of(o.tag, 0, o.length),
                              fs::XattrMode::kAny);
    case Act::kRemoveXattr: return volume.remove_xattr(inode.no(), o.other);
    case Act::kFsync: return volume.fsync(inode.no(), nullptr, false);
    case Act::kDataSync: return volume.fsync(inode.no(), nullptr, true);
    default: return volume.fsync_directory(inode.no());
  }
}

Result<std::uint64_t> copy(Volume& volume, const Operation& o, const Model& model) {
  if (!model.is_file(o.path) || !model.is_file(o.other)) return fail(Errc::kInvalid);
  ASSIGN_OR_RETURN(const Held from, Held::walk(volume, o.path));
  ASSIGN_OR_RETURN(const Held to, Held::walk(volume, o.other));
  return volume.copy_range(from.no(), o.offset, to.no(), o.to, o.length, false);
}

// The lookup count is not released before the unmount.
Result<> hold(Volume& volume, const Operation& o, const Model& model) {
  if (!model.is_file(o.path)) return fail(Errc::kInvalid);
  ASSIGN_OR_RETURN(const Held folder, Held::walk(volume, folder_of(o.path)));
  TRY(volume.lookup(folder.no(), name_of(o.path)));
  return ok();
}

Result<> write_held(Volume& volume, const Operation& o, const Model& model) {
  const auto held = model.held(o.tag);
  if (!held) return fail(Errc::kInvalid);
  const std::string text = text_of(o.tag, o.offset, o.length);
  return volume.write(InodeNo{*held}, o.offset, std::as_bytes(std::span(text)));
}

}  // namespace

fs::MountOptions quiet_options() {
  fs::MountOptions options;
  options.access_time = fs::AccessTime::kNone;
  options.background = false;
  options.cache_bytes = std::size_t{1} << 20;
  options.dirty_bytes = std::size_t{1} << 20;
  return options;
}

Result<std::uint64_t> perform(Volume& volume, const Operation& o, const Model& model) {
  switch (o.act) {
    case Act::kCreate:
    case Act::kMakeDirectory:
    case Act::kSymlink: return make(volume, o);
    case Act::kLink: TRY(link(volume, o)); return 0;
    case Act::kUnlink:
    case Act::kRemoveDirectory: TRY(remove(volume, o)); return 0;
    case Act::kRename:
    case Act::kExchange: TRY(rename(volume, o)); return 0;
    case Act::kWhiteout: return leave_whiteout(volume, o);
    case Act::kCopy: return copy(volume, o, model);
    case Act::kSync: TRY(volume.sync()); return 0;
    case Act::kCollect: TRY(volume.collect_garbage()); return 0;
    case Act::kTick: volume.tick(); return 0;
    case Act::kHold: TRY(hold(volume, o, model)); return 0;
    case Act::kWriteHeld: TRY(write_held(volume, o, model)); return 0;
    default: TRY(change(volume, o, model)); return 0;
  }
}

Image make_image(std::uint32_t bands, std::uint32_t band_blocks, const Workload& setup,
                 Failures failures) {
  return make_image(*test_device(bands, band_blocks), setup, failures);
}

Image make_image(device::MemoryDevice& device, const Workload& setup, Failures failures) {
  QuickClock clock;
  const auto formatted = mkfs::make_filesystem(device, mkfs::Options{}, clock);
  CHECK(formatted.has_value());
  device.forget_write_pointers();
  Image image;
  {
    auto volume = Volume::mount(device, quiet_options(), clock);
    CHECK(volume.has_value());
    for (const Operation& operation : setup) {
      const auto made = perform(**volume, operation, image.model);
      CHECK(made.has_value() || failures == Failures::kAllowed);
      if (made) image.model.apply(operation, *made);
    }
    CHECK((*volume)->unmount().has_value());
    image.model.apply({.act = Act::kSync}, 0);
  }
  CHECK(device.refused_begins() == 0);
  image.recording = {device.geometry(), device.capabilities(), medium_of(device)};
  return image;
}

std::optional<Image> crashed_image(const Trace& trace, std::size_t op_count,
                                   device::Choice& choice) {
  const auto device = device::after_power_cut(trace.recording, op_count, choice);
  Image image;
  image.recording = {device->geometry(), device->capabilities(), medium_of(*device)};
  QuickClock clock;
  const auto volume = Volume::mount(*device, quiet_options(), clock);
  if (!volume) return std::nullopt;
  image.model = Model(observe(**volume));
  (*volume)->shut_down();
  return image;
}

std::string overwritten(BandAddress at) {
  return "band " + std::to_string(at.band.value) + " block " + std::to_string(at.rba) +
         " is written twice between two resets";
}

// ---- Running ------------------------------------------------------------------------------------

namespace {

class Run {
 public:
  Run(const Image& image, device::MemoryDevice& device, const fs::MountOptions& options)
      : medium_(image.recording.ops),
        device_(device),
        recorded_(device),
        options_(options),
        clock_(options.background ? system_clock() : quick_clock_) {
    trace_.first = recorded_.op_count();
    trace_.models.push_back(image.model);
    device_.on_overwrite([this](BandAddress at) { problem(overwritten(at)); });
    mount();
  }

  void step(const Operation& operation) {
    if (!volume_) return;
    const std::size_t begin = recorded_.op_count();
    if (operation.act == Act::kRemount) return unmount(begin, true);
    if (operation.act == Act::kKill) return kill(begin);
    if (operation.act == Act::kCopy) return copy(operation, begin);
    const auto made = perform(*volume_, operation, trace_.models.back());
    if (made) return note(operation, begin, *made);
    if (!promises(operation.act) || !trace_.models.back().find(operation.path)) return;
    problem(to_string(operation) + ": " + std::string(describe(made.error())));
  }

  Trace finish(bool by_unmount) {
    if (volume_) {
      const auto wrong = trace_.models.back().differences(observe(*volume_), false);
      trace_.problems.insert(trace_.problems.end(), wrong.begin(), wrong.end());
      if (by_unmount) unmount(recorded_.op_count(), false);
    }
    if (volume_) volume_->shut_down();
    if (device_.refused_begins() > 0) problem("too many bands were begun");
    trace_.recording = recorded_.recording();
    shift(begin_with_medium(trace_.recording, trace_.first, medium_));
    return std::move(trace_);
  }

 private:
  void problem(std::string text) { trace_.problems.push_back(std::move(text)); }

  void mount() {
    device_.forget_write_pointers();
    auto volume = Volume::mount(recorded_, options_, clock_);
    if (volume) {
      volume_ = std::move(*volume);
    } else {
      problem("it cannot be mounted: " + std::string(describe(volume.error())));
    }
  }

  void unmount(std::size_t begin, bool again) {
    const auto unmounted = volume_->unmount();
    if (!unmounted) problem("it cannot be unmounted: " + std::string(describe(unmounted.error())));
    volume_.reset();
    note({.act = Act::kRemount}, begin, 0);
    if (again) mount();
  }

  void copy(const Operation& operation, std::size_t begin) {
    const Copied earlier = copied_in(*volume_);
    const auto copied = perform(*volume_, operation, trace_.models.back());
    if (!copied) return grown_at_most(operation, begin);
    const Copied now = copied_in(*volume_);
    const bool at_once =
        now.shared_blocks > earlier.shared_blocks && now.steps == earlier.steps + 1;
    for (const Operation& part : parts_of(operation, *copied, at_once, trace_.models.back())) {
      note(part, begin, part.length);
    }
  }

  // A failed copy may have extended the destination up to the copy's offset.
  void grown_at_most(const Operation& copy, std::size_t begin) {
    const Model& model = trace_.models.back();
    if (!model.is_file(copy.path) || !model.is_file(copy.other)) return;
    const auto now = Held::walk(*volume_, copy.other);
    const auto attributes = now ? volume_->get_attributes(now->no()) : fail(Errc::kStale);
    if (!attributes || attributes->size != copy.to || model.size_of(copy.other) >= copy.to) return;
    note({.act = Act::kTruncate, .path = copy.other, .offset = copy.to}, begin, 0);
  }

  // The state found after the kill is one that a power cut may leave. It is not durable: it may not
  // be on the medium yet.
  void kill(std::size_t begin) {
    volume_->shut_down();
    volume_.reset();
    Trace::Range range = trace_.possible(begin);
    range.high = trace_.models.size() - 1;
    mount();
    if (!volume_) return;
    const Observation found = observe(*volume_);
    for (const std::string& difference : trace_.differences(range, found)) {
      problem("after a kill: " + difference);
    }
    trace_.models.emplace_back(found);
    trace_.steps.push_back({begin, recorded_.op_count(), false});
  }

  void note(const Operation& operation, std::size_t begin, std::uint64_t made) {
    Model next = trace_.models.back();
    next.apply(operation, made);
    trace_.models.push_back(std::move(next));
    trace_.steps.push_back({begin, recorded_.op_count(), promises(operation.act)});
  }

  // All op indices grow by the number of added ops.
  void shift(std::ptrdiff_t by) {
    const auto added = static_cast<std::size_t>(by);
    trace_.first += added;
    for (Trace::Step& step : trace_.steps) {
      step.begin += added;
      step.end += added;
    }
  }

  const std::vector<device::Op> medium_;
  device::MemoryDevice& device_;
  device::RecordingDevice recorded_;
  const fs::MountOptions options_;
  QuickClock quick_clock_;
  Clock& clock_;
  Trace trace_;
  std::unique_ptr<Volume> volume_;
};

}  // namespace

Trace run(const Image& image, const Workload& workload, const RunOptions& options) {
  device::KeepAll keep_all;
  const auto device =
      device::after_power_cut(image.recording, image.recording.ops.size(), keep_all);
  Run run(image, *device, options.mount);
  for (const Operation& operation : workload) run.step(operation);
  return run.finish(options.unmount);
}

// Returns the differences from the nearest model.
std::vector<std::string> Trace::differences(Range range, const Observation& found) const {
  std::vector<std::string> best;
  for (std::size_t i = range.high + 1; i-- > range.low;) {
    std::vector<std::string> differences = models[i].differences(found, true);
    if (differences.empty()) return differences;
    if (best.empty() || differences.size() < best.size()) best = std::move(differences);
  }
  return best;
}

Trace::Range Trace::possible(std::size_t op_count) const {
  Range range;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].promises && steps[i].end <= op_count) range.low = i + 1;
    // A running sync leaves only states that the model before it allows.
    if (!steps[i].promises && steps[i].begin < op_count) range.high = i + 1;
  }
  range.high = std::max(range.low, range.high);
  return range;
}

}  // namespace lazyfs::crash
