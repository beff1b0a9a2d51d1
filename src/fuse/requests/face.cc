#include "fuse/requests/face.h"

#include <nlohmann/json.hpp>

#include "base/log.h"

namespace lazyfs::fuse {

std::string_view name_of(Operation operation) {
  static constexpr std::string_view kNames[] = {
#define X(name) #name,
      LAZYFS_OPERATIONS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(operation)];
}

std::uint64_t SnapshotShelf::put(std::string text) {
  MutexLock lock(mu_);
  texts_[++last_ % kKept] = std::move(text);
  return last_;
}

std::optional<SnapshotShelf::Piece> SnapshotShelf::get(std::uint64_t snapshot, std::size_t offset,
                                                       std::size_t length) const {
  MutexLock lock(mu_);
  if (snapshot == 0 || snapshot > last_ || snapshot + kKept <= last_) return {};
  const std::string& text = texts_[snapshot % kKept];
  if (offset > text.size()) return {};
  return Piece{text.substr(offset, length), text.size()};
}

std::string stats_json(const Face& face) {
  auto stats = nlohmann::ordered_json::parse(face.volume.stats_json(), nullptr, false);
  if (!stats.is_object()) {
    log::error("fuse: the volume's statistics are not a JSON object");
    stats = nlohmann::ordered_json::object();
  }
  auto& operations = stats["operations"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kOperationCount; ++i) {
    const auto operation = static_cast<Operation>(i);
    operations[std::string(name_of(operation))] = face.counts.of(operation);
  }
  stats["transport"] = nlohmann::ordered_json::parse(face.transport_json(), nullptr, false);
  return stats.dump();
}

}  // namespace lazyfs::fuse
