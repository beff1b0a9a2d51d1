// Conversion between the filesystem's types and the kernel's structures.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fs/item/attributes.h"

namespace lazyfs::fuse {

struct stat to_stat(const fs::Attributes& attributes);
struct statvfs to_statvfs(const fs::SpaceReport& space);

// `to_set` is libfuse's FUSE_SET_ATTR_* mask, without FATTR_KILL_SUIDGID, which is `clear_set_id`.
fs::AttributeChange to_change(const struct stat& values, int to_set, bool clear_set_id);

}  // namespace lazyfs::fuse
