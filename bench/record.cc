// Records what programs do to files: record TRACE SOURCE MOUNTPOINT mounts a filesystem in memory
// under lazyfs' own request handlers, and records the requests (trace.h) until the unmount. So the
// trace has the writes as a daemon receives them: the kernel's page cache delays and joins them.
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "bench.h"
#include "bench/memory_volume.h"
#include "fuse/session/daemon.h"
#include "tools/command_line.h"
#include "trace.h"

namespace {

using namespace lazyfs;
using namespace lazyfs::bench;

constexpr std::chrono::milliseconds kPause{1000};  // shorter pauses are not recorded

// Thread-safe; mu_ is a leaf.
class Recorder final : public MemoryVolume {
 public:
  explicit Recorder(const std::string& path) : MemoryVolume(true), to_(path) {}

  bool good() {
    MutexLock lock(mu_);
    return to_.good();
  }
  Result<> unmount() override {
    MutexLock lock(mu_);
    put_last();
    to_.flush();
    must(to_.good(), "writing the trace");
    return ok();
  }
  Result<fs::Attributes> lookup(InodeNo parent, std::string_view name) override {
    note({});
    return MemoryVolume::lookup(parent, name);
  }
  Result<std::size_t> read(InodeNo inode, std::uint64_t offset, std::span<std::byte> to,
                           bool note_access) override {
    note({});
    return MemoryVolume::read(inode, offset, to, note_access);
  }
  Result<fs::Attributes> make_node(InodeNo parent, std::string_view name, std::uint32_t mode,
                                   std::uint64_t rdev, fs::Owner owner) override {
    ASSIGN_OR_RETURN(const fs::Attributes made,
                     MemoryVolume::make_node(parent, name, mode, rdev, owner));
    if (S_ISREG(mode)) note(TraceRecord{TraceKind::kCreate, made.inode.value});
    return made;
  }
  Result<> write(InodeNo inode, std::uint64_t offset, std::span<const std::byte> from,
                 fs::WriteFlags flags) override {
    TRY(MemoryVolume::write(inode, offset, from, flags));
    note(TraceRecord{TraceKind::kWrite, inode.value, offset, from.size()});
    return ok();
  }
  Result<fs::Attributes> set_attributes(InodeNo inode, const fs::AttributeChange& change) override {
    ASSIGN_OR_RETURN(const fs::Attributes set, MemoryVolume::set_attributes(inode, change));
    if (change.size) note(TraceRecord{TraceKind::kTruncate, inode.value, *change.size});
    return set;
  }
  Result<> fsync(InodeNo inode, fs::OpenFile*, bool) override {
    note(TraceRecord{TraceKind::kFsync, inode.value});
    return ok();
  }
  Result<> sync() override {
    note(TraceRecord{TraceKind::kSync});
    return ok();
  }

 private:
  void dropped(InodeNo inode, std::uint32_t mode) override {
    if (S_ISREG(mode)) note(TraceRecord{TraceKind::kDelete, inode.value});
  }
  // Adds the record, if any, and a pause before it. A request that changes nothing has no record.
  void note(std::optional<TraceRecord> record) {
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(mu_);
    const auto quiet = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_time_);
    last_time_ = std::max(last_time_, now);
    if (quiet >= kPause) {
      put_last();
      print(to_, {TraceKind::kPause, 0, static_cast<std::uint64_t>(quiet.count())});
    }
    if (!record) return;
    if (last_ && record->kind == TraceKind::kWrite && last_->kind == TraceKind::kWrite &&
        record->file == last_->file && record->value == last_->value + last_->length) {
      last_->length += record->length;
      return;
    }
    put_last();
    last_ = record;
  }
  void put_last() REQUIRES(mu_) {
    if (last_) print(to_, *last_);
    last_.reset();
  }

  Mutex mu_;
  std::ofstream to_ GUARDED_BY(mu_);
  std::optional<TraceRecord> last_ GUARDED_BY(mu_);  // it may be joined with the next one
  std::chrono::steady_clock::time_point last_time_ GUARDED_BY(mu_) =
      std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  CommandLine app(
      "record",
      "Mounts a filesystem in memory, and records what is done to its files.",
      nullptr);
  fuse::DaemonPlan plan;
  std::string trace;
  app.option("TRACE", trace, "new file for the trace").required();
  app.option("SOURCE", plan.source, "any name").required();
  app.option("MOUNTPOINT", plan.mount_point).required();
  if (const auto status = app.parse(argc, argv)) return *status;
  plan.program = "record";
  plan.foreground = true;
  const auto options = fuse::parse_options({}, true);
  if (!options) {
    std::fprintf(stderr, "record: %s\n", options.error().c_str());
    return 1;
  }
  plan.options = *options;
  return fuse::run_daemon(
      plan,
      [&](const fuse::DaemonPlan&) -> std::expected<std::shared_ptr<fs::Volume>, std::string> {
        auto recorder = std::make_shared<Recorder>(trace);
        if (!recorder->good()) return std::unexpected(trace + ": cannot be written");
        return recorder;
      });
}
