// What the daemon may do once it serves: as little as serving takes. docs/security.md says against
// what that helps.
#pragma once

namespace lazyfs::fuse {

// Gives up, for this thread and those that it starts, every capability that mounting and serving do
// not need: what is left is CAP_SYS_ADMIN (mount), CAP_SYS_PTRACE (to fetch
// the flag of FS_IOC_SHUTDOWN from its caller), CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (to open
// the device). For root's daemons; others have none to give up.
void drop_capabilities();

// From now on all threads of the process get no new privileges, and the kernel refuses them what
// the daemon never does: starting programs, opening files for writing, making, renaming or removing
// names, changing owners, modes or extended attributes, network sockets, listening, mounting,
// tracing, signals to others, loading code into the kernel, changing identity or namespaces. For
// root's daemons: others need fusermount3.
// Says in the log when the kernel cannot do that.
void confine();

}  // namespace lazyfs::fuse
