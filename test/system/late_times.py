#!/usr/bin/env python3
"""The times of files whose data reaches the volume long after write(2): they must be the same after
a remount.

    late_times.py write FOLDER FILE     writes files, and their times to FILE
    late_times.py compare FOLDER FILE   after a remount
"""

import ctypes
import json
import os
import sys
import time

SIZES = (4096, 1 << 20, 16 << 20)
COPIES = 4


def times_of(path):
    found = os.stat(path)
    return [found.st_mtime_ns, found.st_ctime_ns]


def sync_filesystem(path):
    """Unlike sync(2), waits for no other filesystem."""
    libc = ctypes.CDLL(None, use_errno=True)
    file = os.open(path, os.O_RDONLY)
    if libc.syncfs(file) != 0:
        raise OSError(ctypes.get_errno(), "syncfs")
    os.close(file)


def overwrite_old_files(folder):
    """Data goes out by syncfs(2), without a wait before the kernel tells the times."""
    sizes = {f"{folder}/old-{size}-{i}": size for size in SIZES for i in range(COPIES)}
    for path in sizes:
        with open(path, "w", encoding="ascii") as file:
            file.write("old")
    sync_filesystem(folder)
    time.sleep(1)
    files = [os.open(path, os.O_RDWR) for path in sizes]
    for size, file in zip(sizes.values(), files):
        os.write(file, b"z" * size)
    time.sleep(1)
    sync_filesystem(folder)
    for file in files:
        os.close(file)


def write_new_files(folder):
    """Made and written within one step of the clock; the data goes out later."""
    files = []
    for i in range(COPIES):
        files.append(os.open(f"{folder}/new-{i}", os.O_RDWR | os.O_CREAT))
        os.write(files[-1], b"z" * 4096)
    time.sleep(2)
    for i, file in enumerate(files):
        if i % 2 == 0:
            os.fsync(file)
        os.close(file)


def main():
    what, folder, record = sys.argv[1:]
    if what == "write":
        os.mkdir(folder)
        overwrite_old_files(folder)
        write_new_files(folder)
        times = {name: times_of(f"{folder}/{name}") for name in os.listdir(folder)}
        with open(record, "w", encoding="ascii") as file:
            json.dump(times, file)
        return
    with open(record, encoding="ascii") as file:
        times = json.load(file)
    assert len(times) == COPIES * (len(SIZES) + 1), len(times)
    changed = {}
    for name, before in sorted(times.items()):
        now = times_of(f"{folder}/{name}")
        if now != before:
            changed[name] = [(y - x) / 1e6 for x, y in zip(before, now)]
    assert not changed, f"mtime and ctime moved by so many ms: {changed}"


main()
