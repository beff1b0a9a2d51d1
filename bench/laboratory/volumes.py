"""Filesystems on sparse loop devices, and the requests that reach the device.

The kernel's block_rq_issue events are the trace: they say which requests are of metadata. A load
runs as fast as the loop device allows. `sync -f` at fixed points of a load stands for the kernel's
timers, which would write data and metadata out every few seconds on a slow disk.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import commands

from . import plan as lab

TRACING = pathlib.Path("/sys/kernel/tracing")
EVENT = re.compile(r" (\d+\.\d+): block_rq_issue: \d+,\d+ ([A-Z]+) \d+ \(.*?\) (\d+) \+ (\d+)")
EXTENT = re.compile(r"\(\d+(?:-\d+)?\):(\d+)(?:-(\d+))?")


def drop_caches():
    """Unlike commands.drop_caches(), writes nothing: what a mount has left to be written belongs to
    the requests that are recorded."""
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def free_bytes(mnt):
    space = os.statvfs(mnt)
    return space.f_bavail * space.f_frsize


@contextlib.contextmanager
def loop_device(backing, size_bytes):
    """A loop device over a new sparse file, which is removed afterwards."""
    backing.unlink(missing_ok=True)
    with open(backing, "wb") as file:
        file.truncate(size_bytes)
    try:
        with commands.loop_device(backing) as device:
            yield device
    finally:
        backing.unlink()


@contextlib.contextmanager
def real_disk(plan, disk, size):
    """A loop device on a simulated disk whose requests take their time."""
    shown = plan.work / "shown"
    shown.mkdir(exist_ok=True)
    for name in ("backing", "backing.fills"):
        (plan.work / name).unlink(missing_ok=True)
    with subprocess.Popen([plan.bin / "smrdisk", "-f", "--disk", disk, "--size", size,
                           "--realtime", "--forget-data", plan.work / "backing", shown]) as server:
        try:
            while not (shown / "disk").exists():
                if server.poll() is not None:
                    raise lab.Failed("smrdisk ended")
                time.sleep(0.1)
            with commands.loop_device(shown / "disk") as device:
                yield device
        finally:
            lab.run("umount", shown)


class Volume:
    """A filesystem on a device."""

    def __init__(self, plan, device, mnt):
        self.plan, self.device, self.mnt = plan, device, mnt
        mnt.mkdir(exist_ok=True)

    def mount(self):
        lab.run("mount", "-o", self.options, self.device, self.mnt)

    def unmount(self):
        lab.run("umount", self.mnt)

    def ranges(self):
        """The sectors of the journal, or of the log, as pairs of the first and the last."""
        return []


class Ext4(Volume):
    """mke2fs leaves the inode tables unwritten, and so does the mount: zeroing 122 GiB of them on
    8 TB would change nothing that is measured."""
    name, options, kind = "ext4", "noatime,noinit_itable", "ext4"

    def __init__(self, plan, device, mnt, journal_mib=10240):
        super().__init__(plan, device, mnt)
        self.journal_mib = journal_mib

    def make(self):
        lab.run("mke2fs", "-q", "-F", "-t", self.kind, "-E",
                "lazy_itable_init=1,lazy_journal_init=1,nodiscard", "-J",
                f"size={self.journal_mib}", self.device)

    def ranges(self):
        text = lab.run("debugfs", "-R", "stat <8>", self.device)
        blocks = EXTENT.findall(text[text.index("EXTENTS:"):])
        return [(8 * int(first), 8 * int(last or first) + 7) for first, last in blocks]


class Ext3(Ext4):
    name, options, kind = "ext3", "noatime", "ext3"

    def ranges(self):
        text = lab.run("debugfs", "-R", "stat <8>", self.device)
        blocks = EXTENT.findall(text[text.index("BLOCKS:"):])
        return [(8 * int(first), 8 * int(last or first) + 7) for first, last in blocks]


class Btrfs(Volume):
    name, options = "btrfs", "noatime,nodiscard"

    def make(self):
        lab.run("mkfs.btrfs", "-q", "-f", "-K", self.device)


class Lazyfs(Volume):
    name = "lazyfs"

    def __init__(self, plan, device, mnt, band_size=None, log_mib=None):
        super().__init__(plan, device, mnt)
        self.sizes = ["--band-size", band_size] if band_size else []
        self.sizes += ["--log-size", f"{log_mib}M"] if log_mib else []

    def make(self):
        lab.run(self.plan.bin / "mkfs.lazyfs", "-q", "-f", *self.sizes, self.device)

    def mount(self):
        lab.run(self.plan.bin / "lazyfs", "-o", "noatime,nodiscard", self.device, self.mnt)

    def unmount(self):
        super().unmount()
        lab.run(self.plan.bin / "lazyfsctl", "wait", self.device)

    def ranges(self):
        report = json.loads(lab.run(self.plan.bin / "edistats", "--json", self.device))
        band = max(line["blocks"] for line in report["bands"])
        return [(8 * band * line["band"], 8 * band * (line["band"] + 1) - 1)
                for line in report["bands"] if line["state"] == "log"]


def converted(line, begin, flag_of):
    """Lines of smrsim's trace format for an event, and the time of the first event."""
    found = EVENT.search(line)
    if not found:
        return [], begin
    seconds, flags, sector, sectors = found[1], found[2], int(found[3]), int(found[4])
    begin = float(seconds) if begin is None else begin
    time_us = round((float(seconds) - begin) * 1e6)
    flush = f"{time_us} F 0 0 -"
    body = flags.lstrip("F")
    if not body or sectors == 0:
        return [flush], begin
    lines = [flush] if flags.startswith("F") else []
    if body[0] in "RW":
        lines.append(f"{time_us} {body[0]} {sector} {sectors} {flag_of(sector, body)}")
    if "F" in body[1:]:
        lines.append(flush)
    return lines, begin


class Recording:
    """The requests to a device from begin() to end()."""

    def __init__(self, device):
        self.instance = TRACING / f"instances/lazyfs-{os.getpid()}"
        number = os.stat(device).st_rdev
        self.filter = f"dev == {os.major(number) << 20 | os.minor(number)}"
        self.lines, self.is_over = [], threading.Event()

    def begin(self):
        if not (TRACING / "trace").exists():
            lab.run("mount", "-t", "tracefs", "tracefs", TRACING)
        self.instance.mkdir()
        event = self.instance / "events/block/block_rq_issue"
        (self.instance / "buffer_size_kb").write_text("32768")
        (event / "filter").write_text(self.filter)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        (event / "enable").write_text("1")

    def read(self):
        pipe = os.open(self.instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        rest = b""
        while True:
            is_last = self.is_over.is_set()
            try:
                while block := os.read(pipe, 1 << 20):
                    *lines, rest = (rest + block).split(b"\n")
                    self.lines += lines
            except BlockingIOError:
                pass
            if is_last:
                break
            time.sleep(0.05)
        os.close(pipe)

    def end(self):
        (self.instance / "events/block/block_rq_issue/enable").write_text("0")
        self.is_over.set()
        self.reader.join()
        lost = sum(b"LOST" in line for line in self.lines)
        self.instance.rmdir()
        if lost:
            raise lab.Failed(f"{lost} events of the trace were lost")

    def write(self, path, ranges):
        """Writes the trace; `ranges` are the sectors of the journal or of the log."""
        def flag_of(sector, flags):
            if any(first <= sector <= last for first, last in ranges):
                return "J"
            return "M" if "M" in flags else "-"
        begin = None
        with open(path, "w", encoding="ascii") as file:
            file.write("# lazyfs block trace 1\n")
            for line in self.lines:
                out, begin = converted(line.decode(errors="replace"), begin, flag_of)
                file.writelines(text + "\n" for text in out)


def record(volume, phases, folder):
    """Runs each phase on the mounted volume with cold caches, up to a sync at its end, which writes
    metadata to its place too. Returns {phase: path of its trace}. `phases`: pairs of a name and a
    function of the mount point."""
    traces = {}
    volume.make()
    for name, body in phases:
        volume.mount()
        drop_caches()
        recording = Recording(volume.device)
        recording.begin()
        try:
            try:
                body(volume.mnt)
                lab.run("sync", "-f", volume.mnt)
            finally:
                recording.end()
        finally:
            volume.unmount()
        traces[name] = folder / f"{volume.name}-{name}.trace"
        recording.write(traces[name], volume.ranges())
    return traces


def record_all(plan, systems, size_bytes, phases):
    """{system: {phase: trace}}, for functions that make a Volume of (plan, device, mount point)."""
    traces = {}
    for label, make in systems.items():
        folder = plan.work / label
        folder.mkdir(exist_ok=True)
        with loop_device(plan.work / "disk.img", size_bytes) as device:
            volume = make(plan, device, plan.work / "mnt")
            traces[label] = record(volume, phases, folder)
    return traces
