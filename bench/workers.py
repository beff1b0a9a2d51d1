"""The filesystems of Hadoop's workers: each worker has a folder, and in it a device."""
import json
import signal
import types

from commands import run, stats_of
from comparison.systems import Ext4, Lazyfs, Passthrough

GIB, MIB = 1 << 30, 1 << 20


class Worker:
    """What a worker adds to a System, which is its other base. `plan` has `bin`, the folder of the
    programs; `room`: bytes of the device."""

    def __init__(self, plan, folder, room, options=""):
        folder.mkdir(parents=True)
        super().__init__(types.SimpleNamespace(work=folder, bin=plan.bin, image_bytes=room),
                         options)

    def end_phase(self):
        """A phase of the load ends, and the next one begins."""

    def data_counters(self):
        """What was written to bands since the mount; nothing for other filesystems."""
        return None

    def requests(self):
        """The kernel's requests since the mount, by kind; a bytes_... is no request."""
        return {}

    def examine(self):
        """What the device holds. REQUIRES: unmount()."""
        return None


class Ext4Worker(Worker, Ext4):
    pass


class ProfilerWorker(Worker, Passthrough):
    """Counts the calls of each phase."""

    def counting(self):
        return ["--json", "-o", self.plan.work / "profile.json"]

    def end_phase(self):
        self.daemon.send_signal(signal.SIGUSR1)

    def examine(self):
        lines = (self.plan.work / "profile.json").read_text().splitlines()
        return {"profile": [json.loads(line) for line in lines]}


class ClassicProfilerWorker(ProfilerWorker):
    def counting(self):
        return [*super().counting(), "--classic"]


class LazyfsWorker(Worker, Lazyfs):
    band_bytes = 64 * MIB

    def make(self):
        run(self.plan.bin / "mkfs.lazyfs", "-q", "-f", "-K", "--band-size", self.band_bytes,
            self.loop)

    def stats(self):
        return stats_of(self.plan.bin, self.mnt)

    def data_counters(self):
        found = self.stats()
        return {**found["data"], **found["space"]}

    def requests(self):
        found = self.stats()
        return {**found["operations"], **found["files"]}

    def examine(self):
        """Its bands, and what they hold. Raises Failed when fsck finds a problem."""
        report = json.loads(run(self.plan.bin / "edistats", "--json", self.loop))
        run(self.plan.bin / "fsck.lazyfs", "-n", "-f", "--data", self.loop)
        used = [band for band in report["bands"]
                if band["state"] not in ("super", "log") and band["write_pointer"] > 0]
        live, dead = (sum(band[name] for band in used) for name in ("live", "dead"))
        return {"bands": used, "live_blocks": live, "dead_blocks": dead,
                "overhead": round((live + dead) / live, 3) if live else None}


class LargeBandsWorker(LazyfsWorker):
    band_bytes = GIB

    def make_image(self):
        run("truncate", "-s", 64 * GIB, self.image)


KINDS = {"ext4": Ext4Worker, "profiler": ProfilerWorker, "profiler-classic": ClassicProfilerWorker,
         "lazyfs": LazyfsWorker, "lazyfs-1g": LargeBandsWorker}
