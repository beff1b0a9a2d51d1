#!/usr/bin/env python3
"""Overwrites and deletes on a nearly full filesystem for a given time, and verifies each block.

    soak.py work FOLDER RECORD SEED SECONDS [PROCESSES]   writes the expected contents to RECORD.N
    soak.py verify FOLDER RECORD [PROCESSES]              compares; exit status 1 on a difference

The processes keep FOLDER's filesystem 95 % full by statfs (FULL). One operation in six reads
written data back from the disk. No write may fail with ENOSPC: space is always available.
"""
import array
import json
import multiprocessing
import os
import random
import sys
import time
import traceback

BLOCK = 4096
FULL = 0.95
SLACK = 0.004            # how far from it they let it go before they fill or empty
FILE_BLOCKS_MAX = 4096   # 16 MiB, and a two hundredth of the disk
RUN_BLOCKS_MAX = 256     # of one write(2)
REPORT_SECONDS = 300
HOLE = 0                 # the version of a block that was never written


class Wrong(Exception):
    pass


def contents(number, block, version):
    if version == HOLE:
        return bytes(BLOCK)
    return b"%08d%08d%016d" % (number, block, version) * (BLOCK // 32)


def fullness(folder):
    stats = os.statvfs(folder)
    return 1 - stats.f_bavail / stats.f_blocks


class Worker:
    """One process: its files, and the version of each of their blocks."""

    def __init__(self, root, seed):
        self.root = root
        self.lots = random.Random(seed)
        self.files = {}   # number -> array of versions
        self.number = 0
        self.version = 0
        self.counts = {"written": 0, "verified": 0, "deleted": 0, "fsyncs": 0, "operations": 0}
        os.mkdir(root)
        self.file_blocks_max = min(FILE_BLOCKS_MAX, os.statvfs(root).f_blocks // 200)

    def path(self, number):
        return os.path.join(self.root, f"{number % 32}", f"{number}")

    def write(self, number, at, blocks):
        """Writes one version to the range, in pieces of one request each."""
        self.version += 1
        versions = self.files[number]
        data = b"".join(contents(number, at + i, self.version) for i in range(blocks))
        with open(self.path(number), "r+b", buffering=0) as file:
            done = 0
            while done < len(data):
                done += os.pwrite(file.fileno(), data[done:], at * BLOCK + done)
            if self.lots.random() < 0.1:
                os.fsync(file.fileno())
                self.counts["fsyncs"] += 1
        while len(versions) < at:
            versions.append(HOLE)
        versions[at:at + blocks] = array.array("L", [self.version] * blocks)
        self.counts["written"] += blocks

    def create(self):
        self.number += 1
        number = self.number
        os.makedirs(os.path.dirname(self.path(number)), exist_ok=True)
        open(self.path(number), "xb").close()
        self.files[number] = array.array("L")
        blocks = int(self.file_blocks_max ** self.lots.random())
        for at in range(0, blocks, RUN_BLOCKS_MAX):
            self.write(number, at, min(RUN_BLOCKS_MAX, blocks - at))

    def some_file(self):
        """Prefers large files, so that most blocks are overwritten repeatedly."""
        drawn = [self.lots.choice(self.keys) for _ in range(3)]
        return max(drawn, key=lambda number: len(self.files[number]))

    def append(self):
        if not self.files:
            return
        number = self.some_file()
        size = len(self.files[number])
        room = min(RUN_BLOCKS_MAX, self.file_blocks_max - size)
        if room > 0:
            self.write(number, size, self.lots.randint(1, room))

    def overwrite(self, blocks_max):
        number = self.some_file()
        size = len(self.files[number])
        if size:
            at = self.lots.randrange(size)
            self.write(number, at, self.lots.randint(1, min(blocks_max, size - at)))

    def delete(self):
        number = self.lots.choice(self.keys)
        os.unlink(self.path(number))
        del self.files[number]
        self.counts["deleted"] += 1

    def cut(self):
        number = self.some_file()
        size = self.lots.randint(0, len(self.files[number]))
        os.truncate(self.path(number), size * BLOCK)
        del self.files[number][size:]

    def rename_over(self):
        """Renames a new file over an old one, as editors do."""
        old = self.lots.choice(self.keys)
        self.create()
        os.rename(self.path(self.number), self.path(old))
        os.rename(self.path(old), self.path(self.number))
        del self.files[old]
        self.counts["deleted"] += 1

    def verify(self, number):
        versions = self.files[number]
        with open(self.path(number), "rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size = os.fstat(file.fileno()).st_size
            if size != len(versions) * BLOCK:
                raise Wrong(f"{self.path(number)}: {size} bytes, not {len(versions) * BLOCK}")
            for block, version in enumerate(versions):
                found = file.read(BLOCK)
                if found != contents(number, block, version):
                    raise Wrong(f"{self.path(number)}: block {block} is not version {version}: "
                                f"{found[:32]!r}")
        self.counts["verified"] += len(versions)

    def step(self):
        self.counts["operations"] += 1
        self.keys = list(self.files)
        full = fullness(self.root)
        if full < FULL - SLACK or not self.keys:
            self.lots.choice([self.create, self.create, self.append])()
        elif full > FULL + SLACK:
            self.lots.choice([self.delete, self.delete, self.cut])()
        else:
            self.lots.choice([
                lambda: self.overwrite(1), lambda: self.overwrite(1), lambda: self.overwrite(16),
                lambda: self.overwrite(RUN_BLOCKS_MAX), self.delete, self.cut, self.rename_over,
                lambda: self.verify(self.some_file()), lambda: self.verify(self.some_file())])()

    def save(self, record):
        with open(record, "w") as file:
            json.dump({number: list(versions) for number, versions in self.files.items()}, file)

    def load(self, record):
        with open(record) as file:
            self.files = {int(number): array.array("L", versions)
                          for number, versions in json.load(file).items()}


def work_one(index, folder, record, seed, seconds):
    worker = Worker(os.path.join(folder, str(index)), seed + index)
    started = time.monotonic()
    reported, lowest, highest, reached = started, 1.0, 0.0, None
    total, times = 0.0, 0
    while time.monotonic() < started + seconds:
        worker.step()
        now, full = time.monotonic(), fullness(folder)
        if full >= FULL - 2 * SLACK and reached is None:
            reached = now - started
        if reached is not None:
            lowest, highest = min(lowest, full), max(highest, full)
            total, times = total + full, times + 1
        if now > reported + REPORT_SECONDS:
            reported = now
            print(f"{time.strftime('%T')} process {index}: {worker.counts}", flush=True)
    if reached is None:
        raise Wrong(f"{FULL:.0%} was never reached in {seconds} s")
    worker.save(f"{record}.{index}")
    for number in worker.files:
        worker.verify(number)
    print(f"process {index}: full after {reached:.0f} s, then {total / times:.1%} on average, "
          f"{lowest:.1%} to {highest:.1%}; {worker.counts} (blocks), "
          f"{len(worker.files)} files left", flush=True)


def verify_one(index, folder, record):
    worker = Worker.__new__(Worker)
    worker.root, worker.counts = os.path.join(folder, str(index)), {"verified": 0}
    worker.load(f"{record}.{index}")
    for number in worker.files:
        worker.verify(number)
    found = sum(len(names) for _, _, names in os.walk(worker.root))
    if found != len(worker.files):
        raise Wrong(f"{worker.root}: {found} files, not {len(worker.files)}")
    print(f"process {index}: {worker.counts['verified']} blocks of {found} files are right")


def guarded(function, *arguments):
    try:
        function(*arguments)
    except (Wrong, OSError):
        traceback.print_exc()
        sys.exit(1)


def in_processes(count, function, *arguments):
    processes = [multiprocessing.Process(target=guarded, args=(function, index, *arguments))
                 for index in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return any(process.exitcode for process in processes)


def main(arguments):
    verb, folder, record, *rest = arguments
    if verb == "work":
        seed, seconds = int(rest[0]), int(rest[1])
        count = int(rest[2]) if len(rest) > 2 else 2
        return in_processes(count, work_one, folder, record, seed, seconds)
    if verb == "verify":
        return in_processes(int(rest[0]) if rest else 2, verify_one, folder, record)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
