"""The filesystems that bench/compare compares.

Each has a loop device with direct I/O over a preallocated file of the same length. The FUSE limit
is a filesystem in memory that uses lazyfs' own transport (fuse_limit.cc).
"""
import argparse
import contextlib
import dataclasses
import mmap
import os
import pathlib
import re
import subprocess
import time

from commands import Failed, attach, drop_caches, run


def touch_free_memory():
    """Uses half of the free memory for a moment. A hypervisor may have taken free memory back, and
    returns it page by page to the load that needs it first, which then takes several times as long.
    """
    free_kib = int(re.search(r"^MemFree:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(),
                             re.MULTILINE)[1])
    with mmap.mmap(-1, free_kib // 2 * 1024, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1


@dataclasses.dataclass
class Measurement:
    """What one load took on one filesystem."""
    load: str
    seconds: float = None
    daemon_cpu: float = None  # seconds, user and system; None for filesystems of the kernel
    flushes: int = None       # that reached the device
    written: int = None       # bytes that reached the device


class System:
    """A filesystem that is made for each group of loads and removed afterwards."""
    keeps_contents = True
    remounts = True

    def __init__(self, plan, options=""):
        self.plan = plan
        self.options = ["-o", options] if options else []
        self.label = f"{self.name}:{options}" if options else self.name
        self.mnt = plan.work / "mnt"
        self.image = plan.work / "disk"
        self.loop = self.daemon = None
        self.begun = []  # measurements of this use

    # --- from the outside -------------------------------------------------------------------------

    def begin(self):
        self.begun = []
        self.mnt.mkdir(exist_ok=True)
        self.image.unlink(missing_ok=True)
        self.make_image()
        self.loop = pathlib.Path(attach(self.image))
        self.make()
        self.mount()
        # In a used mount the kernel has already learnt that lazyfs needs no OPEN requests.
        first = self.mnt / "first"
        first.write_text("x")
        first.read_text()
        first.unlink()

    def remount(self):
        """Empties the caches before the next load."""
        if self.remounts:
            self.unmount()
        drop_caches()
        if self.remounts:
            self.mount()

    def crash(self):
        """Kills the daemon, if there is one, and mounts again with empty caches."""
        self.kill_daemon()
        run("umount", self.mnt)
        drop_caches()
        self.mount()

    def kill_daemon(self):
        if self.daemon:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None

    def mount_again(self, wait):
        """After kill_daemon(). The device is free when programs have closed their files there, all
        of whose calls fail now; wait() is called as long as it is not."""
        run("umount", "--lazy", self.mnt)
        end = time.monotonic() + 120
        while True:
            try:
                return self.mount()
            except Failed as why:
                if "in use" not in str(why) or time.monotonic() > end:
                    raise
                self.daemon = None
                wait()

    def end(self):
        with contextlib.suppress(Failed, subprocess.TimeoutExpired):
            self.unmount()
        self.kill_daemon()
        if self.loop:
            run("losetup", "-d", self.loop)
            self.loop = None
        self.image.unlink(missing_ok=True)

    @contextlib.contextmanager
    def measured(self, load):
        """Measures what is done within. A load that knows its time better sets `seconds`."""
        found = Measurement(load)
        before, begin = self.counters(), time.perf_counter()
        yield found
        took = time.perf_counter() - begin
        if found.seconds is None:
            found.seconds = took
        cpu, found.flushes, found.written = (
            after - earlier for after, earlier in zip(self.counters(), before))
        if self.daemon:
            found.daemon_cpu = cpu
        self.begun.append(found)

    def counters(self):
        """CPU seconds of the daemon; flushes and bytes written to the device, until now."""
        cpu = 0
        if self.daemon:
            fields = pathlib.Path(f"/proc/{self.daemon.pid}/stat").read_text().rsplit(")", 1)[1]
            cpu = sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
        fields = pathlib.Path(f"/sys/block/{self.loop.name}/stat").read_text().split()
        return cpu, int(fields[15]), int(fields[6]) * 512

    # --- of each filesystem -----------------------------------------------------------------------

    def make_image(self):
        run("fallocate", "-l", self.plan.image_bytes, self.image)

    def make(self):
        pass

    def mount(self):
        run("mount", "-t", self.name, *self.options, self.loop, self.mnt)

    def unmount(self):
        if os.path.ismount(self.mnt):
            run("umount", self.mnt)
        if self.daemon:
            self.daemon.wait(120)
            self.daemon = None

    def serve(self, *command):
        """Starts a FUSE daemon as a child, so that its CPU time counts as ours."""
        log = self.plan.work / "daemon.log"
        with open(log, "w", encoding="utf-8") as to:
            self.daemon = subprocess.Popen([str(word) for word in command], stdout=to, stderr=to,
                                           stdin=subprocess.DEVNULL)
        while not os.path.ismount(self.mnt):
            if self.daemon.poll() is not None:
                raise Failed(log.read_text())
            time.sleep(0.05)


class Ext4(System):
    name = "ext4"

    def make(self):
        # Its default has too few inodes for a directory of 1,000,000 files.
        run("mkfs.ext4", "-q", "-F", "-i", 8192, "-E",
            "nodiscard,lazy_itable_init=0,lazy_journal_init=0", self.loop)


class Xfs(System):
    name = "xfs"

    def make(self):
        run("mkfs.xfs", "-q", "-f", "-K", self.loop)


class Btrfs(System):
    name = "btrfs"

    def make(self):
        run("mkfs.btrfs", "-q", "-f", "-K", self.loop)


class Lazyfs(System):
    name = "lazyfs"

    def make(self):
        run(self.plan.bin / "mkfs.lazyfs", "-q", "-f", "-K", self.loop)

    def mount(self):
        self.serve(self.plan.bin / "lazyfs", "-f", *self.options, self.loop, self.mnt)


class Passthrough(Ext4):
    """ext4 beneath a FUSE daemon that passes each call on."""
    name = "passthrough"

    def mount(self):
        lower = self.plan.work / "lower"
        lower.mkdir(exist_ok=True)
        run("mount", "-t", "ext4", *self.options, self.loop, lower)
        self.serve(self.plan.bin / "profiler", "-f", *self.counting(), self.mnt, lower)

    def counting(self):
        """The daemon's options of what to count."""
        return ["--no-counts"]

    def unmount(self):
        super().unmount()
        lower = self.plan.work / "lower"
        if os.path.ismount(lower):
            run("umount", lower)


class Limit(System):
    name = "limit"
    keeps_contents = False  # only sizes: what a real filesystem does with data is no cost of FUSE
    remounts = False  # it would forget everything

    def make_image(self):
        run("fallocate", "-l", 1 << 20, self.image)

    def mount(self):
        self.serve(self.plan.bin / "fuse_limit", "-f", *self.options, self.loop, self.mnt)


SYSTEMS = {system.name: system for system in (Lazyfs, Ext4, Xfs, Btrfs, Passthrough,
                                              Limit)}


def systems_of(text):
    """(name, mount options) of each system in an argument: 'lazyfs lazyfs:nowriteback ext4'."""
    found = [tuple(word.partition(":")[::2]) for word in text.split()]
    for name, _ in found:
        if name not in SYSTEMS:
            raise argparse.ArgumentTypeError(f"{name}: none of {' '.join(SYSTEMS)}")
    return found


def text_of(systems):
    """The argument of which systems_of() makes these systems."""
    return " ".join(f"{name}:{options}" if options else name for name, options in systems)
