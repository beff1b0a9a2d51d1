"""S1 and S3: what Hadoop asks of a filesystem, and how long its jobs take. Both use the results of
bench/cluster, which takes hours; S1 counts two more loads itself."""
import json
import pathlib
import signal
import statistics
import subprocess
import time

from . import loads, volumes
from . import plan as lab
from .plan import GIB, Result, verdict_of

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs/results/cluster.json"
JOBS = ("teragen", "terasort", "teravalidate")
LEAST_ROUNDS = 3
COUNTED = ("2012", "today", "lazyfs")  # the pass-through in two modes; requests to lazyfs
PAPER = {"untar": 367_315, "compile": 5_813_167, "teragen": 13_976, "terasort": 136_334,
         "teravalidate": 4_809}


def cluster_results():
    if not RESULTS.exists():
        raise lab.Failed("comes with a run of `bench/cluster` on an idle machine, which takes "
                         f"hours; {RESULTS.name} of none is here")
    return json.loads(RESULTS.read_text())


# ---- S1 -----------------------------------------------------------------------------------------

class Profiled(volumes.Ext4):
    """ext4 beneath the profiler. sections() is for after the unmount: one for each mark(), and the
    last one."""
    name, mode = "profiled", ()

    def mount(self):
        self.backing, self.output = self.plan.work / "lower", self.plan.work / "profile.json"
        self.backing.mkdir(exist_ok=True)
        self.output.unlink(missing_ok=True)
        lab.run("mount", "-o", self.options, self.device, self.backing)
        words = [self.plan.bin / "profiler", "-f", "--json", *self.mode, "-o", self.output,
                 self.mnt, self.backing]
        self.server = subprocess.Popen([str(word) for word in words])
        while not self.mnt.is_mount():
            if self.server.poll() is not None:
                raise lab.Failed("profiler ended")
            time.sleep(0.05)

    def mark(self):
        before = self.output.read_text().count("\n") if self.output.exists() else 0
        self.server.send_signal(signal.SIGUSR1)
        while not self.output.exists() or self.output.read_text().count("\n") <= before:
            time.sleep(0.05)

    def unmount(self):
        super().unmount()
        self.server.wait()
        lab.run("umount", self.backing)

    def sections(self):
        return [json.loads(line) for line in self.output.read_text().splitlines()]


class ProfiledClassic(Profiled):
    mode = ("--classic",)


class Counted(volumes.Lazyfs):
    """lazyfs; its own counters are the sections."""

    def mount(self):
        super().mount()
        self.marks = [self.requests()]

    def requests(self):
        return lab.stats_of(self.plan.bin, self.mnt)["operations"]

    def mark(self):
        self.marks.append(self.requests())

    def unmount(self):
        self.mark()
        super().unmount()

    def sections(self):
        pairs = zip(self.marks, self.marks[1:])
        counts = [{name: after[name] - before.get(name, 0) for name in after
                   if after[name] > before.get(name, 0)} for before, after in pairs]
        return [{"calls": one, "requests": sum(one.values())} for one in counts]


def two_loads(plan, make, archive):
    """The sections of unpacking and of compiling."""
    with volumes.loop_device(plan.work / "disk.img", 64 * GIB) as device:
        volume = make(plan, device, plan.work / "mnt")
        volume.make()
        volume.mount()
        try:
            loads.unpack(archive, volume.mnt)
            loads.sync(volume.mnt)
            volume.mark()
            loads.compile_tree(volume.mnt)
            loads.sync(volume.mnt)
        finally:
            volume.unmount()
    return volume.sections()


def added(sections):
    """The sum of sections of several workers."""
    total = {"calls": {}, "requests": 0, "reads": {}, "writes": {}}
    for section in sections:
        total["requests"] += section["requests"]
        for call, count in section["calls"].items():
            total["calls"][call] = total["calls"].get(call, 0) + count
        for way in ("reads", "writes"):
            calls = sum(one["calls"] for one in section[way]["sizes"])
            for name, value in (("bytes", section[way]["bytes"]), ("calls", calls)):
                total[way][name] = total[way].get(name, 0) + value
    return total


def jobs_of(results):
    """{job: {of COUNTED: section}} of the smallest size that all three were run with."""
    found = {}
    for kind, label in (("profiler-classic", "2012"), ("profiler", "today"), ("lazyfs", "lazyfs")):
        rounds = [one for one in results["rounds"] if one["kind"] == kind
                  and (one.get("requests") or kind != "lazyfs")]
        if not rounds:
            raise lab.Failed(f"{RESULTS.name} has no round of {kind} with its requests")
        last = min(rounds, key=lambda one: one["size_bytes"])
        for i, job in enumerate(JOBS):
            # The first section of a worker is of the time before the first job.
            found.setdefault(job, {})[label] = (
                {"calls": {name: count for name, count in last["requests"][job].items()
                           if not name.startswith("bytes")}}
                if kind == "lazyfs" else
                added(worker["profile"][1 + i] for worker in last["workers"]))
    for of in found.values():
        of["lazyfs"]["requests"] = sum(of["lazyfs"]["calls"].values())
    return found


def first_calls(section, count):
    ranked = sorted(section["calls"], key=section["calls"].get, reverse=True)
    return ranked[:count]


def s1(plan):
    parts = plan.pick(["kernel", "mm", "lib", "include", "fs", "net"], [""])
    archive = loads.linux_archive(plan, [part for part in parts if part] or ["."])
    makers = dict(zip(COUNTED, (ProfiledClassic, Profiled, Counted)))
    sections = {label: two_loads(plan, make, archive) for label, make in makers.items()}
    found = {load: {label: of[i] for label, of in sections.items()}
             for i, load in enumerate(("untar", "compile"))}
    found |= jobs_of(cluster_results())
    classic = {load: of["2012"] for load, of in found.items()}
    mean = {f"TeraSort, {label}: mean of {way}, KiB":
            found["terasort"][label][way]["bytes"] / found["terasort"][label][way]["calls"] / 1024
            for label in COUNTED[:2] for way in ("reads", "writes")}
    checks = [
        ("untar: the six most frequent are of getattr, write, utime, mknod, open, release, "
         "getxattr, chmod and chown",
         set(first_calls(classic["untar"], 6)) <= {
             "getattr", "write", "utime", "mknod", "open", "release", "getxattr", "chmod",
             "chown"}),
        ("compile: getattr, read, open and release are among the five most frequent",
         {"getattr", "read", "open", "release"} <= set(first_calls(classic["compile"], 5))),
        ("TeraGen: write and getxattr are the most frequent",
         set(first_calls(classic["teragen"], 2)) == {"write", "getxattr"}),
        ("TeraSort: more writes than reads",
         classic["terasort"]["calls"]["write"] > classic["terasort"]["calls"]["read"]),
        ("TeraValidate: getattr and read are the most frequent",
         set(first_calls(classic["teravalidate"], 2)) == {"getattr", "read"}),
        ("lazyfs gets fewer requests than the pass-through of 2012 in each load", all(
            of["lazyfs"]["requests"] < of["2012"]["requests"] for of in found.values()))]
    ours = {f"{load}: {label}": f"{of[label]['requests']:,} requests" if label == "lazyfs" else
            f"{sum(of[label]['calls'].values()):,} calls, {of[label]['requests']:,} requests"
            for load, of in found.items() for label in COUNTED}
    ours |= mean

    def draw(axes):
        for row, (load, of) in zip(axes, found.items()):
            for axis, label in zip(row, COUNTED):
                calls = of[label]["calls"]
                names = sorted(calls, key=calls.get)
                axis.barh(names, [calls[name] for name in names])
                axis.set(xscale="log", xlim=(0.8, None))
                axis.tick_params(labelsize=6)
                axis.set_title(f"{load}, {label}: {sum(calls.values()):,}", fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("Calls")
    return Result({load: f"{count:,} calls" for load, count in PAPER.items()}, ours, {
        load: sum(of["2012"]["calls"].values()) / PAPER[load] for load, of in found.items()},
                  verdict_of(checks),
                  "2012, today: profiler over ext4, with and without --classic; a request counts "
                  "as libfuse's high-level calls for it; lazyfs: requests of the kernel, from "
                  "lazyfsctl stats. Linux' source is not the thesis' and the compiler is a "
                  "stand-in that reads and writes as much; Hadoop's jobs are those of the smallest "
                  "size in docs/results/cluster.json, with blocks of 64 MiB, and the thesis does "
                  "not name the size of its own. The ratio is that of the calls", found, draw,
                  (13, 16), (5, 3))


# ---- S3 -----------------------------------------------------------------------------------------

def s3(_):
    results = cluster_results()
    rows = {(row["size_bytes"], row["kind"]): row for row in results["summary"]
            if row["rounds"] >= LEAST_ROUNDS}
    sizes = sorted(size for size, kind in rows if kind == "lazyfs" and (size, "ext4") in rows)
    if not sizes:
        raise lab.Failed(f"takes {LEAST_ROUNDS} rounds of `bench/cluster` on an idle machine at "
                         f"least, which take hours; {RESULTS.name} has fewer")
    ours, ratio, checks = {}, {}, []

    def overhead(size, kind, base):
        return rows[size, kind]["total"]["median"] / rows[size, base]["total"]["median"]
    for size in sizes:
        name = f"{size / GIB:g} GiB"
        for kind in ("ext4", "profiler", "lazyfs"):
            if (size, kind) not in rows:
                continue
            row = rows[size, kind]
            ours[f"{name}, {kind}"] = ", ".join(
                f"{job} {row[job]['median']:.0f} s" for job in (*JOBS, "total")) \
                + f" ({row['rounds']} rounds, {row['disturbed']} disturbed)"
        low, high = rows[size, "lazyfs"]["to_ext4"][1:]
        ratio[f"{name}, lazyfs / ext4"] = rows[size, "lazyfs"]["to_ext4"][0]
        ours[f"{name}, lazyfs / ext4"] = f"interval of 95 %: {low:.3f} to {high:.3f}"
        checks.append((f"{name}: lazyfs takes at most 2 % longer than ext4",
                       ratio[f"{name}, lazyfs / ext4"] <= 1.02))
        if (size, "profiler") in rows:
            ratio[f"{name}, lazyfs / pass-through"] = overhead(size, "lazyfs", "profiler")
            checks.append((f"{name}: and no longer than the pass-through",
                           ratio[f"{name}, lazyfs / pass-through"] <= 1))
    used = [worker for one in results["rounds"]
            if one["kind"] == "lazyfs" and one["size_bytes"] in sizes for worker in one["workers"]]
    ours["(live + dead) / live of a node"] = \
        f"median {statistics.median(worker['overhead'] for worker in used):.2f}, " \
        f"most {max(worker['overhead'] for worker in used):.2f}"
    ours["MB a second that died on a node"] = statistics.median(
        worker["dead_mb_a_second"] for worker in used)
    ours["MiB that the collectors moved"] = sum(worker["collector_mib_written"] for worker in used)

    def draw(axes):
        for axis, job in zip(axes, (*JOBS, "total")):
            for kind in ("profiler", "lazyfs"):
                some = [size for size in sizes if (size, kind) in rows]
                axis.plot([size / GIB for size in some], [
                    100 * (rows[size, kind][job]["median"] / rows[size, "ext4"][job]["median"] - 1)
                    for size in some], marker="o", label=kind)
            axis.axhline(0, color="grey", linewidth=0.8)
            axis.set(title=job, xlabel="Size (GiB)", ylabel="Longer than on ext4 (%)")
        axes[0].legend()
    return Result({"TeraGen over FUSE, 8 to 16 GB": "+6 % to +2 %",
                   "TeraSort over FUSE, 16 GB": "+4.34 %",
                   "(live + dead) / live of a node": 1.56,
                   "MB a second that died on a node": 2.45}, ours, ratio, verdict_of(checks),
                  f"`{results['command']}`, {results['date']}, {results['machine']}: a master and "
                  "five workers on one machine, each worker with its own filesystem on a loop "
                  "device", None, draw, (14, 3.8), (1, 4))
