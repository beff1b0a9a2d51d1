"""V1 to V3: "Stupid File Systems Are Better" (HotOS 2005), on simulated Cheetah 9LP disks."""
import functools
import random

from . import loads, volumes
from . import plan as lab
from .plan import Result, verdict_of

DISK = "cheetah9lp"
DISK_SECTORS = 17_783_240
BLOCK_SECTORS = 8
STRIPES = (8, 16, 32, 128, 512, 2048, 4096)
WINDOW = 200


def micro(plan, disks, stripe, load):
    """MB/s of requests of 8 sectors on an array."""
    count = plan.pick(40_000, 200_000)
    report = plan.simulate(f"{DISK}x{disks}" if disks > 1 else DISK, "--stripe", stripe, "--load",
                           f"rw={load},bs=4k,count={count},depth={WINDOW}")
    return count * 4096 / report["seconds"] / 1e6


def spread(values):
    """(most - least) / most."""
    values = list(values)
    return (max(values) - min(values)) / max(values)


def v1(plan):
    arrays = plan.pick((4, 16, 64, 128), (4, 8, 16, 32, 64, 128))
    names = ("read", "randread", "write", "randwrite")
    rate = {name: {n: {s: micro(plan, n, s, name) for s in STRIPES} for n in arrays}
            for name in names}
    low, high = 16, 4096
    reads = rate["read"][arrays[-1]]
    ours = {
        "sequential / random reads, stripe unit 16": min(
            rate["read"][n][low] / rate["randread"][n][low] for n in arrays),
        "sequential / random reads, stripe unit 4096": reads[high]
        / rate["randread"][arrays[-1]][high],
        "sequential / random writes, stripe unit 8": max(
            rate["write"][n][8] / rate["randwrite"][n][8] for n in arrays),
        "random reads over stripe units, greatest deviation": max(
            spread(rate["randread"][n].values()) for n in arrays),
        "random writes over stripe units, greatest deviation": max(
            spread(rate["randwrite"][n].values()) for n in arrays)}
    figures = list(ours.values())
    checks = [("sequential reads are far above random ones at a stripe unit of 16 sectors",
               figures[0] > 2),
              ("they fall towards random as the unit grows", figures[1] < 0.5 * figures[0]),
              ("sequential writes are about random ones at small units", 0.5 < figures[2] < 2),
              ("random reads stay within 5 % over all units", figures[3] <= 0.05),
              ("random writes stay within 5 % over all units", figures[4] <= 0.05)]

    def draw(axes):
        for axis, pair in zip(axes, (names[:2], names[2:])):
            for name in pair:
                for stripe in (16, 128, 4096):
                    axis.plot(arrays, [rate[name][n][stripe] for n in arrays], marker="o",
                              linestyle="-" if name == pair[0] else "--",
                              label=f"{name} {stripe}")
            axis.set(xlabel="Disks", ylabel="Throughput (MB/s)", xscale="log", yscale="log")
            axis.legend(fontsize=7)
    return Result("shapes of figures 3 and 4", ours, None, verdict_of(checks),
                  f"arrays of {DISK}, requests of 8 sectors, {WINDOW} at a time, first come first "
                  "served; the key says the load and the stripe unit in sectors", rate, draw,
                  (10, 4), (1, 2))


# ---- Traces -------------------------------------------------------------------------------------

def layouts():
    return {"ext3": functools.partial(volumes.Ext3, journal_mib=128),
            "ext4": functools.partial(volumes.Ext4, journal_mib=128),
            "lazyfs": functools.partial(volumes.Lazyfs, band_size="16M")}


def permuted(trace, out, sectors, seed=1):
    """The stupid version of a trace: cut into blocks of 8 sectors, which a random permutation of
    the filesystem's address space scatters."""
    places = list(range(sectors // BLOCK_SECTORS))
    random.Random(seed).shuffle(places)
    with open(trace, encoding="ascii") as lines, open(out, "w", encoding="ascii") as file:
        for line in lines:
            words = line.split()
            if words[0] == "#" or words[1] not in "RW":
                file.write(line)
                continue
            first, count = int(words[2]), int(words[3])
            for block in range(first // BLOCK_SECTORS, -(-(first + count) // BLOCK_SECTORS)):
                if block < len(places):
                    file.write(f"{words[0]} {words[1]} {places[block] * BLOCK_SECTORS} "
                               f"{BLOCK_SECTORS} -\n")
    return out


def without_flushes(trace):
    """HotOS' traces had none: a flush would wait for all requests before it."""
    lines = [line for line in trace.read_text().splitlines(True) if " F 0 " not in line]
    trace.write_text("".join(lines))
    return trace


@functools.cache
def traces(plan):
    """{load: {layout: trace, layout + " stupid": trace}}, recorded once."""
    parts = ["kernel", "mm", "lib", "include", "fs", "net", "block"]
    parts += plan.pick([], ["arch/x86", "sound", "drivers"])
    archive = loads.linux_archive(plan, parts)
    size = DISK_SECTORS // BLOCK_SECTORS * BLOCK_SECTORS * lab.SECTOR

    def build(mnt):
        loads.unpack(archive, mnt)
        loads.compile_tree(mnt)
    phases = [("build", build), ("postmark", lambda mnt: loads.small_postmark(plan)(mnt))]
    found = {name: {} for name, _ in phases}
    for phase in phases:
        recorded = volumes.record_all(plan, layouts(), size, [phase])
        for layout, of_layout in recorded.items():
            path = without_flushes(of_layout[phase[0]])
            found[phase[0]][layout] = path
            found[phase[0]][layout + " stupid"] = permuted(
                path, path.with_suffix(".stupid"), size // lab.SECTOR)
    return found


def seconds(plan, trace, disks=1, stripe=None, chunk=None, queue="fcfs"):
    options = ["--window", WINDOW, "--queue", queue]
    options += ["--stripe", stripe] if stripe else []
    options += ["--chunk", chunk] if chunk else []
    return plan.simulate(f"{DISK}x{disks}" if disks > 1 else DISK, *options, traces=[trace])


def breakdown(report):
    """Figure 2: reads and writes with their mean sizes in KiB."""
    total = {"reads": [0, 0], "writes": [0, 0]}
    for kind in report["classes"].values():
        for direction, counts in total.items():
            counts[0] += kind[direction]["requests"]
            counts[1] += kind[direction]["bytes"]
    return {name: {"requests": count, "mean_kib": round(size / 1024 / count, 1) if count else 0}
            for name, (count, size) in total.items()}


def other_queues(plan):
    """How much better each layout is at a chunk of 2048 than its permutation at 8, when the disk
    chooses among the waiting requests."""
    gain = {}
    for queue in ("sstf", "clook"):
        for load, by_layout in traces(plan).items():
            for layout in layouts():
                smart = seconds(plan, by_layout[layout], chunk=2048, queue=queue)["seconds"]
                stupid = seconds(plan, by_layout[layout + " stupid"], chunk=8, queue=queue)
                gain[f"{load} {layout}, {queue}"] = 1 - smart / stupid["seconds"]
    return gain


def v2(plan):
    chunks = [8 << i for i in range(9)]
    times, figure2 = {}, {}
    for load, by_layout in traces(plan).items():
        for layout, trace in by_layout.items():
            line = [seconds(plan, trace, chunk=chunk) for chunk in chunks]
            figure2[f"{load} {layout}"] = breakdown(line[0])
            times[f"{load} {layout}"] = [report["seconds"] for report in line]
    normal = {}
    for name, line in times.items():
        base = times[f"{name.split()[0]} {name.split()[1]} stupid"][0]
        normal[name] = [one / base for one in line]
    gain = {name: 1 - line[-1] for name, line in normal.items() if "stupid" not in name}
    flat = {name: spread(line) for name, line in normal.items() if "stupid" in name}
    smart = {name: one for name, one in gain.items() if "lazyfs" not in name}
    equal = [abs(line[0] - 1) for name, line in normal.items() if "stupid" not in name]
    checks = [("smart and stupid take the same time (within 5 %) at a chunk of 8 sectors",
               max(equal) < 0.05),
              ("smart is over 60 % better at 2048", min(smart.values()) > 0.6),
              ("stupid is flat within 1.7 %", max(flat.values()) <= 0.017)]
    gain_of_queues = other_queues(plan)
    ours = {**{f"{name}: improvement at 2048": one
               for name, one in (gain | gain_of_queues).items()},
            "stupid, greatest deviation": max(flat.values())}

    def draw(axes):
        for axis, load in zip(axes, ("build", "postmark")):
            for name, line in normal.items():
                if name.startswith(load):
                    axis.plot(chunks, line, marker="o", label=name.removeprefix(load + " "),
                              linestyle="--" if "stupid" in name else "-")
            axis.set(title=load, xlabel="Chunk (sectors)", ylabel="Time / stupid at 8 sectors",
                     xscale="log", ylim=(0, None))
            axis.legend(fontsize=7)
    return Result({"improvement at 2048": "over 0.60", "stupid, greatest deviation": 0.017}, ours,
                  {name: one / 0.6 for name, one in gain.items()}, verdict_of(checks),
                  f"one {DISK}, a window of {WINDOW} requests, first come first served where no "
                  "queue is named; volume of 8.5 GiB; the build copies sources through a stand-in "
                  "of the compiler",
                  {"seconds": times, "figure 2": figure2}, draw, (10, 4), (1, 2))


def v3(plan):
    postmark, build = traces(plan)["postmark"], traces(plan)["build"]
    arrays = (4, 32, 128)
    names = ("ext3", "lazyfs", "ext3 stupid")
    times = {name: {n: {s: seconds(plan, postmark[name], n, s)["seconds"] for s in STRIPES}
                    for n in arrays} for name in names}
    sizes = plan.pick((32, 128, 512, 4096), (8, 32, 128, 512, 2048, 4096))
    chunks = plan.pick((32, 128, 512, 4096), (8, 16, 32, 64, 128, 256, 512, 2048, 4096))
    volume = {name: {s: {c: seconds(plan, build[name], 128, s, c) for c in chunks} for s in sizes}
              for name in names}
    plane = {name: {s: {c: one["seconds"] for c, one in line.items()} for s, line in of.items()}
             for name, of in volume.items()}
    smart, stupid = times["ext3"], times["ext3 stupid"]
    wide = [(s, c) for s in sizes for c in chunks if s > 128 and c > 128]
    flat = max(spread(stupid[n].values()) for n in arrays)
    flat_plane = spread(one for line in plane["ext3 stupid"].values() for one in line.values())
    ahead = all(times["lazyfs"][n][s] < min(smart[n][s], stupid[n][s])
                for n in arrays for s in STRIPES)
    ahead &= all(plane["lazyfs"][s][c] < min(plane["ext3"][s][c], plane["ext3 stupid"][s][c])
                 for s in sizes for c in chunks)
    checks = [
        ("4 disks: smart is ahead at every stripe unit",
         all(smart[4][s] < stupid[4][s] for s in STRIPES)),
        ("32 disks: stupid is ahead above 128 sectors",
         all(stupid[32][s] < smart[32][s] for s in STRIPES if s > 128)),
        ("128 disks: smart is ahead at 8 and 32 sectors only",
         all((smart[128][s] < stupid[128][s]) == (s in (8, 16, 32)) for s in STRIPES)),
        ("stupid is flat within 0.9 % over stripe units", flat <= 0.009),
        ("volume of 128 disks: stupid is ahead wherever both units are above 128",
         all(plane["ext3 stupid"][s][c] < plane["ext3"][s][c] for s, c in wide)),
        ("and flat within 2 %", flat_plane <= 0.02),
        ("lazyfs is ahead of both at every point", ahead)]
    iops = {f"{name} {s}/{c}": volume[name][s][c]["iops"] for name in names
            for s, c in ((32, 512), (4096, 4096))}
    ours = {"stupid, deviation over stripe units": flat,
            "stupid, deviation of the plane": flat_plane,
            **{f"IOPS {name}": f"{one['mean']:.1f}, {one['deviation_percent']:.1f} %"
               for name, one in iops.items()},
            **{f"lazyfs / ext3, {n} disks, stripe unit {s}": times["lazyfs"][n][s] / smart[n][s]
               for n in arrays for s in (32, 512)}}
    theirs = {"stupid, deviation over stripe units": 0.009, "stupid, deviation of the plane": 0.02,
              "IOPS ext3 32/512": "115.98, 9.30 %", "IOPS ext3 stupid 32/512": "135.11, 7.54 %",
              "IOPS ext3 4096/4096": "7.05, 58.42 %",
              "IOPS ext3 stupid 4096/4096": "133.82, 7.60 %"}

    def draw(axes):
        for name in names:
            for n in arrays:
                axes[0].plot(STRIPES, [times[name][n][s] for s in STRIPES], marker="o",
                             label=f"{name}, {n} disks",
                             linestyle={"ext3": "-", "lazyfs": ":"}.get(name, "--"))
            for s in (sizes[0], sizes[-1]):
                axes[1].plot(chunks, [plane[name][s][c] for c in chunks], marker="o",
                             label=f"{name}, stripe unit {s}",
                             linestyle={"ext3": "-", "lazyfs": ":"}.get(name, "--"))
        axes[0].set(title="postmark on arrays", xlabel="Stripe unit (sectors)", ylabel="Time (s)",
                    xscale="log", yscale="log")
        axes[1].set(title="build on a volume of 128 disks", xlabel="Chunk (sectors)",
                    ylabel="Time (s)", xscale="log", yscale="log")
        for axis in axes:
            axis.legend(fontsize=6)
    return Result(theirs, ours, None, verdict_of(checks),
                  f"arrays of {DISK}, a window of {WINDOW} requests; ext3 is the smart layout, its "
                  "random permutation the stupid one, lazyfs the third. The layouts of today write "
                  "more at a time than those of 2005 (data of V2)",
                  {"arrays": times, "volume": plane, "iops": iops}, draw, (11, 4.5),
                  (1, 2))
