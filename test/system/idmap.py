#!/usr/bin/env python3
"""An idmapped mount:  idmap.py FOLDER MAPPED [refused]

MAPPED becomes a second mount of FOLDER, in which user and group 1000 of the filesystem are 2000.
With "refused" the kernel must refuse it. Runs as root.
"""
import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
import sys

from users import as_user

LIBC = ctypes.CDLL(None, use_errno=True)
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_EMPTY_PATH = 1, 4, 0x1000
MOUNT_ATTR_IDMAP, CLONE_NEWUSER = 0x100000, 0x10000000
AT_FDCWD = -100
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
CLEAN = 0xC028ED0E
ON_DISK, SHOWN, STRANGER = 1000, 2000, 3000


def call(number, *words):
    result = LIBC.syscall(number, *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result


def user_namespace():
    """A descriptor of a namespace whose user and group ON_DISK are SHOWN."""
    child = os.fork()
    if child == 0:
        LIBC.unshare(CLONE_NEWUSER)
        os.kill(os.getpid(), signal.SIGSTOP)  # until the namespace is open
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    for kind in ("uid", "gid"):
        with open(f"/proc/{child}/{kind}_map", "w", encoding="ascii") as file:
            file.write(f"{ON_DISK} {SHOWN} 1\n")
    namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return namespace


def mount_mapped(folder, mapped):
    os.makedirs(mapped, exist_ok=True)
    tree = call(OPEN_TREE, AT_FDCWD, folder.encode(), OPEN_TREE_CLONE)
    attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, user_namespace())
    call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, attributes, len(attributes))
    call(MOVE_MOUNT, tree, b"", AT_FDCWD, mapped.encode(), MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"idmap.py: {what}: {found}, not {wanted}")


def owner(path):
    found = os.lstat(path)
    return found.st_uid, found.st_gid


def make_all(folder):
    """One of each kind of inode."""
    with open(f"{folder}/file", "wb") as file:
        file.write(bytes(64 << 10))
    os.mkdir(f"{folder}/folder")
    os.symlink("file", f"{folder}/link")
    os.mkfifo(f"{folder}/fifo")
    os.link(f"{folder}/file", f"{folder}/again")


def punch(path):
    with open(path, "r+b") as file:
        if LIBC.fallocate(file.fileno(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          ctypes.c_long(0), ctypes.c_long(4096)) != 0:
            raise OSError(ctypes.get_errno(), path)


def check_owners(folder, mapped):
    home = f"{folder}/home"
    os.mkdir(home)
    os.chown(home, ON_DISK, ON_DISK)
    expect("the folder through the mapped mount", owner(f"{mapped}/home"), (SHOWN, SHOWN))
    expect("making files as 2000", as_user(SHOWN, lambda: make_all(f"{mapped}/home")), 0)
    for name in ("file", "folder", "link", "fifo", "again"):
        expect(f"{name}, mapped", owner(f"{mapped}/home/{name}"), (SHOWN, SHOWN))
        expect(f"{name} on the disk", owner(f"{home}/{name}"), (ON_DISK, ON_DISK))
    os.chmod(home, 0o777)
    expect("a user that is not mapped, where all may write",
           as_user(STRANGER, lambda: os.mkdir(f"{mapped}/home/no")), errno.EOVERFLOW)
    expect("a change of mode by the owner",
           as_user(SHOWN, lambda: os.chmod(f"{mapped}/home/file", 0o640)), 0)
    expect("the mode", stat.S_IMODE(os.stat(f"{home}/file").st_mode), 0o640)
    os.chown(f"{mapped}/home/folder", SHOWN, -1)
    expect("chown through the mapped mount", owner(f"{home}/folder"), (ON_DISK, ON_DISK))


def check_set_id(folder, mapped):
    """A hole drops the bits, whoever punches it; without the option root keeps them."""
    path = f"{folder}/home/file"
    os.chmod(path, 0o6770)
    punch(path)
    expect("the mode after root's hole", stat.S_IMODE(os.stat(path).st_mode), 0o770)
    os.chmod(path, 0o6770)
    expect("the owner's hole", as_user(SHOWN, lambda: punch(f"{mapped}/home/file")), 0)
    expect("the mode after the owner's hole", stat.S_IMODE(os.stat(path).st_mode), 0o770)


def check_rights(folder):
    path = f"{folder}/home/file"
    os.setxattr(path, "trusted.one", b"1")
    os.setxattr(path, "user.two", b"2")
    expect("attributes for root", sorted(os.listxattr(path)), ["trusted.one", "user.two"])
    expect("attributes for the owner", as_user(
        ON_DISK, lambda: expect("", os.listxattr(path), ["user.two"])), 0)

    def ask_for_cleaning():
        file = os.open(folder, os.O_RDONLY)
        fcntl.ioctl(file, CLEAN, bytes(40))
    os.chmod(folder, 0o755)
    expect("cleaning asked for by a user", as_user(ON_DISK, ask_for_cleaning), errno.EPERM)


def check_acls(folder):
    """A list drops the set-group-ID bit of a file, but not of a directory."""
    # u::rwx u:3000:rwx g::rwx m::rwx o::---
    entries = ((1, 7, -1), (2, 7, STRANGER), (4, 7, -1), (16, 7, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    for path, wanted in ((f"{folder}/home/file", 0o770), (f"{folder}/home/folder", 0o2770)):
        for user in (0, ON_DISK):
            os.chmod(path, 0o2770)
            expect(f"a list of {path} by {user}",
                   as_user(user, lambda: os.setxattr(path, "system.posix_acl_access", acl)), 0)
            expect(f"the mode after {user}'s list", stat.S_IMODE(os.stat(path).st_mode), wanted)


def main():
    folder, mapped = sys.argv[1:3]
    try:
        mount_mapped(folder, mapped)
    except OSError as error:
        expect("the mapped mount", error.errno, errno.EINVAL)
        if sys.argv[3:] == ["refused"]:
            return
        raise
    try:
        if sys.argv[3:] == ["refused"]:
            sys.exit("idmap.py: a mapped mount is possible without the option")
        check_owners(folder, mapped)
        check_set_id(folder, mapped)
        check_rights(folder)
        check_acls(folder)
    finally:
        LIBC.umount2(mapped.encode(), 0)


if __name__ == "__main__":
    main()
