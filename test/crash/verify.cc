#include "crash/verify.h"

#include <sys/stat.h>

#include "crash/observation.h"
#include "crash/trace.h"
#include "fsck/check.h"
#include "meta/store/store.h"

namespace lazyfs::crash {
namespace {

using Problems = std::vector<std::string>;

class Verifier {
  struct Made {
    std::uint64_t folder = 0, file = 0, copy = 0;
    bool is_complete = false;
  };

 public:
  Verifier(device::MemoryDevice& medium, device::Device& device)
      : medium_(medium), device_(device) {
    medium_.on_overwrite([this](BandAddress at) { problems_.push_back(overwritten(at)); });
  }
  ~Verifier() { medium_.on_overwrite(nullptr); }

  Problems run(const Oracle& oracle, bool also_use) {
    check("before the mount", false);
    if (also_use) {
      if (const auto seen = look({}, true)) add("mounted for reading", oracle(*seen));
    }
    const auto seen = look({});
    if (!seen) return std::move(problems_);
    add("after the mount", oracle(*seen));
    check("after the mount", true);
    if (also_use && problems_.empty()) use(*seen);
    if (medium_.refused_begins() > 0) problems_.push_back("too many bands were begun");
    return std::move(problems_);
  }

 private:
  void add(const std::string& when, const Problems& found) {
    for (const std::string& problem : found) problems_.push_back(when + ": " + problem);
  }

  // Runs fsck.lazyfs' checks.
  void check(const std::string& when, bool data) {
    meta::StoreOptions options;
    options.cache_bytes = std::size_t{1} << 20;
    options.background = false;
    options.read_only = true;
    medium_.forget_write_pointers();
    auto store = meta::Store::open(device_, options);
    if (!store) return add(when, {"check: " + std::string(describe(store.error()))});
    add(when, (*store)->log_losses());  // a torn transaction is none
    const auto report = fsck::check(**store, device_, {.data = data},
                                  [&](const std::string& text) { add(when, {"check: " + text}); });
    if (!report) add(when, {"check: " + std::string(describe(report.error()))});
  }

  // Mounts, runs `work` if it is given, and observes everything. After `work` the volume is
  // unmounted; otherwise the mount ends as in a power cut that loses nothing.
  std::optional<Observation> look(const std::function<Result<>(fs::Volume&)>& work,
                                  bool read_only = false) {
    QuickClock clock;
    fs::MountOptions options = quiet_options();
    options.read_only = read_only;
    medium_.forget_write_pointers();
    auto volume = fs::Volume::mount(device_, options, clock);
    if (!volume) {
      add("mount", {std::string(describe(volume.error()))});
      return std::nullopt;
    }
    if (work) {
      if (const auto done = work(**volume); !done) {
        add("use", {std::string(describe(done.error()))});
        return std::nullopt;
      }
    }
    Observation seen = observe(**volume);
    if (work && !(*volume)->unmount()) add("use", {"unmount failed"});
    if (!work) (*volume)->shut_down();
    return seen;
  }

  // Checks that a recovered volume creates, copies and keeps files, extends files with zeros, and
  // cleans its bands, and that everything else remains unchanged. A full volume must return an
  // error for lack of space, and must allow removing what the test has made.
  void use(const Observation& before) {
    Made made;
    Observation expected = before;
    const auto changed = look([&](fs::Volume& volume) -> Result<> {
      const auto done = make_things(volume, made);
      if (!done && done.error() != Errc::kNoSpace && done.error() != Errc::kLogFull) return done;
      TRY(done ? grow_files(volume, expected) : remove_things(volume, made));
      TRY(volume.sync());
      const auto collected = volume.collect_garbage();
      const bool is_full = !collected && (collected.error() == Errc::kNoSpace ||
                                          collected.error() == Errc::kLogFull);
      return is_full ? ok() : collected;
    });
    if (!changed) return;
    const auto again = look({});
    if (!again) return;
    add("used on", differences(*changed, *again));
    Observation rest = *again;
    if (made.is_complete) take_out(rest, made, before);
    add("used on", differences(expected, rest));
    check("used on", true);
  }

  void take_out(Observation& from, const Made& made, const Observation& before) {
    for (const std::uint64_t inode : {made.file, made.copy}) {
      const auto found = from.inodes.find(inode);
      const bool is_kept = found != from.inodes.end() && found->second.contents == text();
      if (!is_kept) add("used on", {"a new file differs from what was written"});
      from.inodes.erase(inode);
    }
    from.inodes.erase(made.folder);
    Observed& root = from.inodes[fs::kRootInode.value];
    root.entries.erase("after");
    root.attributes = before.inodes.at(fs::kRootInode.value).attributes;
  }

  static std::string text() { return text_of(4711, 0, 5000); }

  static Result<> make_things(fs::Volume& volume, Made& made) {
    ASSIGN_OR_RETURN(const fs::Attributes folder,
                     volume.make_directory(fs::kRootInode, "after", 0755, {}));
    made.folder = folder.inode.value;
    ASSIGN_OR_RETURN(const fs::Created created, volume.create(folder.inode, "f", 0644, {}));
    volume.release(created.file);
    const InodeNo file = created.attributes.inode;
    made.file = file.value;
    const std::string bytes = text();
    TRY(volume.write(file, 0, std::as_bytes(std::span(bytes))));
    TRY(volume.fsync(file, nullptr, false));
    ASSIGN_OR_RETURN(const fs::Created copy, volume.create(folder.inode, "copy", 0644, {}));
    volume.release(copy.file);
    made.copy = copy.attributes.inode.value;
    ASSIGN_OR_RETURN(const std::uint64_t copied, volume.copy_range(file, 0, copy.attributes.inode,
                                                                   0, bytes.size(), false));
    made.is_complete = copied == bytes.size();
    return made.is_complete ? ok() : fail(Errc::kNoSpace);
  }

  // Extends every file that may be extended. Half of the files get a byte after a hole.
  static Result<> grow_files(fs::Volume& volume, Observation& expected) {
    for (auto& [inode, file] : expected.inodes) {
      const bool is_protected = (file.attributes.flags & (fs::kImmutable | fs::kAppendOnly)) != 0;
      if (!S_ISREG(file.attributes.mode) || is_protected) continue;
      file.contents.resize(file.contents.size() + 5000, '\0');
      Result<> grown = ok();
      if (inode % 2 == 0) {
        file.contents.back() = 'x';
        grown = volume.write(InodeNo{inode}, file.contents.size() - 1,
                             std::as_bytes(std::span("x").first(1)));
      } else if (const auto set = volume.set_attributes(
                     InodeNo{inode}, {.size = file.contents.size()}); !set) {
        grown = fail(set.error());
      }
      if (!grown) {  // the volume is full
        file.contents.resize(file.attributes.size);
        return grown.error() == Errc::kNoSpace ? ok() : grown;
      }
      file.attributes.size = file.contents.size();
    }
    return ok();
  }

  static Result<> remove_things(fs::Volume& volume, const Made& made) {
    if (made.file != 0) TRY(volume.unlink(InodeNo{made.folder}, "f"));
    if (made.copy != 0) TRY(volume.unlink(InodeNo{made.folder}, "copy"));
    return made.folder != 0 ? volume.remove_directory(fs::kRootInode, "after") : ok();
  }

  device::MemoryDevice& medium_;
  device::Device& device_;
  Problems problems_;
};

}  // namespace

std::vector<std::string> verify_state(device::MemoryDevice& medium, device::Device& device,
                                      const Oracle& oracle, bool also_use) {
  return Verifier(medium, device).run(oracle, also_use);
}

}  // namespace lazyfs::crash
