// Takes from the daemon every right that serving does not need. docs/security.md says what that
// helps against.
#pragma once

namespace lazyfs::fuse {

// Gives up, for this thread and those that it starts, every capability that mounting and serving do
// not need. CAP_SYS_ADMIN (mount), CAP_SYS_PTRACE (to read the flag of FS_IOC_SHUTDOWN from its
// caller), CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (to open the device) remain. For root's
// daemons; others have none to give up.
void drop_capabilities();

// From now on all threads of the process get no new privileges, and the kernel refuses them what
// the daemon never does: starting programs, opening files for writing, making, renaming or removing
// names, changing owners, modes or extended attributes, network sockets, listening, mounting,
// tracing, signals to others, loading code into the kernel, changing identity or namespaces. For
// root's daemons: others need fusermount3. Logs a warning when the kernel cannot do that.
void confine();

}  // namespace lazyfs::fuse
