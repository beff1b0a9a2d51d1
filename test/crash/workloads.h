// Where power cuts are tried: volumes to begin with, and what is done to them.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "crash/trace.h"

namespace lazyfs::crash {

// Files of several blocks and of a few bytes, two folders, two names of one file, a symbolic link,
// an attribute.
Workload small_setup();
Image small_image();
// Small bands, most of them written, with live and dead blocks side by side.
Image worn_image();
// A log of the least size that is nearly full of live nodes.
Image crowded_image();
// Nothing is left for files.
Image full_image();
// Files of hundreds of extents, and a log so small that it takes many transactions to free them.
Image ragged_image();
// Bands of different sizes, some of them conventional or without blocks; no write pointer can be
// set back, and few bands may be open at once.
Image mixed_image();

// Every operation on the names of small_image(), each in the forms that differ.
std::vector<Operation> alphabet();

// What is done between two operations of a pair, and behind the second one.
enum class Between : std::uint8_t { kNothing, kTick, kFsync, kSync };
inline constexpr int kBetweens = 4;
// One or two operations, then a sync. Tags are given so that no two writes are alike.
Workload sequence(const Operation& only);
Workload sequence(const Operation& first, Between between, const Operation& second);

// `length` operations on names that small_image() has and some more.
Workload random_workload(std::mt19937_64& random, std::size_t length);
// The same for worn_image(): overwriting, deleting, collecting.
Workload wearing_workload(std::mt19937_64& random, std::size_t length);
// For crowded_image(): so many names and attributes come and go that the log grows and shrinks.
Workload crowding_workload(std::mt19937_64& random, std::size_t length);
// For full_image(): writing goes on when nothing is left.
Workload filling_workload(std::mt19937_64& random, std::size_t length);
// For ragged_image(): cutting and deleting.
Workload cutting_workload(std::mt19937_64& random, std::size_t length);
// Mounts and unmounts, and kills the daemon, so that the superblocks' bands are begun anew.
Workload remounting_workload(std::mt19937_64& random, std::size_t length);

}  // namespace lazyfs::crash
