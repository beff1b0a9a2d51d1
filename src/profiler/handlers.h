// The handlers of the kernel's requests. Each one counts the calls that libfuse's high-level
// library would make for its request, passes the request to the backing directory, and replies
// once.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

namespace lazyfs::profiler {

// Each sets the handlers of its part.
void set_name_handlers(fuse_lowlevel_ops& to);       // names.cc
void set_attribute_handlers(fuse_lowlevel_ops& to);  // attributes.cc
void set_file_handlers(fuse_lowlevel_ops& to);       // files.cc
void set_directory_handlers(fuse_lowlevel_ops& to);  // directories.cc

// All handlers; if `is_classic`, without those that FUSE of 2012 did not have.
fuse_lowlevel_ops handlers(bool is_classic);

}  // namespace lazyfs::profiler
