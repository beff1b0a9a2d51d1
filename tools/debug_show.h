// What lazyfs-debug prints: the structures of a volume, as JSON objects.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "device/device.h"

namespace lazyfs {

// All functions throw std::runtime_error("what: why").

// The newest superblock, and the super bands that lack it.
Json show_superblock(device::Device& device);
// The bands of the metadata log, what they hold, and how the log ends.
Json show_log(device::Device& device);
// The newest transactions, newest first, as far back as the newest checkpoint; `most` at most.
Json show_transactions(device::Device& device, std::uint64_t most);
// Where the newest image of a node lies, and its items.
Json show_node(device::Device& device, std::uint64_t number);
// The items of an owner of docs/format.md (an inode, for example); `most` at most.
Json show_items(device::Device& device, std::uint64_t owner, std::uint64_t most);
// The record of an inode, and how many items of which kind it has.
Json show_inode(device::Device& device, std::uint64_t inode);

}  // namespace lazyfs
