"""What measurements need to know about the machine: who else uses it, and how sure a median is."""
import contextlib
import datetime
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

# A measurement counts as disturbed if other processes used more than this share of one CPU, or if
# the machine's host took more than this share.
DISTURBED_CPUS = 0.1
STARTED_IN_NAMESPACE = "LAZYFS_BENCH_NAMESPACE"


def describe():
    model = next((line.split(":", 1)[1].strip() for line in
                  pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "")
    return f"{os.cpu_count()} CPUs {model}, Linux {os.uname().release}"


def save(path, command, **found):
    """Writes what was found, and where and when, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"command": command, "machine": describe(),
                                "date": datetime.date.today().isoformat(), **found},
                               indent=1) + "\n")


def set_aside(path):
    """Keeps what an earlier campaign has written: results.csv becomes results.previous.csv."""
    if path.exists():
        path.rename(path.with_stem(path.stem + ".previous"))


def check(program, commands, max_load, patience=0):
    """Ends the program with a message when it cannot measure here. Waits `patience` seconds for the
    load to fall."""
    if STARTED_IN_NAMESPACE in os.environ:
        return
    if os.geteuid() != 0:
        sys.exit(f"{program}: must be root: it mounts filesystems")
    for command in commands:
        if not shutil.which(command):
            sys.exit(f"{program}: {command} is missing: run ./packages.sh hadoop bench")
    end = time.monotonic() + patience
    while (load := os.getloadavg()[0]) > max_load:
        if time.monotonic() > end:
            sys.exit(f"{program}: the load is {load:.2f}, more than {max_load}: times would say "
                     "little. Wait, or set --max-load.")
        print(f"the load is {load:.2f}; waiting until it is {max_load}", flush=True)
        time.sleep(min(20, patience))


def enter_namespace(*kinds):
    """Runs the program again as the first process of new namespaces. Everything that it starts
    ends with it, and its mounts go."""
    if STARTED_IN_NAMESPACE in os.environ:
        return
    os.environ[STARTED_IN_NAMESPACE] = "yes"
    os.execvp("unshare", ["unshare", *(f"--{kind}" for kind in kinds), "--mount", "--pid", "--fork",
                          "--mount-proc", "--kill-child=SIGTERM", sys.executable, *sys.argv])


def reap_orphans():
    """Collects processes whose parents have ended, so that their CPU time counts as ours.
    REQUIRES: enter_namespace() was called; no Popen waits for a process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


class Disturbance:
    """CPU time of others since it was made: user time of all processes without ours, and time that
    the machine's host gave to other machines. Kernel threads have no user time."""

    def __init__(self):
        self.begin, self.before = time.monotonic(), self.read()

    @staticmethod
    def read():
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        tick = os.sysconf("SC_CLK_TCK")
        ours = sum(resource.getrusage(who).ru_utime
                   for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return (int(fields[0]) + int(fields[1])) / tick - ours, int(fields[7]) / tick

    def cpus(self):
        """(of other processes, of the host): how many CPUs were used. REQUIRES: all of our
        processes have ended and were waited for."""
        took = time.monotonic() - self.begin
        return tuple(round((now - before) / took, 3)
                     for now, before in zip(self.read(), self.before))


def spinning_processes():
    """Starts a process for each CPU that only computes. The caller ends them."""
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(os.cpu_count())]


def bootstrap(ratios, draws=10_000):
    """The median, and the interval of 95 % of the medians of samples drawn with repetition."""
    chance = random.Random(1)  # the same results give the same interval
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios)))
                     for _ in range(draws))
    return (statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)])
