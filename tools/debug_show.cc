#include "tools/debug_show.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/buffer.h"
#include "base/crc32c.h"
#include "fs/item/schema.h"
#include "meta/log/recovery.h"
#include "meta/log/restore_superblock.h"
#include "meta/store/store.h"
#include "meta/tree/node_page.h"
#include "tools/uuid.h"

namespace lazyfs {
namespace {

template <class T>
T need(const std::string& what, Result<T> result) {
  if (!result) throw std::runtime_error(what + ": " + std::string(describe(result.error())));
  return std::move(*result);
}

meta::Superblock superblock_of(device::Device& device) {
  return need(device.name(), meta::read_superblock(device));
}

std::unique_ptr<meta::Store> store_of(device::Device& device) {
  return need(device.name(),
              meta::Store::open(device, {.background = false, .read_only = true}));
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

// ---- Records ------------------------------------------------------------------------------------

// Takes a record's fields by their names in docs/format.md.
class FieldPrinter {
 public:
  template <std::unsigned_integral T>
  void operator()(std::string_view name, const T& value) {
    json_[name] = value;
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::string_view name, const T& value) {
    json_[name] = static_cast<std::uint64_t>(value);
  }
  template <class Tag, class Rep>
  void operator()(std::string_view name, const Id<Tag, Rep>& id) {
    json_[name] = id.value;
  }
  void operator()(std::string_view name, const Timestamp& time) {
    json_[name] = fmt::format("{}.{:09}", time.seconds, time.nanoseconds);
  }
  void operator()(std::string_view name, const meta::Key& key) {
    json_[name] = fmt::format("{}:{}:{}", key.owner, key.kind, key.offset);
  }
  template <std::unsigned_integral T>
  void constant(std::string_view, T) {}
  void reserved(std::size_t) {}
  template <std::size_t kBytes>
  void room(const std::array<std::byte, kBytes>&) {}
  void text(std::string_view name, std::string_view value) { json_[name] = value; }

  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

template <class Record>
Json json_of(const Record& record) {
  FieldPrinter printer;
  list_fields(printer, record);
  return printer.take();
}

template <class Record>
Json json_or_damaged(const Result<Record>& record) {
  return record ? json_of(*record) : Json("damaged");
}

Json json_of_map(std::span<const std::byte> value) {
  const auto record = fs::decode_map_record(value);
  if (!record) return "damaged";
  if (const auto* const extent = std::get_if<fs::ExtentRecord>(&*record)) {
    return Json::object({{"band", extent->at.band.value},
                         {"rba", extent->at.rba},
                         {"blocks", extent->blocks()}});
  }
  return json_of(std::get<fs::ReferenceRecord>(*record));
}

Json json_of_entries(std::span<const std::byte> value) {
  const auto entries = fs::decode_dentries(value);
  if (!entries) return "damaged";
  Json list = Json::array();
  for (const fs::DentryRecord& entry : *entries) list.push_back(json_of(entry));
  return list;
}

Json json_of_range(std::span<const std::byte> value) {
  const auto range = fs::decode_lost_range(value);
  if (!range) return "damaged";
  return json_of(fs::LostRangeFields{.first = range->first,
                                     .end = range->end.value_or(meta::Key{}),
                                     .has_end = range->end.has_value()});
}

Json value_of(const meta::Key& key, std::span<const std::byte> value) {
  switch (static_cast<fs::Kind>(key.kind)) {
    case fs::Kind::kInode: return json_or_damaged(fs::decode_inode(value));
    case fs::Kind::kDentryName: return json_of_entries(value);
    case fs::Kind::kDentrySeq: return json_or_damaged(fs::decode_dentry(value));
    case fs::Kind::kXattrName: return json_or_damaged(fs::decode_xattr(value));
    case fs::Kind::kExtent: return json_of_map(value);
    case fs::Kind::kReferenceCount: return json_or_damaged(fs::decode_reference_count(value));
    case fs::Kind::kCounters: return json_or_damaged(fs::decode_counters(value));
    case fs::Kind::kOrphan: return json_or_damaged(fs::decode_orphan(value));
    case fs::Kind::kBandSummary: return json_or_damaged(fs::decode_band_summary(value));
    case fs::Kind::kLostRange: return json_of_range(value);
    case fs::Kind::kAppendRecord: return json_or_damaged(fs::decode_append_record(value));
    case fs::Kind::kDeleteRecord: return json_or_damaged(fs::decode_delete_record(value));
    default: return hex_of(value);  // contents, values of attributes, targets
  }
}

const char* name_of_kind(std::uint8_t kind) {
  switch (static_cast<fs::Kind>(kind)) {
    case fs::Kind::kInode: return "inode";
    case fs::Kind::kDentryName: return "dentry by name";
    case fs::Kind::kDentrySeq: return "dentry by cookie";
    case fs::Kind::kSymlink: return "symlink";
    case fs::Kind::kXattrName: return "xattr name";
    case fs::Kind::kXattrValue: return "xattr value";
    case fs::Kind::kInline: return "inline data";
    case fs::Kind::kExtent: return "extent";
    case fs::Kind::kReferenceCount: return "reference count";
    case fs::Kind::kCounters: return "counters";
    case fs::Kind::kOrphan: return "orphan";
    case fs::Kind::kBandSummary: return "band summary";
    case fs::Kind::kLostRange: return "lost range";
    case fs::Kind::kAppendRecord: return "append record";
    case fs::Kind::kDeleteRecord: return "delete record";
  }
  return "unknown";
}

Json json_of_item(const meta::Key& key, std::span<const std::byte> value) {
  return Json::object({{"owner", key.owner},
                       {"kind", name_of_kind(key.kind)},
                       {"offset", key.offset},
                       {"value", value_of(key, value)}});
}

Json numbers(const std::vector<BandId>& bands) {
  Json list = Json::array();
  for (const BandId band : bands) list.push_back(band.value);
  return list;
}

// Calls `take` with each item of the owner, `most` at most.
void visit_items(meta::Store& store, std::uint64_t owner, std::uint64_t most,
                 const std::function<void(const meta::Item&)>& take) {
  constexpr std::size_t kItemsAtOnce = 1000;
  meta::Key from{owner, 0, 0};
  const meta::Key last{owner, UINT8_MAX, meta::kMaxOffset};
  while (most > 0) {
    const auto items =
        need("tree", store.scan(from, last, std::min<std::uint64_t>(kItemsAtOnce, most)));
    for (const meta::Item& item : items) take(item);
    most -= items.size();
    if (items.empty()) return;
    from = items.back().key;
    if (from == last) return;
    from = from.offset < meta::kMaxOffset
               ? meta::Key{from.owner, from.kind, from.offset + 1}
               : meta::Key{from.owner, static_cast<std::uint8_t>(from.kind + 1), 0};
  }
}

// ---- Nodes --------------------------------------------------------------------------------------

struct FoundImage {
  BandAddress at;
  Seq seq;
};

// In the parts of the log after the newest checkpoint; what is freed has no image.
std::optional<FoundImage> find_in_parts(const meta::RecoveredLog& log, std::uint64_t number,
                                        bool& is_freed) {
  for (auto part = log.parts.rbegin(); part != log.parts.rend(); ++part) {
    std::uint32_t image = 0;
    for (const meta::DescriptorEntry& entry : part->entries) {
      const bool is_node = entry.kind == meta::EntryKind::kImage;
      is_freed = entry.kind == meta::EntryKind::kFreed && entry.number == number;
      if (is_freed) return std::nullopt;
      if (is_node && entry.number == number) {
        const std::uint32_t rba = part->place.address.rba + part->descriptors + image;
        return FoundImage{{part->band, rba}, part->place.address.seq};
      }
      if (is_node || entry.kind == meta::EntryKind::kCheckpoint) ++image;
    }
  }
  return std::nullopt;
}

std::optional<FoundImage> find_in_checkpoint(const meta::MapCheckpoint& map,
                                             std::uint64_t number) {
  std::map<std::uint64_t, BandId> bands;
  for (const meta::ChainBand& band : map.chain) bands.emplace(band.slot, band.band);
  std::size_t at = 0;
  const auto search = [&](std::uint32_t nodes, BandId band,
                          Seq seq) -> std::optional<FoundImage> {
    for (std::uint32_t i = 0; i < nodes && at < map.nodes.size(); ++i, ++at) {
      const auto& live = map.nodes[at];
      if (live.node.value == number) return FoundImage{{band, live.rba}, seq};
    }
    return std::nullopt;
  };
  for (const auto& part : map.parts) {
    const auto& address = part.place.address;
    if (auto found = search(part.nodes, bands[address.slot], address.seq)) return found;
  }
  for (const auto& part : map.cold) {
    if (auto found = search(part.nodes, part.band, part.place.address.seq)) return found;
  }
  return std::nullopt;
}

}  // namespace

Json show_superblock(device::Device& device) {
  const meta::Superblock s = superblock_of(device);
  const Json features = Json::object({{"compat", s.features.compat},
                                      {"ro_compat", s.features.ro_compat},
                                      {"incompat", s.features.incompat}});
  return Json::object(
      {{"uuid", uuid_text(s.volume_uuid())},
       {"log_uuid", uuid_text(s.uuid)},
       {"label", s.label},
       {"sequence", s.sequence},
       {"flags", s.flags},
       {"ended_cleanly", s.ended_cleanly()},
       {"features", features},
       {"band_count", s.band_count},
       {"super_bands", numbers({s.super_bands[0], s.super_bands[1]})},
       {"bands_without_it", numbers(need(device.name(), meta::damaged_superblocks(device)))},
       {"session", s.session},
       {"session_start_seq", s.session_start_seq},
       {"durable_seq", s.durable_seq},
       {"head_slot", s.head_slot},
       {"head_rba", s.head_rba},
       {"head_blocks", s.head_blocks},
       {"created_seconds", s.created_seconds},
       {"mounts", s.mounts},
       {"last_mount_seconds", s.last_mount_seconds},
       {"last_check_seconds", s.last_check_seconds},
       {"min_log_bands", s.min_log_bands},
       {"log_bands", numbers(s.log_bands)}});
}

Json show_log(device::Device& device) {
  const auto store = store_of(device);
  const meta::StoreStats stats = store->stats();
  Json bands = Json::array();
  for (const auto& use : store->log_band_use()) {
    bands.push_back(Json::object({{"band", use.band.value},
                                  {"live_blocks", use.live_blocks},
                                  {"blocks", device.geometry().blocks_of(use.band)}}));
  }
  return Json::object({{"newest_transaction", store->durable_seq().value},
                       {"ended_cleanly", store->was_clean()},
                       {"nodes", stats.jmap_entries},
                       {"tree_height", stats.tree_height},
                       {"live_blocks", stats.log_live_blocks},
                       {"total_blocks", stats.log_total_blocks},
                       {"blocks_after_checkpoint", stats.log_blocks_after_checkpoint},
                       {"bands", bands}});
}

Json show_transactions(device::Device& device, std::uint64_t most) {
  const auto log = need(device.name(), meta::recover_log(device, superblock_of(device)));
  Json list = Json::array();
  for (auto part = log.parts.rbegin(); part != log.parts.rend() && most > 0; ++part, --most) {
    Json images = Json::array(), freed = Json::array();
    std::uint64_t data_blocks = 0;
    for (const meta::DescriptorEntry& entry : part->entries) {
      if (entry.kind == meta::EntryKind::kImage) images.push_back(entry.number);
      if (entry.kind == meta::EntryKind::kFreed) freed.push_back(entry.number);
      if (entry.kind == meta::EntryKind::kData) data_blocks += entry.blocks;
    }
    list.push_back(Json::object({{"transaction", part->place.address.seq.value},
                                 {"band", part->band.value},
                                 {"rba", part->place.address.rba},
                                 {"blocks", part->place.blocks},
                                 {"data_blocks", data_blocks},
                                 {"nodes", images},
                                 {"freed_nodes", freed}}));
  }
  return Json::object({{"newest_transaction", log.seq.value},
                       {"has_checkpoint", log.checkpoint.has_value()},
                       {"parts", list}});
}

Json show_node(device::Device& device, std::uint64_t number) {
  const meta::Superblock superblock = superblock_of(device);
  const auto log = need(device.name(), meta::recover_log(device, superblock));
  bool is_freed = false;
  auto found = find_in_parts(log, number, is_freed);
  if (!found && !is_freed && log.checkpoint) found = find_in_checkpoint(*log.checkpoint, number);
  const std::string name = "node " + std::to_string(number);
  if (!found) throw std::runtime_error(name + ": does not exist");
  AlignedBuffer image(kBlockBytes);
  if (const auto read = device.read(found->at, image.span()); !read) {
    throw std::runtime_error(name + ": " + std::string(describe(read.error())));
  }
  Json json = Json::object({{"node", number},
                            {"band", found->at.band.value},
                            {"rba", found->at.rba},
                            {"transaction", found->seq.value}});
  const auto bytes = std::span<const std::byte>(image.span()).first<kBlockBytes>();
  const std::uint32_t tag = crc32c(std::as_bytes(std::span(superblock.uuid)));
  if (const auto valid = meta::validate_node(bytes, NodeNo{number}, found->seq, tag); !valid) {
    json["damage"] = describe(valid.error());
    return json;
  }
  const meta::ConstNodePage page(image.span().data());
  json["level"] = page.level();
  Json items = Json::array();
  for (unsigned i = 0; i < page.count(); ++i) {
    const meta::Key key = page.key(i);
    items.push_back(page.is_leaf() ? json_of_item(key, page.value(i))
                                   : Json::object({{"owner", key.owner},
                                                   {"kind", name_of_kind(key.kind)},
                                                   {"offset", key.offset},
                                                   {"child", page.child(i).value}}));
  }
  json["items"] = items;
  return json;
}

Json show_items(device::Device& device, std::uint64_t owner, std::uint64_t most) {
  const auto store = store_of(device);
  Json list = Json::array();
  visit_items(*store, owner, most, [&](const meta::Item& item) {
    list.push_back(json_of_item(item.key, item.value));
  });
  return Json::object({{"items", list}});
}

Json show_inode(device::Device& device, std::uint64_t inode) {
  const auto store = store_of(device);
  std::map<std::uint8_t, std::uint64_t> counts;
  Json json = Json::object({{"inode", inode}, {"record", {}}});
  visit_items(*store, inode, UINT64_MAX, [&](const meta::Item& item) {
    if (item.key == fs::key_of(InodeNo{inode}, fs::Kind::kInode)) {
      json["record"] = value_of(item.key, item.value);
    } else {
      ++counts[item.key.kind];
    }
  });
  Json items = Json::object();
  for (const auto& [kind, count] : counts) items[name_of_kind(kind)] = count;
  json["items"] = items;
  return json;
}

}  // namespace lazyfs
