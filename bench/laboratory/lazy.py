"""L1 to L8: "Evolving Ext4 for Shingled Disks" (FAST 2017)."""
import functools
import json
import re
import statistics
import time

from . import loads, volumes
from . import plan as lab
from .plan import GIB, Result, verdict_of

SHINGLED = ("ST8000AS0002", "ST5000AS0011", "ST4000LM016", "WD40NMZW")
SMR, CMR = SHINGLED[0], "WD5000YS"


def rates(progress, every):
    """Requests a second in each interval."""
    times = [0] + [one["seconds"] for one in progress]
    return [every / (after - before) for before, after in zip(times, times[1:])]


def l1(plan):
    every, count = 10_000, plan.pick(600_000, 2_000_000)
    lines = {}
    for disk in (*SHINGLED, CMR):
        report = plan.simulate(disk, "--every", every, "--load",
                               f"rw=randwrite,bs=4k,range=128g,count={count}")
        line = rates(report["progress"], every)
        lines[disk] = {"rates": line, "before": max(line[:3]), "least": min(line),
                       "after": sum(line[-5:]) / 5, "cleaning_seconds": report["cleaning_seconds"],
                       "moved_gib": report["bands"]["moved_bytes_with_cleaning"] / GIB}
    cliffs = {disk: one["before"] / one["least"] for disk, one in lines.items()}
    checks = [(f"{disk} falls off a cliff", cliffs[disk] > 5) for disk in SHINGLED[:3]]
    checks += [("the conventional disk does not", cliffs[CMR] < 2),
               ("WD40NMZW, which always cleans, begins lower and has a smaller cliff",
                lines["WD40NMZW"]["before"] < lines[SMR]["before"]
                and cliffs["WD40NMZW"] < cliffs[SMR]),
               ("and is faster than the others once it is full",
                lines["WD40NMZW"]["after"] > max(lines[disk]["after"] for disk in SHINGLED[:3])),
               ("its dynamic mapping moves at most three quarters of what static mapping moves",
                lines["WD40NMZW"]["moved_gib"] <= 0.75 * lines[SMR]["moved_gib"])]

    def draw(axes):
        for disk, one in lines.items():
            line = one["rates"]
            axes.plot([i * every / 1000 for i in range(len(line))], line, label=disk)
        axes.set(xlabel="Writes (thousands)", ylabel="Writes a second", yscale="log")
        axes.legend()
    return Result("a cliff where the cache is full",
                  {f"{disk}: writes a second before / at the bottom": one
                   for disk, one in cliffs.items()}, None, verdict_of(checks),
                  f"{count} random writes of 4 KiB in 128 GiB, one at a time; of the shingled "
                  "disks only the ST8000AS0002 was checked against measured figures", lines, draw)


def write_trace(path, requests):
    """The requests, writes of (sector, sectors), and a flush."""
    path.write_text("# lazyfs block trace 1\n" + "".join(
        f"{i} W {sector} {sectors} -\n" for i, (sector, sectors) in enumerate(requests))
        + f"{len(requests)} F 0 0 -\n")
    return path


def in_pieces(mib, place, kib=512):
    """Contiguous writes of `kib`, `mib` in all."""
    step = 2 * kib
    return [(place + at, step) for at in range(0, mib * 2048, step)]


def l2(plan):
    place, elsewhere = 4 << 21, 900 << 21
    path = plan.work / "stream.trace"

    def bands(requests):
        return plan.simulate(SMR, traces=[write_trace(path, requests)])["bands"]
    lines, least = {}, None
    for mib in range(16, 0, -1):  # Test 1 of the paper; another write ends the sequence
        cached = bands([*in_pieces(mib, place), (elsewhere, 8)])["cached_bytes"] - 4096
        lines[mib] = cached / (mib << 20)
        if cached == 0:
            least = mib
    whole = in_pieces(64, place)
    disturbed = bands(whole[:64] + [(elsewhere, 8)] + whole[64:])
    checks = [("the least stream is 8 MiB", least == 8),
              ("a random write of 4 KiB within 64 MiB goes to the cache, and the stream continues",
               disturbed["cached_bytes"] == 4096 and disturbed["streamed_bytes"] == 64 << 20)]

    def draw(axes):
        axes.bar(list(lines), [100 * one for one in lines.values()])
        axes.set(xlabel="Size of a sequential write (MiB)",
                 ylabel="Written into the persistent cache (%)")
    return Result({"least stream, MiB": 8}, {
        "least stream, MiB": least, "KiB in the cache of 64 MiB and a random write":
            disturbed["cached_bytes"] / 1024},
                  {"least stream, MiB": least / 8 if least else None}, verdict_of(checks),
                  f"{SMR}, writes of 512 KiB in sequence", lines, draw)


# ---- L3 -----------------------------------------------------------------------------------------

# Name; whether one program waits for each read; the paper's factors on a conventional and on a
# shingled disk (the least of the range); the paper's seconds of cleaning for the baseline.
PHASES = (("MakeDirs", False, 2.0, 1.5, 846), ("ListDirs", True, 3.0, 13.0, 0),
          ("FindDirs", True, 3.0, 3.0, 0), ("TarDirs", True, 3.0, 3.0, 0),
          ("RemoveDirs", True, 4.0, 13.7, 590),
          ("CreateFiles", False, 1.5, 1.5, None), ("FindFiles", True, 3.0, 3.0, 0),
          ("TarFiles", True, 1.0, 1.0, 0), ("RemoveFiles", True, 3.0, 3.0, 366))


def phases_of(plan):
    directories, files = plan.pick((16_000, 12_000), (800_000, 600_000))
    bodies = (functools.partial(loads.make_directories, count=directories), loads.list_tree,
              loads.find_files, loads.tar_tree, loads.remove_tree,
              functools.partial(loads.create_files, count=files), loads.find_files, loads.tar_tree,
              loads.remove_tree)
    return [(phase[0], body) for phase, body in zip(PHASES, bodies)]


SMALL_JOURNAL = "ext4, 128 MiB"  # the default of mke2fs in the paper's time


def systems():
    return {"ext4": functools.partial(volumes.Ext4, journal_mib=10240),
            SMALL_JOURNAL: functools.partial(volumes.Ext4, journal_mib=128),
            "lazyfs": volumes.Lazyfs}


def seconds_in_words(found):
    """Of ext4 with a journal of 10 GiB, of lazyfs, and of ext4 with a small journal."""
    return (f"{found['ext4']['seconds']:.1f} s, {found['lazyfs']['seconds']:.1f} s; 128 MiB: "
            f"{found[SMALL_JOURNAL]['seconds']:.1f} s")


def summary(report):
    kinds = report["classes"]
    return {"seconds": report["seconds"], "cleaning_seconds": report["cleaning_seconds"],
            "mib": {name: {way: round(kind[way]["bytes"] / lab.MIB, 1) for way in kind}
                    for name, kind in kinds.items()},
            "requests": report["requests"], "flushes": report["flushes"],
            "seeks": report["seeks"]["count"], "cached_mib":
            round(report["bands"]["cached_bytes"] / lab.MIB, 1)}


def replays(plan, disk, size_bytes):
    """{system: {phase: summary}}"""
    found = {}
    for label, traces in volumes.record_all(plan, systems(), size_bytes,
                                            phases_of(plan)).items():
        found[label] = {}
        for name, waits, *_ in PHASES:
            report = plan.simulate(disk, "--window", 1 if waits else 32, traces=[traces[name]])
            found[label][name] = summary(report)
            traces[name].unlink()
    return found


def l3(plan):
    # Commits of less than 8 MiB, as small runs have, do not stream: they dirty a band or two.
    few_bands = plan.pick(3, 0)
    on = {CMR: replays(plan, CMR, 500 * 1000**3), SMR: replays(plan, SMR, 2 * 1000**4)}
    ours, theirs, ratio, checks = {}, {}, {}, []
    for name, _, cmr, smr, cleaning in PHASES:
        for disk, factor in ((CMR, cmr), (SMR, smr)):
            ext4, ours_ = on[disk]["ext4"][name], on[disk]["lazyfs"][name]
            key = f"{name} on {disk}"
            theirs[key] = f"{factor:g}x"
            ratio[key] = ext4["seconds"] / max(ours_["seconds"], 1e-3)
            found = {label: on[disk][label][name] for label in on[disk]}
            ours[key] = f"{ratio[key]:.1f}x ({seconds_in_words(found)})"
            checks.append((f"{key}: at least {factor:g} times as fast", ratio[key] >= factor))
        clean = on[SMR]["lazyfs"][name]["cleaning_seconds"]
        ours[f"{name}: cleaning"] = (f"{on[SMR]['ext4'][name]['cleaning_seconds']:.0f} s, "
                                     f"{clean:.1f} s")
        if cleaning is not None:
            theirs[f"{name}: cleaning"] = f"{cleaning} s, " + ("at most 20 s" if "Remove" in name
                                                               else "0 s")
            least = 20 if "Remove" in name else few_bands if "Make" in name else 0
            checks.append((f"{name}: cleaning at most {least} s", clean <= least))
    checks.append(("lazyfs writes no metadata outside of its log", all(
        one["mib"]["metadata"]["writes"] == 0 for of in on.values()
        for one in of["lazyfs"].values())))

    def draw(axes):
        names = [phase[0] for phase in PHASES]
        for axis, (disk, of) in zip(axes, on.items()):
            for i, label in enumerate(of):
                places = [j + 0.8 * i / len(of) for j in range(len(names))]
                work = [of[label][name]["seconds"] for name in names]
                axis.bar(places, work, 0.8 / len(of), label=label)
                axis.bar(places, [of[label][name]["cleaning_seconds"] for name in names],
                         0.8 / len(of), bottom=work, hatch="//", color="#999999",
                         label="cleaning after" if i == 0 else None)
            axis.set_xticks([j + 0.3 for j in range(len(names))], names, rotation=60, fontsize=7)
            axis.set(title=disk, ylabel="Time (s)", yscale="symlog")
            axis.legend(fontsize=7)
    return Result(theirs, ours, ratio, verdict_of(checks),
                  f"{plan.pick('16,000 directories, 12,000', '800,000 directories, 600,000')} "
                  "files of 4 KiB, eight processes, recorded up to the sync at the end; seconds "
                  "of ext4 with a journal of 10 GiB, of lazyfs, and of ext4 with 128 MiB, which is "
                  "no baseline of the paper; cold caches; traces of block_rq_issue replayed on "
                  "fresh disks, one request at a time where one program reads, else 32 at a time; "
                  "volumes of 500 GB and 2 TB", on, draw, (12, 5), (1, 2))

# ---- L4 -----------------------------------------------------------------------------------------

def l4(plan):
    divisor = plan.pick(16, 1)
    suffix = f"/{divisor}" if divisor > 1 else ""
    plans = [(CMR, 500 * 1000**3, 1.05, "CMR"), (SMR, 400 * 1000**3, 2.0, "400 GB"),
             (SMR, 8_001_563_222_016, 5.4, "full"), ("ST4000LM016", 4_000_787_030_016, 2.0, "full"),
             ("ST5000AS0011", 5_000_981_078_016, 2.0, "full"),
             ("WD40NMZW", 4_000_753_476_096, 1.7, "full")]
    theirs, ours, ratio, checks, data = {}, {}, {}, [], {}
    for disk, size, factor, how in plans:
        key = f"{disk}, {how}"
        body = [("postmark", lambda mnt: loads.postmark(plan, divisor)(mnt))]
        found = {}
        for label, traces in volumes.record_all(plan, systems(), size, body).items():
            report = plan.simulate(disk + (suffix if disk != CMR else ""), "--window", 32,
                                   "--series", plan.work / "series.csv",
                                   traces=[traces["postmark"]])
            found[label] = summary(report) | {"series": report["series"]}
            traces["postmark"].unlink()
        data[key] = found
        theirs[key] = f"{factor:g}x"
        ratio[key] = found["ext4"]["seconds"] / found["lazyfs"]["seconds"]
        ours[key] = f"{ratio[key]:.2f}x ({seconds_in_words(found)})"
        checks.append((f"{key}: at least {factor:g} times as fast", ratio[key] >= factor))

    def draw(axes):
        for axis, (key, found) in zip(axes, data.items()):
            for label, one in found.items():
                series = one["series"]
                axis.plot([(r + w) / lab.MIB for r, w in
                           zip(series["read_bytes"], series["written_bytes"])], label=label)
            axis.set(title=key, xlabel="Time (s)", ylabel="Throughput (MiB/s)")
            axis.title.set_fontsize(8)
            axis.legend(fontsize=7)
    return Result(theirs, ours, ratio, verdict_of(checks),
                  f"Postmark with a {divisor}th of the files, directories and transactions"
                  f"{f', persistent caches and maps of a {divisor}th' if suffix else ''}; "
                  "seconds as in L3; traces replayed with 32 requests at a time: writeback does "
                  "not wait for the simulated disk as it would for a real one", data, draw,
                  (16, 3.5), (1, 6))


# ---- L5 to L8 -----------------------------------------------------------------------------------

def many_files(mnt, directories, files):
    """ext4-lazy, figure 6: files with contents in more than half as many directories."""
    for i in range(directories):
        (mnt / loads.tree_path(i, 10)).mkdir(exist_ok=i == 0)
    for i in range(files):
        place = (i * 7919) % directories  # neighbours in time are far apart in the tree
        (mnt / loads.tree_path(place, 10) / f"f{i}").write_bytes(loads.NOISE[:4096])


def timed_files(plan, make, directories, files):
    """Seconds until the files are made, and until they are durable, on a disk in real time."""
    with volumes.real_disk(plan, CMR, "64G") as device:
        volume = make(plan, device, plan.work / "mnt")
        volume.make()
        volume.mount()
        try:
            began = time.monotonic()
            many_files(volume.mnt, directories, files)
            made = time.monotonic() - began
            loads.sync(volume.mnt)
            return made, time.monotonic() - began
        finally:
            volume.unmount()


def l5(plan):
    sizes = plan.pick((16, 1024), (16, 128, 1024))
    directories, files = plan.pick((3_000, 5_000), (60_000, 100_000))
    rounds = plan.pick(1, 5)
    times = {"ext4": {}, "lazyfs": {}}
    for _ in range(rounds):
        for mib in sizes:
            for label, make in (("ext4", functools.partial(volumes.Ext4, journal_mib=mib)),
                                ("lazyfs", functools.partial(volumes.Lazyfs, log_mib=mib))):
                times[label].setdefault(mib, []).append(
                    timed_files(plan, make, directories, files))
    made = {label: {mib: statistics.median(one[0] for one in runs) for mib, runs in of.items()}
            for label, of in times.items()}
    cliff = {label: line[16] / line[sizes[-1]] for label, line in made.items()}
    checks = [("ext4 falls off a cliff with a journal of 16 MiB", cliff["ext4"] > 2),
              ("lazyfs has no cliff (16 MiB within 10 % of the largest log)",
               cliff["lazyfs"] <= 1.1),
              ("with 16 MiB lazyfs is faster than ext4", made["lazyfs"][16] < made["ext4"][16])]

    def draw(axes):
        for label, line in made.items():
            axes.plot(list(line), list(line.values()), marker="o", label=label)
        axes.set(xlabel="Journal, or log made by mkfs (MiB)", ylabel="Time (s)", xscale="log",
                 yscale="log")
        axes.legend()
    return Result({"ext4: 16 MiB / largest": 46},
                  {**{f"{label}: 16 MiB / largest": one for label, one in cliff.items()},
                   **{f"{label}, {mib} MiB, s": one for label, line in made.items()
                      for mib, one in line.items()}},
                  {"ext4's cliff / lazyfs' cliff": cliff["ext4"] / cliff["lazyfs"]},
                  verdict_of(checks),
                  f"{files} files of 4 KiB in {directories} directories, until all are made; "
                  f"{CMR} in real time (smrdisk --realtime), median of {rounds}; a log of lazyfs "
                  "may grow",
                  times, draw)


def l6(plan):
    """Seeks of a cold walk, and what a log costs that is full; the index of nodes is in memory."""
    seeks = json.loads(lab.run(plan.bin / "seeks", plan.work / "seeks.img", "--files", 10_000))
    text = lab.run(plan.bin / "log_sweep", plan.work / "sweep.img", "--size", 0, "--scale",
                   plan.pick(0.5, 1), "--live", *plan.pick((0.1, 0.5, 0.7, 0.75),
                                                           (0.1, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8)))
    sweep = json.loads(text[text.index("{"):])
    entry, lookup_us = index_figures(plan)
    reads = plan.simulate(CMR, "--load", "rw=randread,bs=4k,range=1g,count=10000,seed=3")["seconds"]
    index = (reads + 10_000 * lookup_us / 1e6) / reads
    files = {round(row["live_share"], 2): row for row in sweep["files"]}
    low, high = min(files), max(share for share in files if share <= 0.8)
    slow = {what: files[high][what] / files[low][what] for what in ("making", "replacing")}
    walk = seeks["walk"]["metadata"]
    checks = [("an entry of the index takes at most 56 B", entry <= 56),
              ("reading nodes through the index takes as long as by address (1 %)",
               abs(index - 1) <= 0.01),
              ("3 seeks get the metadata of 10,000 files", walk["seeks"] <= 3),
              (f"making files in a log {high:.0%} live writes as much as at {low:.0%} (5 %)",
               slow["making"] <= 1.05)]
    rows = [row for row in sweep["cleaning"] if row["hot_share"] == 0.9]

    def draw(axes):
        for what in ("making", "replacing"):
            axes.plot([100 * share for share in files], [row[what] for row in files.values()],
                      marker="o", label=f"{what} files")
        axes.plot([100 * row["live_share"] for row in rows],
                  [row["log_write_amplification"] for row in rows], marker="x", linestyle="--",
                  label="random changes, 90 % of them to a tenth")
        axes.set(xlabel="Live share of a log that may not grow (%)",
                 ylabel="Blocks written for each node changed", ylim=(0, None))
        axes.legend()
    return Result({"entry, B": 66, "indirection": "no cost", "seeks": 3,
                   "live share without slow-down": 0.7},
                  {"entry, B": entry, "through the index / by address": index,
                   "seeks": walk["seeks"], "reads": walk["reads"],
                   **{f"{what} files at {high:.0%} / at {low:.0%} live": one
                      for what, one in slow.items()}},
                  {"entry, B": 66 / entry, "seeks": 3 / max(1, walk["seeks"])}, verdict_of(checks),
                  "seeks: reads of metadata that do not begin where the one before ended; index: "
                  f"reads of 10,000 nodes at random on the simulated {CMR}, and the measured time "
                  "of as many look-ups of the index", {"seeks": seeks, "sweep": sweep}, draw)


def index_figures(plan):
    """The bytes of an entry of the index of nodes (jmap), and the microseconds of a look-up."""
    text = lab.run(plan.bin / "meta_store", 10_000)
    entry = re.search(r"entries of (\d+) bytes", text)
    lookup = re.search(r"jmap: find, random +([\d.]+) us", text)
    return float(entry[1]), float(lookup[1])


def mount_trace(volume, path):
    """The requests of a mount with cold caches; the volume stays mounted."""
    volumes.drop_caches()
    recording = volumes.Recording(volume.device)
    recording.begin()
    try:
        volume.mount()
    finally:
        recording.end()
    recording.write(path, [])
    return path


def mounts(plan, files):
    """Traces of a mount after a clean end and of one after a crash; the GiB of the log, and those
    after its newest checkpoint."""
    with volumes.loop_device(plan.work / "disk.img", 500 * 1000**3) as device:
        volume = volumes.Lazyfs(plan, device, plan.work / "mnt")
        volume.make()
        volume.mount()
        loads.create_files(volume.mnt, files)
        loads.sync(volume.mnt)
        stats = lab.stats_of(plan.bin, volume.mnt)
        lab.run(plan.bin / "lazyfsctl", "shutdown", volume.mnt)
        volume.unmount()
        crash = mount_trace(volume, plan.work / "crash.trace")
        volume.unmount()
        clean = mount_trace(volume, plan.work / "clean.trace")
        volume.unmount()
    log = stats["metadata"]
    return clean, crash, log["log_bytes_written"] / GIB, (
        log["log_blocks_after_checkpoint"] * 4096 / GIB)


def l7(plan):
    rows = []
    for files in plan.pick((4000, 16_000), (10_000, 100_000, 1_000_000)):
        clean, crash, gib, gib_after = mounts(plan, files)
        for disk in (CMR, SMR):
            times = [plan.simulate(disk, traces=[trace])["seconds"] for trace in (clean, crash)]
            more = max(0, times[1] - times[0])
            rows.append({"disk": disk, "files": files, "gib": gib, "gib_after": gib_after,
                         "clean": times[0], "crash": times[1], "s_a_gib": more / gib,
                         "s_a_gib_after": more / gib_after})
    clean = max(row["clean"] for row in rows)
    last = max(rows, key=lambda row: row["gib"] * (row["disk"] == CMR))
    checks = [("less than 0.5 s more for each GiB of log after a crash", last["s_a_gib"] < 0.5),
              ("less than 0.1 s after a clean unmount", clean < 0.1)]

    def draw(axes):
        for disk in (CMR, SMR):
            for when in ("clean", "crash"):
                some = [row for row in rows if row["disk"] == disk]
                axes.plot([row["files"] for row in some], [row[when] for row in some], marker="o",
                          linestyle="-" if when == "crash" else "--", label=f"{disk}, {when}")
        axes.set(xlabel="Files", ylabel="Time of the mount's requests (s)", ylim=(0, None))
        axes.legend()
    return Result({"s/GiB after a crash": "5 to 6"},
                  {"s/GiB after a crash": last["s_a_gib"],
                   "the same for each GiB after the checkpoint": last["s_a_gib_after"],
                   "s after a crash": last["crash"], "s after a clean end": clean,
                   "GiB of log": last["gib"], "GiB after the checkpoint": last["gib_after"]},
                  {"s/GiB after a crash": 5 / last["s_a_gib"] if last["s_a_gib"] else None},
                  verdict_of(checks),
                  "requests of a mount on the simulated disks, one at a time, without the CPU's "
                  "time; a mount reads the newest checkpoint and the descriptors after it, a part "
                  "of the log that has a limit; what a crash adds is divided by the whole log, "
                  "which is what ext4-lazy reads, and by that part", rows, draw)


def l8(plan):
    """The ratio depends on how long a load runs, and on how often it commits: nodes that exist
    saturate, and what is written grows. So both are fixed, such that the log has the same share of
    all writes as the paper's journal."""
    found = plan.benchmark("hot_metadata", "--trees", plan.pick(4, 8), "--disk",
                           plan.pick("4G", "8G"), "--work", plan.work, "OUT.json")
    hot, again = (found["different_nodes_share_of_all_written"],
                  found["overwrites_share_of_nodes_written"])
    checks = [("hot metadata is about 0.8 % of what is written (0.4 to 1.6 %)",
               0.004 <= hot <= 0.016),
              ("about 90 % of the log's nodes are overwrites (80 to 100 %)", again >= 0.8)]

    def draw(axes):
        axes.bar(["paper", "lazyfs"], [0.8, 100 * hot], 0.4, label="hot metadata, % of all written")
        axes.bar([0.4, 1.4], [90, 100 * again], 0.4, label="overwrites, % of the log's nodes")
        axes.set(yscale="log", ylabel="Share (%)")
        axes.legend()
    return Result({"hot metadata": 0.008, "overwrites": 0.9}, {"hot metadata": hot,
                                                              "overwrites": again},
                  {"hot metadata": hot / 0.008, "overwrites": again / 0.9}, verdict_of(checks),
                  "the paper's load wrote 433 GiB, of it 34 GiB to the journal; here "
                  f"{found['data_mib']} MiB of data and {found['log_mib']} MiB of log in "
                  f"{found['transactions']} transactions, by trees that are created, compiled, "
                  "patched, cleaned and deleted at random", found, draw)
