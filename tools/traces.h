// Finds remains of a lazyfs on a device or in a file, so that no program takes a damaged volume for
// an empty disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lazyfs {

// Where superblocks may lie on a device of `bytes` bytes: the first blocks of the super bands of
// plain block devices, images and zoned devices whose bands are a power of two, from 64 KiB on.
// Ascending, each once.
std::vector<std::uint64_t> superblock_places(std::uint64_t bytes);

// Looks for an identification block or its copy, a header of an EDI or its copy, a block of its
// write pointer table, and superblocks, damaged ones included. Returns for example "superblock at
// byte 1048576", nullopt when nothing is found or nothing can be read.
std::optional<std::string> find_lazyfs_traces(const std::string& path);

}  // namespace lazyfs
