#include "fsck/context.h"

#include <algorithm>

#include "base/check.h"
#include "fsck/path.h"

namespace lazyfs::fsck {
namespace {

constexpr std::uint64_t kProgressStep = 1024;

}  // namespace

std::string_view to_string(BandFacts::Use use) {
  switch (use) {
    case BandFacts::Use::kData: return "file data";
    case BandFacts::Use::kSuper: return "superblocks";
    case BandFacts::Use::kLog: return "metadata";
  }
  return "";
}

std::string_view type_name(std::uint8_t type) {
  switch (type) {
    case kSharedType: return "shared-extent inode";
    case 1: return "pipe";
    case 2: return "character device";
    case kDirectoryType: return "directory";
    case 6: return "block device";
    case kRegularType: return "file";
    case kSymlinkType: return "symbolic link";
    case 12: return "socket";
    default: return "thing of no known type";
  }
}

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kRemove: return "removed";
    case Action::kMove: return "moved";
    case Action::kCorrect: return "corrected";
    case Action::kRebuild: return "rebuilt";
    case Action::kTruncate: return "truncated";
    case Action::kCopy: return "copied";
  }
  return "";
}

std::optional<meta::Key> successor(meta::Key key) {
  if (++key.offset != 0) return key;
  if (++key.kind != 0) return key;
  if (++key.owner != 0) return key;
  return std::nullopt;
}

Context::Context(Mode mode, meta::Store& the_store, device::Device& the_device, Timestamp the_time,
                 const FindingListener& listener, const ProgressListener& progress)
    : store(the_store),
      device(the_device),
      now(the_time),
      name_seed(seed_of(the_store.superblock().uuid)),
      mode_(mode),
      listener_(listener),
      progress_(progress) {
  const auto item = store.get(key_of(kRootInode, Kind::kInode));
  const auto root = item && *item ? decode_inode(**item) : fail(Errc::kItemBad);
  root_seed = root ? name_seed_of(*root, name_seed) : name_seed;
}

Result<> Context::learn_bands() {
  const device::Geometry& geometry = device.geometry();
  bands.resize(geometry.band_count());
  for (std::uint32_t i = 0; i < geometry.band_count(); ++i) {
    bands[i].blocks = geometry.band_blocks[i];
    ASSIGN_OR_RETURN(bands[i].device, device.report(BandId{i}));
    bands[i].is_end_known = device.capabilities().keeps_write_pointers;
  }
  const auto mark = [&](BandId id, BandFacts::Use use) {
    BandFacts* facts = band(id);
    if (!facts) {
      return problem("Band {} holds {}, but the device has no such band", id.value, to_string(use));
    }
    if (facts->use != BandFacts::Use::kData) {
      problem("Band {} holds {}, but it has another use already", id.value, to_string(use));
    }
    facts->use = use;
  };
  for (const BandId id : store.superblock().super_bands) mark(id, BandFacts::Use::kSuper);
  for (const BandId id : store.log_bands()) mark(id, BandFacts::Use::kLog);
  return ok();
}

bool Context::found(Action action, std::string text) {
  if (!repairs()) {
    report.problems += 1;
    listener_(text + ".");
    return false;
  }
  repaired("{}: {}", text, to_string(action));
  return true;
}

void Context::lost_blocks(InodeNo inode, std::uint64_t file_block, std::uint64_t blocks,
                          std::string_view why) {
  repaired("Inode {}: {} blocks from block {} on {}: they are lost, and read as zeros", inode.value,
           blocks, file_block, why);
  repair.lost_blocks += blocks;
  std::vector<Loss>& losses = repair.losses;
  if (!losses.empty() && losses.back().inode == inode && losses.back().blocks > 0) {
    losses.back().blocks += blocks;
  } else {
    add_loss({.inode = inode, .blocks = blocks});
  }
}

void Context::lost_other(InodeNo inode, std::string_view what) {
  repaired("Inode {}: it has lost {}", inode.value, what);
  std::vector<Loss>& losses = repair.losses;
  if (losses.empty() || losses.back().inode != inode || losses.back().is_whole()) {
    return add_loss({.inode = inode, .other = std::string(what)});
  }
  std::string& other = losses.back().other;
  other += (other.empty() ? "" : "; ") + std::string(what);
}

void Context::lost_name(InodeNo directory, const DentryRecord& entry) {
  add_loss({.inode = entry.inode, .directory = directory, .path = "/" + entry.name});
}

void Context::add_loss(Loss loss) {
  repair.losses_counted += 1;
  if (repair.losses.size() < kMaxLosses) repair.losses.push_back(std::move(loss));
}

void Context::find_paths_of_losses() {
  for (Loss& loss : repair.losses) {
    if (!good()) return;
    loss.path = path_of(*this, loss.is_whole() ? loss.directory : loss.inode) + loss.path;
    if (loss.inode == kRootInode) loss.path = "/";
  }
}

bool Context::bad_item_finding(Action action, const meta::Key& key) {
  return finding(action, "Item (owner {:#x}, kind {}, offset {}) holds impossible values",
                 key.owner, key.kind, key.offset);
}

void Context::bad_item(const meta::Key& key) {
  if (bad_item_finding(Action::kRemove, key)) erase(key);
}

void Context::stray_item(const meta::Key& key) {
  if (finding(Action::kRemove, "Item (owner {:#x}, kind {}, offset {}) belongs to nothing",
              key.owner, key.kind, key.offset)) {
    erase(key);
  }
}

void Context::progress(std::string_view stage, StageProgress progress) {
  if (!progress_ || stage.empty() || progress.done < next_progress_) return;
  next_progress_ = progress.done + kProgressStep;
  progress_(stage, progress);
}

void Context::progress_now(std::string_view stage, StageProgress progress) {
  next_progress_ = 0;
  if (progress_ && !stage.empty()) progress_(stage, progress);
}

// ---- Items --------------------------------------------------------------------------------------

std::optional<meta::Value> Context::get(meta::Key key) {
  auto value = store.get(key);
  if (value) return std::move(*value);
  unreadable(key, value.error());
  return std::nullopt;
}

std::optional<InodeRecord> Context::inode(InodeNo no) {
  const auto value = get(key_of(no, Kind::kInode));
  if (!value) return std::nullopt;
  auto record = decode_inode(*value);
  return record ? std::optional(*record) : std::nullopt;
}

void Context::unreadable(const meta::Key& from, Errc error) {
  if (repairs()) return fail_with(error);
  report.complete = false;
  problem("Items from (owner {:#x}, kind {}, offset {}) on cannot be read: {}", from.owner,
          from.kind, from.offset, describe(error));
}

void Context::put(meta::Key key, std::span<const std::byte> value) {
  meta::Batch batch;
  batch.put(key, value);
  apply(batch);
}

void Context::put_inode(InodeNo no, const InodeRecord& record) {
  put(key_of(no, Kind::kInode), encode(record));
}

void Context::erase(meta::Key key) {
  meta::Batch batch;
  batch.erase(key);
  apply(batch);
}

void Context::apply(const meta::Batch& batch) {
  CHECK(repairs());  // C1
  if (!good()) return;
  edits_ += 1;
  const auto applied = store.apply(batch, meta::Reserve::kDelete);
  if (!applied) fail_with(applied.error());
}

// ---- Facts --------------------------------------------------------------------------------------

std::uint32_t Context::readable_blocks(BandId id) const {
  if (id.value >= bands.size() || bands[id.value].use != BandFacts::Use::kData) return 0;
  const BandFacts& facts = bands[id.value];
  if (facts.device.condition == device::BandCondition::kOffline) {  // it may come back
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(facts.summary.appended, facts.blocks));
  }
  if (facts.device.kind == device::BandKind::kConventional) return facts.blocks;
  return facts.device.write_pointer;
}

bool Context::can_rebuild(BandId id) const {
  return !repairs() || id.value >= bands.size() ||
         bands[id.value].device.condition != device::BandCondition::kOffline;
}

void Context::add_blocks(const ExtentRecord& extent) {
  BandFacts& facts = bands.at(extent.at.band.value);
  facts.extents += 1;
  facts.live.add(extent.at.rba, extent.blocks());
}

void Context::remove_blocks(BandAddress first, std::uint32_t blocks) {
  bands.at(first.band.value).live.remove(first.rba, blocks);
}

InodeFacts* Context::find_inode(InodeNo inode) {
  const auto at = std::ranges::lower_bound(inodes, inode, {}, &InodeFacts::inode);
  return at != inodes.end() && at->inode == inode ? &*at : nullptr;
}

std::optional<OrphanRecord::Work> Context::orphan_work(InodeNo inode) const {
  const auto at = std::ranges::lower_bound(orphans, inode, {}, &OrphanFacts::inode);
  if (at == orphans.end() || at->inode != inode) return std::nullopt;
  return at->work;
}

std::span<const NameFacts> Context::names_of(InodeNo inode) const {
  const auto range = std::ranges::equal_range(names, inode, {}, &NameFacts::inode);
  return {range.begin(), range.end()};
}

bool Context::is_target(InodeNo inode) const { return std::ranges::binary_search(targets, inode); }

InodeNo Context::new_inode() {
  InodeNo no;
  do {  // only a damaged volume has the highest number in use
    no = InodeNo{last_inode < kMaxInode ? ++last_inode : lowest_free_++};
  } while (find_inode(no) || is_target(no) || !names_of(no).empty() || orphan_work(no));
  return no;
}

}  // namespace lazyfs::fsck
