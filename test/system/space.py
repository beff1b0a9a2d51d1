#!/usr/bin/env python3
"""Checks that space is reported correctly. Each command needs an empty mounted filesystem and
leaves it empty.

    space.py fill FOLDER             writes until ENOSPC: as many bytes as statfs reports available,
                                     and no more. All files are intact, overwriting works on the
                                     full disk, rm works at once and frees the space
    space.py late FOLDER             for the kernel's write-back cache: fsync, close, and a write
                                     that follows, give ENOSPC. All that fsync took is intact
    space.py rewrite FOLDER          rewrites a file of a quarter of the disk, 16 times
    space.py scatter FOLDER SEED     overwrites 4 KiB at random in files that fill 90 % of the disk
    space.py refill FOLDER ROUNDS    fills 97 % of the disk and deletes it, repeatedly
"""
import errno
import os
import random
import sys
import time

BLOCK = 4096
CHUNK = 1 << 20


class Wrong(Exception):
    pass


def contents(block, version, blocks=1):
    return b"".join(b"%016d%016d" % (block + i, version) * (BLOCK // 32) for i in range(blocks))


def available(folder):
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize // BLOCK


def write_blocks(fd, block, blocks, version):
    """Writes all of the blocks, or raises the error of a write."""
    data = memoryview(contents(block, version, blocks))
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], block * BLOCK + done)


def fill(fd, blocks, version, may_end=False):
    """Returns the number of blocks written before a write or the fsync gave ENOSPC."""
    at, step = 0, CHUNK // BLOCK
    while at < blocks:
        try:
            write_blocks(fd, at, min(step, blocks - at), version)
            at += min(step, blocks - at)
        except OSError as error:
            if not may_end or error.errno != errno.ENOSPC:
                raise Wrong(f"block {at} of {blocks}, version {version}: {error}") from error
            if step == 1:
                return at
            step = 1
    return at


def check(path, versions):
    with open(path, "rb") as file:
        for block, version in enumerate(versions):
            if file.read(BLOCK) != contents(block, version):
                raise Wrong(f"{path}: block {block} is not version {version}")


def near(found, wanted, what):
    if abs(found - wanted) > wanted // 100:
        raise Wrong(f"{what}: {found} blocks, expected {wanted} within 1 %")


def until_available(folder, wanted):
    """Waits a minute at most for free space: the kernel forgets a removed file a moment after rm,
    and the blocks of a large file in thousands of bands are freed step by step."""
    for _ in range(600):
        if available(folder) >= wanted - wanted // 100:
            return
        time.sleep(0.1)
    near(available(folder), wanted, "available after rm")


def verb_fill(folder):
    before, path = os.path.join(folder, "before"), os.path.join(folder, "all")
    fd = os.open(before, os.O_RDWR | os.O_CREAT)
    fill(fd, 300, 1)
    os.fsync(fd)
    os.close(fd)
    for version in range(2, 5):
        said = available(folder)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        written = fill(fd, 2 * said, version, may_end=True)
        os.fsync(fd)
        near(written, said, "written")
        if available(folder) > said // 100:
            raise Wrong(f"{available(folder)} blocks are available after ENOSPC")
        check(path, [version] * written)
        check(before, [1] * 300)
        lots, versions = random.Random(version), [version] * written
        for i in range(written // 8):
            block = lots.randrange(written)
            versions[block] = version + 100 + i
            write_blocks(fd, block, 1, versions[block])
        os.fsync(fd)
        check(path, versions)
        os.close(fd)
        os.remove(path)
        until_available(folder, said)
    os.remove(before)


def verb_late(folder):
    path, said = os.path.join(folder, "all"), available(folder)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    written, step = 0, CHUNK // BLOCK
    while written <= said:
        try:
            write_blocks(fd, written, step, 1)
            os.fsync(fd)
            written += step
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.ftruncate(fd, written * BLOCK)
            if step == 1:
                break
            step = 1
    near(written, said, "written and synced")
    other = os.open(os.path.join(folder, "other"), os.O_RDWR | os.O_CREAT)
    write_blocks(other, 0, 2 * CHUNK // BLOCK, 2)
    try:
        os.close(other)
        raise Wrong("close reports no ENOSPC")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    os.remove(os.path.join(folder, "other"))
    endless = os.open(os.path.join(folder, "endless"), os.O_WRONLY | os.O_CREAT)
    try:
        for _ in range(16384):
            os.write(endless, bytes(CHUNK))
        raise Wrong("16 GiB were written to a full disk")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    try:
        os.close(endless)
    except OSError:
        pass
    os.remove(os.path.join(folder, "endless"))
    once = os.open(os.path.join(folder, "once"), os.O_WRONLY | os.O_CREAT)
    write_blocks(once, 0, 2 * CHUNK // BLOCK, 3)
    try:
        os.fsync(once)
        raise Wrong("fsync reports no ENOSPC")
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    os.fsync(once)
    os.close(fd)
    check(path, [1] * written)
    os.remove(path)
    until_available(folder, said // 2)
    os.pwrite(once, b"x", 0)  # fsync has reported the error
    os.fsync(once)
    os.close(once)
    os.remove(os.path.join(folder, "once"))
    until_available(folder, said)


def verb_rewrite(folder):
    disk = available(folder)
    path = os.path.join(folder, "quarter")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for version in range(16):
        fill(fd, disk // 4, version)
    os.fsync(fd)
    os.close(fd)
    check(path, [15] * (disk // 4))
    os.remove(path)


def verb_scatter(folder, seed):
    lots = random.Random(int(seed))
    blocks = available(folder) * 9 // 10 // 4
    paths = [os.path.join(folder, f"f{i}") for i in range(4)]
    files = [os.open(path, os.O_RDWR | os.O_CREAT) for path in paths]
    versions = [[0] * blocks for _ in files]
    for fd in files:
        fill(fd, blocks, 0)
    for i in range(1, 4 * blocks + 1):
        file, block = lots.randrange(4), lots.randrange(blocks)
        versions[file][block] = i
        try:
            write_blocks(files[file], block, 1, i)
        except OSError as error:
            raise Wrong(f"overwrite {i}: {error}") from error
    for fd in files:
        os.fsync(fd)
        os.close(fd)
    for path, expected in zip(paths, versions):
        check(path, expected)
        os.remove(path)


def verb_refill(folder, rounds):
    blocks = available(folder) * 97 // 100
    path = os.path.join(folder, "large")
    for version in range(int(rounds)):
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        fill(fd, blocks, version)
        if version % 5 == 4:
            os.fsync(fd)
            check(path, [version] * blocks)
        os.close(fd)
        os.remove(path)


def main(arguments):
    verbs = {"fill": verb_fill, "late": verb_late, "rewrite": verb_rewrite,
             "scatter": verb_scatter, "refill": verb_refill}
    if len(arguments) < 2 or arguments[0] not in verbs:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        verbs[arguments[0]](*arguments[1:])
    except Wrong as wrong:
        print(f"space.py {arguments[0]}: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
