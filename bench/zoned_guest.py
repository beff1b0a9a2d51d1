#!/usr/bin/python3
"""The load of bench/zoned on one filesystem; runs as root in the guest.

  zoned_guest.py DEVICE SYSTEM MIB OVERWRITES RESULT

Makes the filesystem SYSTEM on the zoned DEVICE, writes MIB files of 1 MiB, overwrites OVERWRITES
percent of them at random without and a fourth of that with fsync, replaces half of the files, runs
Postmark, mounts again and compares every block with what was written. RESULT gets the figures.
With 0 MIB it reports only what df says is available.

The kernel may hold dirty pages of a 64th of the disk: with its usual share of the memory it would
hold a large part of so small a disk, and write most of the overwritten blocks once.
"""
import errno
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time
import uuid
import zlib

BLOCK = 4096
FILE_BLOCKS = 256          # of the files that fill the disk: 1 MiB
LONGEST = 16               # blocks of one overwrite
SYNC_EVERY = 16            # overwrites, in the phase with fsync
POSTMARK = {"number": 500, "transactions": 2000}
TRACE = pathlib.Path("/sys/kernel/tracing")
MNT = pathlib.Path("/tmp/mnt")


def run(*command, **options):
    """Returns all that the command printed."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise OSError(errno.EIO, f"{' '.join(map(str, command))}: {done.stdout}")
    return done.stdout


class System:
    """A filesystem of the kernel."""
    def __init__(self, device):
        self.device = device

    def make(self):
        run(*self.mkfs, self.device)

    def mount(self):
        run("mount", "-t", self.kind, self.device, MNT)

    def unmount(self):
        run("umount", MNT)

    def sync(self):
        os.sync()


class F2fs(System):
    kind, mkfs = "f2fs", ("mkfs.f2fs", "-q", "-f", "-m")


class Btrfs(System):
    # One copy of the metadata, as the others have.
    kind, mkfs = "btrfs", ("mkfs.btrfs", "-q", "-f", "-O", "zoned", "-d", "single", "-m", "single")


class Lazyfs(System):
    def make(self):
        run("mkfs.lazyfs", "-q", "-f", self.device)

    def mount(self):
        self.daemon = subprocess.Popen(["lazyfs", "-f", self.device, MNT],
                                       stderr=subprocess.DEVNULL)
        while subprocess.run(["mountpoint", "-q", MNT], check=False).returncode != 0:
            if self.daemon.poll() is not None:
                raise OSError(errno.EIO, "lazyfs has ended")
            time.sleep(0.02)

    def unmount(self):
        run("umount", MNT)
        self.daemon.wait()

    def sync(self):
        run("lazyfsctl", "sync", MNT)  # sync(2) does not reach a daemon before Linux 6.18


class DmZoned(System):
    """ext4 on dm-zoned, formatted here: Debian has no dmzadm."""
    kind = "ext4"

    def make(self):
        queue = pathlib.Path("/sys/block") / pathlib.Path(self.device).name / "queue"
        zone_blocks = int((queue / "chunk_sectors").read_text()) // 8
        zones = int((queue / "nr_zones").read_text())
        conventional = sum("CONVENTIONAL" in line
                           for line in run("blkzone", "report", self.device).splitlines())
        run("blkzone", "reset", self.device)
        chunks = format_dm_zoned(self.device, zone_blocks, zones, conventional)
        run("dmsetup", "--noudevsync", "--noudevrules", "create", "zoned",  # no udev in the guest
            input=f"0 {chunks * zone_blocks * 8} zoned {self.device}\n")
        self.disk = self.device
        self.device = "/dev/dm-0"
        run("mkfs.ext4", "-q", "-F", "-m", "0", self.device)


def format_dm_zoned(device, zone_blocks, zones, conventional):
    """Writes both sets of metadata (linux/drivers/md/dm-zoned-metadata.c, version 2). Returns how
    many zones the device will have."""
    reserved = min(16, conventional - 1)
    bitmap_blocks = zones * max(1, zone_blocks >> 15)
    map_blocks = -(-zones // 512)
    meta_blocks = 1 + map_blocks + bitmap_blocks
    meta_zones = -(-meta_blocks // zone_blocks)
    chunks = zones - 2 * meta_zones - reserved
    volume, disk = uuid.uuid4().bytes, uuid.uuid4().bytes
    with open(device, "r+b", buffering=0) as file:
        for copy in range(2):
            at = copy * meta_zones * zone_blocks
            file.seek((at + 1) * BLOCK)
            file.write(b"\xff" * BLOCK * map_blocks + bytes(BLOCK * bitmap_blocks))
            head = struct.pack("<4sIQQIIIII", b"DBZD", 2, 1, at, meta_blocks, reserved, chunks,
                               map_blocks, bitmap_blocks)
            tail = struct.pack("<32s16s16s", b"bench", volume, disk)
            block = bytearray((head + bytes(4) + tail).ljust(BLOCK, b"\0"))
            crc = zlib.crc32(block, 1 ^ 0xffffffff) ^ 0xffffffff  # begun with the generation
            struct.pack_into("<I", block, len(head), crc)
            file.seek(at * BLOCK)
            file.write(block)
        os.fsync(file.fileno())
    return chunks


SYSTEMS = {"lazyfs": Lazyfs, "f2fs": F2fs, "btrfs": Btrfs, "dm-zoned": DmZoned}


class Counters:
    """What reaches the zones of a null_blk device."""
    def __init__(self, device):
        self.stat = pathlib.Path("/sys/block") / pathlib.Path(device).name / "stat"
        if not (TRACE / "trace").exists():
            run("mount", "-t", "tracefs", "none", TRACE)
        (TRACE / "buffer_size_kb").write_text("16384")
        (TRACE / "events/nullb/nullb_zone_op/enable").write_text("1")
        self.clear()

    def clear(self):
        (TRACE / "trace").write_text("")

    def written(self):
        return int(self.stat.read_text().split()[6]) * 512

    def resets(self):
        """Since the last call."""
        with open(TRACE / "trace", encoding="ascii", errors="replace") as lines:
            found = sum("RESET" in line for line in lines)
        self.clear()
        return found


class Load:
    def __init__(self, system, counters, files, overwrites):
        self.system, self.counters = system, counters
        self.files, self.overwrites = files, overwrites
        self.versions = {}   # file -> the version of each of its blocks
        self.operations = 0
        self.random = random.Random(42)
        self.phases = {}

    def stamp(self, file, block, version):
        return struct.pack("<IHH", file, block, version) * (BLOCK // 8)

    def expected(self, file, first, count):
        versions = self.versions[file]
        return b"".join(self.stamp(file, block, versions[block])
                        for block in range(first, first + count))

    def measure(self, name, body):
        """`body` yields the bytes of each operation of the user."""
        written, user, times, failures = self.counters.written(), 0, [], []
        self.counters.resets()
        began = last = time.monotonic()
        try:
            for count in body():
                now = time.monotonic()
                times.append(now - last)
                last = now
                user += count
            self.system.sync()
        except OSError as error:
            failures.append(str(error)[:300])
        seconds = time.monotonic() - began
        times.sort()
        self.phases[name] = {
            "seconds": round(seconds, 2), "user": user,
            "written": self.counters.written() - written, "resets": self.counters.resets(),
            "p99": round(times[len(times) * 99 // 100], 4) if times else None,
            "max": round(times[-1], 3) if times else None, "failures": failures}
        print(f"{name:10} {json.dumps(self.phases[name])}", flush=True)

    def write_file(self, file, version):
        self.versions[file] = [version] * FILE_BLOCKS
        data = self.expected(file, 0, FILE_BLOCKS)
        with open(MNT / str(file), "wb", buffering=0) as out:
            out.write(data)
        return len(data)

    def fill(self):
        for file in range(self.files):
            yield self.write_file(file, 0)

    def overwrite(self):
        yield from self.overwrites_of(self.overwrites, sync_every=0)

    def overwrite_fsync(self):
        yield from self.overwrites_of(self.overwrites // 4, SYNC_EVERY)

    def overwrites_of(self, percent, sync_every):
        left = self.files * FILE_BLOCKS * BLOCK * percent // 100
        names = list(self.versions)
        while left > 0:
            file = self.random.choice(names)
            count = self.random.randint(1, LONGEST)
            first = self.random.randrange(FILE_BLOCKS - count + 1)
            self.operations += 1
            before = self.versions[file][first:first + count]
            self.versions[file][first:first + count] = [self.operations % 65536] * count
            descriptor = os.open(MNT / str(file), os.O_WRONLY)
            try:
                os.pwrite(descriptor, self.expected(file, first, count), first * BLOCK)
                if sync_every and self.operations % sync_every == 0:
                    os.fsync(descriptor)
            except OSError:
                self.versions[file][first:first + count] = before
                raise
            finally:
                os.close(descriptor)
            left -= count * BLOCK
            yield count * BLOCK

    def replace(self):
        chosen = self.random.sample(sorted(self.versions), len(self.versions) // 2)
        for file in chosen:
            os.unlink(MNT / str(file))
            del self.versions[file]
            yield 0
        for file in chosen:
            yield self.write_file(file, 1)

    def postmark(self):
        folder = MNT / "postmark"
        folder.mkdir()
        text = run("postmark", input="\n".join([
            f"set location {folder}", "set size 500 16384", "set seed 42", "set buffering false",
            *(f"set {name} {count}" for name, count in POSTMARK.items()), "run", "quit", ""]))
        if "error" in text.lower():
            raise OSError(errno.EIO, text[text.lower().index("error"):][:200])
        for line in text.splitlines():
            amount, *rest = line.split()[:3] or [""]
            if rest[1:2] == ["written"]:
                unit = {"kilobytes": 1 << 10, "megabytes": 1 << 20, "gigabytes": 1 << 30}[rest[0]]
                yield int(float(amount) * unit)

    def verify(self):
        """Returns how many files differ from what was written."""
        wrong = 0
        for file in self.versions:
            try:
                data = (MNT / str(file)).read_bytes()
                wrong += data != self.expected(file, 0, FILE_BLOCKS)
            except OSError:
                wrong += 1
        return wrong


def limit_dirty_pages(device):
    disk = int((pathlib.Path("/sys/block") / pathlib.Path(device).name / "size").read_text()) * 512
    for name, share in (("dirty_background_bytes", 128), ("dirty_bytes", 64)):
        pathlib.Path("/proc/sys/vm", name).write_text(f"{disk // share}")


def main():
    device, name, files, overwrites, result = sys.argv[1:6]
    MNT.mkdir(exist_ok=True)
    limit_dirty_pages(device)
    counters = Counters(device)
    system = SYSTEMS[name](device)
    report = {"system": name}
    try:
        system.make()
        system.mount()
        space = os.statvfs(MNT)
        report["available"] = space.f_bavail * space.f_frsize
        if int(files):
            measure(system, Load(system, counters, int(files), int(overwrites)), report)
        system.unmount()
    except OSError as error:
        report["failed"] = str(error)
        print(f"failed: {error}", flush=True)
    pathlib.Path(result).write_text(json.dumps(report))


def measure(system, load, report):
    report["phases"] = load.phases
    for phase in (load.fill, load.overwrite, load.overwrite_fsync, load.replace, load.postmark):
        load.measure(phase.__name__, phase)
    system.unmount()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    began = time.monotonic()
    system.mount()
    report["mount"] = round(time.monotonic() - began, 3)
    report["wrong"] = load.verify()


if __name__ == "__main__":
    main()
