#!/usr/bin/env python3
"""Asynchronous direct writes against cached reads of the same file:  direct.py FOLDER [ROUNDS]

In each round asynchronous direct writes overwrite a file's blocks while other processes read the
file through the cache. After the last write has completed, every read must give the new contents.
"""
import multiprocessing
import os
import sys

import async_io

BLOCK = 4096
BLOCKS = 256
READERS = 3


def read_until(path, stop):
    file = os.open(path, os.O_RDONLY)
    while not stop.is_set():
        for block in reversed(range(BLOCKS)):
            os.pread(file, BLOCK, block * BLOCK)


def stale_blocks(path, expected):
    with open(path, "rb") as file:
        return [block for block in range(BLOCKS)
                if os.pread(file.fileno(), BLOCK, block * BLOCK) != expected]


def main():
    os.chdir(sys.argv[1])
    rounds = int((sys.argv[2:] or ["60"])[0])
    with open("direct", "wb") as file:
        file.write(b"\0" * (BLOCK * BLOCKS))
        os.fsync(file.fileno())
    stop = multiprocessing.Event()
    readers = [multiprocessing.Process(target=read_until, args=("direct", stop), daemon=True)
               for _ in range(READERS)]
    for reader in readers:
        reader.start()
    queue = async_io.Queue(BLOCKS)
    writer = os.open("direct", os.O_WRONLY | os.O_DIRECT)
    bad = 0
    for number in range(1, rounds + 1):
        contents = bytes([number % 256]) * BLOCK
        queue.write(writer, contents, range(0, BLOCKS * BLOCK, BLOCK))
        bad += bool(stale_blocks("direct", contents))
    stop.set()
    for reader in readers:
        reader.join()
    os.unlink("direct")
    if bad:
        sys.exit(f"direct.py: stale reads in {bad} of {rounds} rounds")


main()
