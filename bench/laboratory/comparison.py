"""R1 and R2, for the README: filesystems side by side on a simulated drive-managed disk."""
import functools
import random
import time

from . import loads, volumes
from . import plan as lab
from .lazy import SMR, summary
from .plan import GIB, MIB, Result, verdict_of

FILE = "database"


def fill(mnt, size):
    """A file that is overwritten later, and a sync."""
    with open(mnt / FILE, "wb", buffering=0) as file:
        for _ in range(size // len(loads.NOISE)):
            file.write(loads.NOISE)
    loads.sync(mnt)


def overwrite(mnt, count, seed=1):
    """4 KiB at random places of the file; a sync after each twentieth of the writes."""
    lots = random.Random(seed)
    with open(mnt / FILE, "r+b", buffering=0) as file:
        blocks = (mnt / FILE).stat().st_size // 4096
        for i in range(count):
            file.seek(4096 * lots.randrange(blocks))
            file.write(loads.NOISE[:4096])
            if i % max(1, count // loads.SYNCS) == 0:
                loads.sync(mnt)


def untar(mnt, archive):
    (mnt / "sources").mkdir()
    loads.unpack(archive, mnt / "sources")
    loads.sync(mnt)


def small_files(mnt, count):
    (mnt / "small").mkdir()
    loads.create_files(mnt / "small", count)


def remove_all(mnt):
    for name in ("sources", "small"):
        loads.quietly("rm", "-rf", str(mnt / name))
        loads.sync(mnt)


def remove_small(mnt):
    loads.quietly("rm", "-rf", str(mnt / "small"))


def read_tree(mnt):
    loads.tar_tree(mnt / "small")


def fill_up(mnt, share):
    """Files of 8 MiB until `share` of the space is used, and the file that is overwritten."""
    space = volumes.free_bytes(mnt)
    fill(mnt, int(space * 0.25) // len(loads.NOISE) * len(loads.NOISE))
    for i in range(int(space * (share - 0.25) / (8 << 20))):
        (mnt / f"fill{i}").write_bytes(loads.NOISE * 4)


def systems():
    return {"ext4": functools.partial(volumes.Ext4, journal_mib=1024), "btrfs": volumes.Btrfs,
            "lazyfs": volumes.Lazyfs}


def phases(plan):
    archive = loads.linux_archive(plan, plan.pick(["kernel", "mm", "lib", "include", "fs"],
                                                  ["kernel", "mm", "lib", "include", "fs", "net"]))
    size, count = plan.pick((2 * GIB, 30_000), (16 * GIB, 300_000))
    return [("fill", functools.partial(fill, size=size)),
            ("random overwrites", functools.partial(overwrite, count=count)),
            ("untar", functools.partial(untar, archive=archive)),
            ("small files", functools.partial(small_files, count=plan.pick(20_000, 200_000))),
            ("reading them", read_tree), ("deletes", remove_all)]


def nearly_full(plan):
    count = plan.pick(20_000, 100_000)
    return [("fill up", functools.partial(fill_up, share=0.8)),
            ("overwrites, 80 % full", functools.partial(overwrite, count=count))]


def r1(plan):
    disk = SMR + plan.pick("/16", "")
    times = {}
    for size, steps in ((400 * 1000**3, phases(plan)),
                        (plan.pick(6, 40) * GIB, nearly_full(plan))):
        for label, traces in volumes.record_all(plan, systems(), size, steps).items():
            for name, trace in traces.items():
                waits = name == "reading them"
                times.setdefault(name, {})[label] = summary(plan.simulate(
                    disk, "--window", 1 if waits else 32, traces=[trace]))
    for name in ("fill", "fill up"):
        times.pop(name)
    ratio = {name: {label: of[label]["seconds"] / of["lazyfs"]["seconds"]
                    for label in of if label != "lazyfs"} for name, of in times.items()}
    checks = [(f"{name}: ahead of {label}", one > 1)
              for name, of in ratio.items() for label, one in of.items()]
    ours = {f"{name}, {label}": f"{one['seconds']:.1f} s, then {one['cleaning_seconds']:.0f} s of "
            "cleaning" for name, of in times.items() for label, one in of.items()}

    def draw(axes):
        labels = list(systems())
        for i, label in enumerate(labels):
            places = [j + 0.27 * i for j in range(len(times))]
            work = [of[label]["seconds"] for of in times.values()]
            axes.bar(places, work, 0.27, label=label)
            axes.bar(places, [of[label]["cleaning_seconds"] for of in times.values()], 0.27,
                     bottom=work, hatch="//", color="#bbbbbb",
                     label="cleaning after" if i == 0 else None)
        axes.set_xticks([j + 0.27 for j in range(len(times))], list(times), fontsize=7)
        axes.set(ylabel="Time (s)", yscale="log")
        axes.legend()
    return Result(None, ours, {f"{name}: {label} / lazyfs": one for name, of in ratio.items()
                               for label, one in of.items()}, verdict_of(checks),
                  f"{disk}: traces of real runs, each replayed on a fresh disk, 32 requests at a "
                  "time; volumes of 400 GB; the nearly full one is small", times, draw)


# ---- In real time -------------------------------------------------------------------------------

class Xfs(volumes.Volume):
    name, options = "xfs", "noatime"

    def make(self):
        lab.run("mkfs.xfs", "-q", "-f", "-K", self.device)


def r2(plan):
    """What a user would feel: the kernel waits for the disk, and the disk cleans when idle."""
    disk, size = f"{SMR}/{plan.pick(256, 16)}", plan.pick("16G", "64G")
    count = plan.pick(2000, 40_000)
    steps = [("fill", functools.partial(fill, size=plan.pick(256, 4096) * MIB)),
             ("small files", functools.partial(small_files, count=count)),
             ("random overwrites", functools.partial(overwrite, count=count)),
             ("reading them", read_tree), ("deletes", remove_small)]
    times = {}
    for label, make in {"ext4": functools.partial(volumes.Ext4, journal_mib=128), "xfs": Xfs,
                        "btrfs": volumes.Btrfs, "lazyfs": volumes.Lazyfs}.items():
        with volumes.real_disk(plan, disk, size) as device:
            volume = make(plan, device, plan.work / "mnt")
            try:
                volume.make()
            except OSError as why:
                times[label] = {"not measured": str(why)}
                continue
            for name, body in steps:
                volume.mount()
                volumes.drop_caches()
                began = time.monotonic()
                try:
                    body(volume.mnt)
                    loads.sync(volume.mnt)
                finally:
                    volume.unmount()
                times.setdefault(label, {})[name] = time.monotonic() - began
    done = {label: of for label, of in times.items() if "not measured" not in of}
    names = [name for name, _ in steps if name != "fill"]
    others = [label for label in done if label != "lazyfs"]
    checks = [(f"{name}: ahead of {label}", done["lazyfs"][name] < done[label][name])
              for name in names for label in others]

    def draw(axes):
        for i, (label, of) in enumerate(done.items()):
            axes.bar([j + 0.2 * i for j in range(len(names))], [of[name] for name in names], 0.2,
                     label=label)
        axes.set_xticks([j + 0.3 for j in range(len(names))], names, fontsize=7)
        axes.set(ylabel="Time (s)", yscale="log")
        axes.legend()
    return Result(None, {f"{name}, {label}": f"{of[name]:.1f} s" for label, of in done.items()
                         for name in names}, {
                             f"{name}: {label} / lazyfs": done[label][name] / done["lazyfs"][name]
                             for name in names for label in others}, verdict_of(checks),
                  f"smrdisk --realtime, {disk}, {size}: times of the clock, cold caches, each with "
                  f"its unmount; {count} files and overwrites", times, draw)
