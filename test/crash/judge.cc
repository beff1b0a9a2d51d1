#include "crash/judge.h"

#include "base/crc32c.h"
#include "crash/observation.h"
#include "crash/trace.h"
#include "fs/check.h"
#include "meta/store.h"

namespace lazyfs::crash {
namespace {

using Problems = std::vector<std::string>;

class Judge {
 public:
  explicit Judge(device::Device& device) : device_(device) {}

  Problems run(std::span<const Model> models, bool use_on) {
    check("before the mount", false);
    const auto seen = look({});
    if (!seen) return std::move(problems_);
    add("after the mount", closest(models, *seen));
    check("after the mount", true);
    if (use_on && problems_.empty()) use(*seen);
    return std::move(problems_);
  }

 private:
  void add(const std::string& when, const Problems& found) {
    for (const std::string& problem : found) problems_.push_back(when + ": " + problem);
  }

  // What fsck.lazyfs would say.
  void check(const std::string& when, bool data) {
    meta::StoreOptions options;
    options.cache_bytes = std::size_t{1} << 20;
    options.background = false;
    options.read_only = true;
    auto store = meta::Store::open(device_, options);
    if (!store) return add(when, {"check: " + std::string(describe(store.error()))});
    const auto report = fs::check(**store, device_, {.data = data},
                                  [&](const std::string& text) { add(when, {"check: " + text}); });
    if (!report) add(when, {"check: " + std::string(describe(report.error()))});
  }

  // Mounts, does `work` if any, and looks at everything. The mount ends as if by a power cut that
  // loses nothing, or by an unmount if there was work.
  std::optional<Observation> look(const std::function<Result<>(fs::Volume&)>& work) {
    HandClock clock;
    auto volume = fs::Volume::mount(device_, quiet_options(), clock);
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
    if (work && !(*volume)->unmount()) add("use", {"it cannot be unmounted"});
    if (!work) (*volume)->shut_down();
    return seen;
  }

  static Problems closest(std::span<const Model> models, const Observation& seen) {
    Problems best;
    for (std::size_t i = models.size(); i-- > 0;) {
      Problems found = models[i].differences(seen, true);
      if (found.empty()) return found;
      if (best.empty() || found.size() < best.size()) best = std::move(found);
    }
    return best;
  }

  // A recovered volume takes files, keeps them, and everything else stays as it was.
  void use(const Observation& before) {
    std::uint64_t folder = 0, file = 0;
    const std::string text = text_of(4711, 0, 5000);
    const auto changed = look([&](fs::Volume& volume) -> Result<> {
      ASSIGN_OR_RETURN(const fs::Attributes made,
                       volume.make_directory(fs::kRootInode, "after", 0755, {}));
      folder = made.inode.value;
      ASSIGN_OR_RETURN(const fs::Created created, volume.create(made.inode, "f", 0644, {}));
      volume.release(created.file);
      file = created.attributes.inode.value;
      TRY(volume.write(created.attributes.inode, 0, std::as_bytes(std::span(text))));
      return volume.fsync(created.attributes.inode, nullptr, false);
    });
    if (!changed) return;
    const auto again = look({});
    if (!again) return;
    add("used on", differences(*changed, *again));
    Observation rest = *again;
    const auto found = rest.inodes.find(file);
    const bool is_kept = found != rest.inodes.end() && found->second.contents == text;
    if (!is_kept) add("used on", {"the file that was made is not as it was written"});
    rest.inodes.erase(file);
    rest.inodes.erase(folder);
    Observed& root = rest.inodes[fs::kRootInode.value];
    root.entries.erase("after");
    root.attributes = before.inodes.at(fs::kRootInode.value).attributes;
    add("used on", differences(before, rest));
    check("used on", true);
  }

  device::Device& device_;
  Problems problems_;
};

}  // namespace

std::vector<std::string> judge(device::Device& device, std::span<const Model> models,
                               bool use_on) {
  return Judge(device).run(models, use_on);
}

}  // namespace lazyfs::crash
