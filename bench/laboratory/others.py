"""F1 (ext4's journal and fdtree), S2 and S4 to S6 (the ShingledFS thesis)."""
import csv
import functools
import json
import statistics
import sys

from . import loads, volumes
from . import plan as lab
from .lazy import CMR, SMR, summary
from .plan import Result, verdict_of

# fdtree: directories in each directory, files in each, blocks of 4 KiB in a file, levels.
FDTREE = {"small, wide": (20, 40, 1, 3), "small, deep": (3, 4, 1, 10),
          "large, wide": (17, 10, 1000, 2), "large, deep": (2, 2, 1000, 10)}
STEPS = ("make directories", "make files", "remove files", "remove directories")


def fdtree_phases(directories, files, blocks, levels):
    """fdtree's four phases, as functions of the mount point."""
    def every(mnt):
        level = [mnt / "fdtree"]
        for _ in range(levels + 1):
            yield from level
            level = [folder / f"d{i}" for folder in level for i in range(directories)]

    def steps_of(mnt, items):
        items = list(items)
        each = max(1, len(items) // loads.SYNCS)
        for i, item in enumerate(items):
            if i % each == each - 1:
                loads.sync(mnt)
            yield item

    def make_directories(mnt):
        for folder in steps_of(mnt, every(mnt)):
            folder.mkdir()

    def paths(mnt):
        return [folder / f"f{i}" for folder in every(mnt) for i in range(files)]

    def make_files(mnt):
        data = (loads.NOISE * 2)[:4096 * blocks]
        for path in steps_of(mnt, paths(mnt)):
            path.write_bytes(data)

    def remove_files(mnt):
        for path in steps_of(mnt, paths(mnt)):
            path.unlink()

    def remove_directories(mnt):
        for folder in steps_of(mnt, reversed(list(every(mnt)))):
            folder.rmdir()
    return list(zip(STEPS, (make_directories, make_files, remove_files, remove_directories)))


def fdtree_load(plan, name):
    directories, files, blocks, levels = FDTREE[name]
    if plan.quick:
        directories, levels = (8, 3) if levels < 10 else (3, 6)
    return directories, files, blocks, levels


def f1(plan):
    sizes = plan.pick((16, 1024), (16, 64, 256, 1024))
    names = plan.pick(list(FDTREE)[:2], list(FDTREE))
    times = {}
    for name in names:
        phases = fdtree_phases(*fdtree_load(plan, name))
        for mib in sizes:
            made = {"ext4": functools.partial(volumes.Ext4, journal_mib=mib),
                    "lazyfs": functools.partial(volumes.Lazyfs, log_mib=mib)}
            for label, traces in volumes.record_all(plan, made, 500 * 1000**3, phases).items():
                for phase, trace in traces.items():
                    report = plan.simulate(CMR, "--window", 32, traces=[trace])
                    times.setdefault(f"{name}, {phase}", {}).setdefault(label, {})[mib] = report[
                        "seconds"]
    least, most = sizes[0], sizes[-1]
    gain = {name: {label: line[least] / line[most] - 1 for label, line in of.items()}
            for name, of in times.items()}
    worst = max(of["lazyfs"] for of in gain.values())
    ahead = [of["lazyfs"][least] < of["ext4"][least] for of in times.values()]
    checks = [("lazyfs with 16 MiB is within 10 % of itself with 1 GiB", worst <= 0.1),
              ("lazyfs is faster than ext4 in each phase, with 16 MiB", all(ahead))]

    def draw(axes):
        for axis, label in zip(axes, ("ext4", "lazyfs")):
            for name, of in times.items():
                axis.plot(list(of[label]), [one / of[label][most] for one in of[label].values()],
                          marker="o", label=name)
            axis.set(title=label, xlabel="Journal or log (MiB)", ylabel="Time / time with 1 GiB",
                     xscale="log", ylim=(0, None))
            axis.legend(fontsize=6)
    theirs = {"small, deep, make directories": "+115 %", "small, deep, make files": "+56 %",
              "small, deep, remove directories": "+367 %"}
    ours = {name: f"ext4 {100 * of['ext4']:+.0f} %, lazyfs {100 * of['lazyfs']:+.0f} %"
            for name, of in gain.items()}
    return Result(theirs, ours, {name: of["ext4"][least] / of["lazyfs"][least]
                                 for name, of in times.items()}, verdict_of(checks),
                  f"{CMR}, 500 GB, traces with 32 requests at a time (a replay has no deviation); "
                  "the figures say how much longer 16 MiB take than 1 GiB; a log of lazyfs may grow"
                  + plan.pick("; smaller trees, without the two loads of large files", ""),
                  times, draw, (10, 4), (1, 2))


# ---- The thesis ---------------------------------------------------------------------------------

def s2(plan):
    parts = plan.pick(["kernel", "mm", "lib", "include", "fs", "net"], [""])
    archive = loads.linux_archive(plan, [part for part in parts if part] or ["."])
    phases = [("untar", functools.partial(loads.unpack, archive)),
              ("compile", loads.compile_tree)]
    made = {"ext4": functools.partial(volumes.Ext4, journal_mib=128), "lazyfs": volumes.Lazyfs}
    found = {}
    for label, traces in volumes.record_all(plan, made, 500 * 1000**3, phases).items():
        found[label] = {f"{name} on {disk}": summary(plan.simulate(
            disk, "--window", 32, traces=[trace])) for name, trace in traces.items()
            for disk in (CMR, SMR)}
    ratio = {name: one["seconds"] / found["lazyfs"][name]["seconds"]
             for name, one in found["ext4"].items()}
    checks = [(f"{name}: ahead of ext4", one > 1) for name, one in ratio.items()]

    def draw(axes):
        names = list(ratio)
        for i, label in enumerate(found):
            work = [found[label][name]["seconds"] for name in names]
            places = [j + 0.4 * i for j in range(len(names))]
            axes.bar(places, work, 0.4, label=label)
            axes.bar(places, [found[label][name]["cleaning_seconds"] for name in names], 0.4,
                     bottom=work, hatch="//", color="#999999",
                     label="cleaning after" if i == 0 else None)
        axes.set_xticks([j + 0.2 for j in range(len(names))], names, fontsize=7)
        axes.set(ylabel="Time (s)")
        axes.legend()
    return Result({"untar over ext3": "+555 %", "compile over ext3": "+56 %"},
                  {name: f"{one:.2f}x" for name, one in ratio.items()}, ratio, verdict_of(checks),
                  "simulated disks, ext4 / lazyfs; the compiler is a stand-in that reads and "
                  "writes as much. The four bars on this machine's own disk (ext4, a do-nothing "
                  "FUSE daemon, lazyfs) are bench/compare's (docs/results/README.md)", found, draw)


def s4(plan):
    found = plan.benchmark("band_ends", "--band-size", plan.pick("16M", "64M"), "--chunks",
                           plan.pick(32, 64), "--work", plan.work, "OUT")
    waste = {f"{row['placement']}, .meta of {row['meta_bytes']} B": row["waste"]
             for row in found["rows"] if "placement" in row and row["placement"]}
    first = max(one for name, one in waste.items() if name.startswith("first"))
    open_band = 1 / (plan.pick(32, 64) + 1)
    least = plan.pick(max(0.02, open_band), 0.02)
    checks = [(f"the default placement wastes less than {100 * least:.1f} %", first <= least)]

    def draw(axes):
        axes.barh(list(waste), [100 * one for one in waste.values()])
        axes.axvline(45, color="grey", linestyle="--")
        axes.set(xlabel="Unused part of the written bands (%); dashed: the thesis")
    return Result({"waste": 0.45}, {f"waste, {name}": one for name, one in waste.items()},
                  {"theirs / ours, default": 0.45 / max(first, 1e-3)}, verdict_of(checks),
                  "chunks as long as a band, each after a tiny .meta file, fsync of each; the band "
                  "that is still open counts as unused", found, draw)


def s5(plan):
    found = plan.benchmark("terasort_bands", "--size", plan.pick("128M", "1G"), "--mode",
                           plan.pick("local", "hdfs"), "--rounds", 2, "--work", plan.work, "OUT")
    large, small = found["disks"][0], found["disks"][-1]
    slow = sum(sum(phase.values()) for phase in small["phases"]) / len(small["phases"]) / sum(
        sum(phase.values()) for phase in large["phases"]) * len(large["phases"])
    checks = [("the report accounts for every block that was written",
               large["live_blocks"] + large["dead_blocks"] <= large["user_blocks_written"] * 1.01),
              ("on the tight disk no writer waits over 100 ms",
               small["longest_wait_of_a_write_ms"] <= 100),
              ("the sort takes at most 15 % longer than where nothing is cleaned", slow <= 1.15)]

    def draw(axes):
        for disk in found["disks"]:
            axes.plot([one["seconds"] for one in disk["samples"]],
                      [one["free_bands"] / disk["bands"] for one in disk["samples"]],
                      label=f"{disk['bands']} bands of {disk['band_mib']} MiB")
        axes.set(xlabel="Time (s)", ylabel="Free bands (share)", ylim=(0, 1))
        axes.legend()
    return Result({"overhead": 1.56, "MB/s that die": 2.45},
                  {"overhead": large["overhead"], "MB/s that die": large["dead_mb_a_second"],
                   "MB/s moved on the tight disk": small["moved_mb_a_second"],
                   "longest wait, ms": small["longest_wait_of_a_write_ms"],
                   "time on the tight disk / on the large one": slow}, None, verdict_of(checks),
                  found["command"], {key: value for key, value in found.items()}, draw)


def s6(plan):
    out = plan.work / "cleaning"
    lab.run(sys.executable, plan.bench / "cleaning_sweep", "--bin", plan.bin, out)
    with open(f"{out}.csv", encoding="ascii", newline="") as file:
        rows = list(csv.DictReader(file))
    # A block that is moved is read and written in sequence.
    rate = {}
    for way in ("read", "write"):
        report = plan.simulate("host-managed", "--load", f"rw={way},bs=1m,count=4000")
        rate[way] = 4000 * lab.MIB / report["seconds"]
    ms_each = 4096 * 1000 * (1 / rate["read"] + 1 / rate["write"])
    for row in rows:
        row["wa"] = float(row["write_amplification"])
        row["p99_ms"] = float(row["moved_in_a_write_p99"]) * ms_each
        row["max_ms"] = float(row["moved_in_a_write_max"]) * ms_each

    def mean(figure, **where):
        return statistics.mean(row[figure] for row in rows
                               if all(row[key] == value for key, value in where.items()))
    names = {key: list(dict.fromkeys(row[key] for row in rows))
             for key in ("placement", "clean", "trigger")}
    ours = {f"{key}={value}": f"write amplification {mean('wa', **{key: value}):.3f}, longest wait "
            f"{mean('max_ms', **{key: value}):.0f} ms, p99 {mean('p99_ms', **{key: value}):.1f} ms"
            for key, values in names.items() for value in values}
    pairs = {}
    for row in rows:
        key = row["load"], row["placement"], row["clean"]
        pairs.setdefault(key, {})[row["trigger"]] = row
    idle_counts = sum(of["idle+space"]["max_ms"] != of["space"]["max_ms"]
                      or of["idle+space"]["wa"] != of["space"]["wa"] for of in pairs.values())
    checks = [("each combination is measured", len(rows) == len(pairs) * len(names["trigger"])),
              ("the idle trigger makes a difference where loads pause", idle_counts > 0),
              ("the default has no more write amplification than greedy cleaning (2 %)",
               mean("wa", clean="auto") <= 1.02 * mean("wa", clean="greedy"))]

    def draw(axes):
        for clean in names["clean"]:
            some = [row for row in rows if row["clean"] == clean]
            axes.scatter([row["wa"] for row in some], [row["max_ms"] + 0.1 for row in some],
                         label=f"clean={clean}")
        axes.set(xlabel="Write amplification", ylabel="Longest wait of a write (ms, + 0.1)",
                 yscale="log")
        axes.legend()
    return Result("discussed there, not measured", ours, None, verdict_of(checks),
                  "loads in memory by counted blocks, with pauses of 10 s between their phases; a "
                  f"moved block takes {ms_each:.3f} ms on the simulated host-managed disk; the "
                  f"trigger idle+space differs from space in {idle_counts} of {len(pairs)} pairs",
                  json.loads(json.dumps(rows)), draw)
