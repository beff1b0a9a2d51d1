// The initial volumes and the workloads of the crash tests.
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
// Small bands. Most of them are written and have both live and dead blocks.
Image worn_image();
// The same, and each second three bands are half as long as the others.
Image halved_image();
// A log of the minimum size, nearly full of live nodes.
Image crowded_image();
// A volume without space for file data.
Image full_image();
// Files of hundreds of extents, and a log so small that freeing them takes many transactions.
Image ragged_image();
// Bands of different sizes, some of them conventional or without blocks. The device cannot set a
// write pointer back and limits the number of open bands.
Image mixed_image();

// Every operation on the names of small_image(), in each form that matters.
std::vector<Operation> alphabet();

// The step between two operations of a pair, and after the second one.
enum class Between : std::uint8_t { kNothing, kTick, kFsync, kSync };
inline constexpr int kBetweens = 4;
// Returns one or two operations and a sync. Each write gets its own tag.
Workload sequence(const Operation& only);
Workload sequence(const Operation& first, Between between, const Operation& second);

// Returns `length` operations on the names of small_image() and a few others.
Workload random_workload(std::mt19937_64& random, std::size_t length);
// For worn_image() and halved_image(): overwrites, deletes, collects garbage.
Workload wearing_workload(std::mt19937_64& random, std::size_t length);
// For crowded_image(): adds and removes so many names and attributes that the log grows and
// shrinks.
Workload crowding_workload(std::mt19937_64& random, std::size_t length);
// For full_image(): continues to write when no space is left.
Workload filling_workload(std::mt19937_64& random, std::size_t length);
// For ragged_image(): truncates and deletes.
Workload cutting_workload(std::mt19937_64& random, std::size_t length);
// Mounts, unmounts, and kills the daemon, so that super bands are reset and written again.
Workload remounting_workload(std::mt19937_64& random, std::size_t length);

}  // namespace lazyfs::crash
