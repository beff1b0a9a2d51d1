#!/usr/bin/env python3
"""Changes that must be durable when a call returns (durable.sh).

    durable.py cases GROUP             prints the names of a group's cases
    durable.py prepare CASE FOLDER     makes the initial files of the case
    durable.py act CASE FOLDER MOUNT   makes the change and shuts the filesystem down
    durable.py found CASE FOLDER       exit status 0: the change exists
"""
import ctypes
import fcntl
import os
import stat
import sys

import async_io

SHUT_DOWN = 0x8004587D
SHUT_DOWN_AT_ONCE = 2
BLOCK = 4096
BLOCKS = 64
NEW = b"n" * BLOCK
AT = 5 * BLOCK
OLD_TIME = 5
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
LIBC = ctypes.CDLL(None, use_errno=True)


def make_file(path, data=b"o" * (BLOCK * BLOCKS)):
    with open(path, "wb") as file:
        file.write(data)


def read_at(path, length=BLOCK, offset=AT):
    with open(path, "rb") as file:
        return os.pread(file.fileno(), length, offset)


def write_with(flags, call_flags=0):
    def act():
        file = os.open("f", os.O_WRONLY | flags)
        assert os.pwritev(file, [async_io.aligned(NEW)], AT, call_flags) == BLOCK
    return act


def write_async(flags):
    def act():
        file = os.open("f", os.O_WRONLY | os.O_DIRECT | flags)
        async_io.Queue().write(file, NEW, [AT])
    return act


def write_and_fsync():
    file = os.open("f", os.O_WRONLY)
    assert os.pwrite(file, NEW, AT) == BLOCK
    os.fsync(file)


def name_unnamed():
    file = os.open("d", os.O_TMPFILE | os.O_RDWR, 0o600)
    if LIBC.linkat(AT_FDCWD, f"/proc/self/fd/{file}".encode(), AT_FDCWD, b"d/named",
                   AT_SYMLINK_FOLLOW) != 0:
        raise OSError(ctypes.get_errno(), "linkat")


def written():
    return read_at("f") == NEW


# The time of the change, too.
def written_later():
    return written() and os.stat("f").st_mtime > OLD_TIME




def make_names():
    make_file("f")
    os.utime("f", (OLD_TIME, OLD_TIME))
    os.setxattr("f", "user.old", b"old")
    os.makedirs("d/empty")
    make_file("d/old", b"old")


def copy():
    with open("d/old", "rb") as source, open("f", "r+b") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), 3, 0, 0) == 3


def allocate():
    with open("f", "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 2 * BLOCKS * BLOCK)


def list_of(path):
    return sorted(os.listdir(path))


# Name: (prepares, acts, returns whether the change exists).
WRITES = {
    "dsync": (make_names, write_with(os.O_DSYNC), written),
    "sync": (make_names, write_with(os.O_SYNC), written_later),
    "fsync": (make_names, write_and_fsync, written_later),
    "dsync_direct": (make_names, write_with(os.O_DSYNC | os.O_DIRECT), written),
    "dsync_call": (make_names, write_with(0, os.RWF_DSYNC), written),
    "sync_call": (make_names, write_with(0, os.RWF_SYNC), written_later),
    "dsync_async": (make_names, write_async(os.O_DSYNC), written),
    "sync_async": (make_names, write_async(os.O_SYNC), written_later),
}
NAMES = {
    "create": (make_names, lambda: os.close(os.open("d/new", os.O_CREAT | os.O_WRONLY)),
               lambda: "new" in list_of("d")),
    "mkdir": (make_names, lambda: os.mkdir("d/new"), lambda: "new" in list_of("d")),
    "mknod": (make_names, lambda: os.mkfifo("d/new"), lambda: "new" in list_of("d")),
    "symlink": (make_names, lambda: os.symlink("x", "d/new"), lambda: "new" in list_of("d")),
    "link": (make_names, lambda: os.link("f", "d/new"), lambda: "new" in list_of("d")),
    "link_unnamed": (make_names, name_unnamed, lambda: "named" in list_of("d")),
    "unlink": (make_names, lambda: os.unlink("f"), lambda: "f" not in list_of(".")),
    "rmdir": (make_names, lambda: os.rmdir("d/empty"), lambda: "empty" not in list_of("d")),
    "rename": (make_names, lambda: os.rename("d/old", "new"), lambda: "new" in list_of(".")),
}
CHANGES = {
    "write": (make_names, write_with(0), written_later),
    "chmod": (make_names, lambda: os.chmod("f", 0o741),
              lambda: stat.S_IMODE(os.stat("f").st_mode) == 0o741),
    "utime": (make_names, lambda: os.utime("f", (7, 7)), lambda: os.stat("f").st_mtime == 7),
    "truncate": (make_names, lambda: os.truncate("f", 7), lambda: os.stat("f").st_size == 7),
    "setxattr": (make_names, lambda: os.setxattr("f", "user.new", b"new"),
                 lambda: "user.new" in os.listxattr("f")),
    "removexattr": (make_names, lambda: os.removexattr("f", "user.old"),
                    lambda: "user.old" not in os.listxattr("f")),
    "fallocate": (make_names, allocate, lambda: os.stat("f").st_size == 2 * BLOCKS * BLOCK),
    "copy": (make_names, copy, lambda: read_at("f", 4, 0) == b"oldo"),
}
GROUPS = {"writes": WRITES, "names": NAMES, "changes": CHANGES}
CASES = WRITES | NAMES | CHANGES


def main():
    what, name = sys.argv[1:3]
    if what == "cases":
        print(*GROUPS[name])
        return
    before, act, found = CASES[name]
    os.chdir(sys.argv[3])
    if what == "prepare":
        before()
    elif what == "act":
        mount = os.open(sys.argv[4], os.O_RDONLY)
        act()
        fcntl.ioctl(mount, SHUT_DOWN, SHUT_DOWN_AT_ONCE.to_bytes(4, sys.byteorder))
        os._exit(0)  # what is open cannot be closed in order any more
    else:
        sys.exit(0 if found() else 1)


main()
