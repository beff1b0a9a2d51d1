"""The loads of bench/compare, in groups. Each group runs on a fresh filesystem.

A group is a function of the plan and the system. It measures its loads with system.measured().
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import tarfile

from .systems import Failed, run, touch_free_memory

SOURCE = pathlib.Path("/usr/src/linux-source-6.1.tar.xz")
GIB, MIB = 1 << 30, 1 << 20
STREAMS = 32


def bench_load(plan, measurement, *arguments):
    measurement.seconds = float(run(plan.bin / "bench_load", *arguments))


def count_of(plan, full):
    """A number of files at full size, by the plan's scale."""
    return max(16, int(full * plan.scale))


def size_of(plan, full):
    """A number of bytes at full size, by the plan's scale, in whole MiB."""
    return max(1, int(full * plan.scale) // MIB) * MIB


def read_all(folder):
    """Reads all files of a tree through a pipe: tar knows /dev/null and would read nothing."""
    with subprocess.Popen(["tar", "-C", folder, "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        while tar.stdout.read(MIB):
            pass
    if tar.returncode != 0:
        raise Failed(f"tar of {folder} failed")


def sync(system):
    run("sync", "-f", system.mnt)


# ---- names and small files -----------------------------------------------------------------------

def mkdirs(plan, system):
    with system.measured("mkdirs") as m:
        bench_load(plan, m, "mkdirs", system.mnt, "--threads", 8, "--count",
                   count_of(plan, 100_000))


def files(plan, system):
    folder = system.mnt / "small"
    folder.mkdir()
    with system.measured("files") as m:
        bench_load(plan, m, "files", folder, "--threads", 8, "--count", count_of(plan, 60_000),
                   "--bytes", 4096)
    system.remount()
    with system.measured("list"):
        run("ls", "-lR", folder)
    if system.keeps_contents:
        system.remount()
        with system.measured("read-files"):
            read_all(folder)
    with system.measured("remove"):
        run("rm", "-rf", folder)
        sync(system)


def directory(plan, system):
    """One directory of 1,000,000 files."""
    folder = system.mnt / "large"
    folder.mkdir()
    with system.measured("dir-make") as m:
        bench_load(plan, m, "files", folder, "--threads", 1, "--count",
                   count_of(plan, 1_000_000), "--bytes", 0)
    system.remount()
    with system.measured("dir-list"):
        run("ls", "-f", folder / "t0")
    with system.measured("dir-remove"):
        run("rm", "-rf", folder)
        sync(system)


# ---- source trees --------------------------------------------------------------------------------

def tree(plan, system):
    archive = linux_archive(plan)
    warm(archive)
    with system.measured("untar"):
        run("tar", "-xf", archive, "-C", system.mnt)
        sync(system)
    system.remount()
    with system.measured("find"):
        run("find", system.mnt, "-name", "no-such-name")
    if system.keeps_contents:
        system.remount()
        with system.measured("tar"):
            read_all(system.mnt)
    with system.measured("rm"):
        run("rm", "-rf", *[entry for entry in system.mnt.iterdir() if entry.name != "lost+found"])
        sync(system)


def git(plan, system):
    repository, copy = git_repository(plan), system.mnt / "linux"
    run("git", "clone", "-q", "--shared", "--no-checkout", repository, copy)
    warm_packs(repository)
    with system.measured("checkout"):
        run("git", "-C", copy, "checkout", "-q", "HEAD")
        sync(system)
    git_status(system, copy)  # rereads files that are as new as the index, once
    system.remount()
    warm_packs(repository)
    with system.measured("status"):
        git_status(system, copy)


def git_status(system, copy):
    if run("git", "-C", copy, "status", "--porcelain"):
        raise Failed(f"git status sees changes on {system.label}")


def build(plan, system):
    """Builds Linux' tinyconfig. The load has one size: --scale does not change it."""
    source = system.mnt / "linux"
    source.mkdir()
    run("tar", "-xJf", SOURCE, "-C", source, "--strip-components=1")
    run("make", "-C", source, "tinyconfig")
    system.remount()
    with system.measured("build"):
        run("make", "-C", source, "-j", os.cpu_count(), "vmlinux")


def postmark(plan, system):
    settings = "\n".join([
        f"set location {system.mnt}", "set size 512 65536", "set seed 42",
        f"set number {count_of(plan, 20_000)}", f"set transactions {count_of(plan, 100_000)}",
        "set subdirectories 100", "set read 4096", "set write 4096", "set buffering false", "run",
        "quit", ""])
    with system.measured("postmark"):
        run("postmark", input=settings)


# ---- large files ---------------------------------------------------------------------------------

def remount(system):
    """Empties the caches, and touches free memory, before a load that reads large files."""
    system.remount()
    touch_free_memory()


def stream(plan, system):
    path = system.mnt / "stream"
    touch_free_memory()
    with system.measured("write") as m:
        bench_load(plan, m, "write", path, "--bytes", size_of(plan, 4 * GIB))
    remount(system)
    with system.measured("read") as m:
        bench_load(plan, m, "read", path)


def fio(measurement, *options):
    """Runs fio's buffered reads. The time is that of the longest of its threads."""
    report = json.loads(run("fio", "--name=read", "--output-format=json", "--group_reporting",
                            "--thread", "--invalidate=0", "--randseed=1", *options))
    job = report["jobs"][0]
    if job["error"]:
        raise Failed(f"fio: error {job['error']}")
    measurement.seconds = job["read"]["runtime"] / 1000


def reads(plan, system):
    """Cold reads: many streams at once, blocks at random, through a mapping, and in order of a file
    that was written at random."""
    per_stream = size_of(plan, 2 * GIB) // STREAMS
    for number in range(STREAMS):
        run(plan.bin / "bench_load", "write", system.mnt / f"stream.{number}", "--bytes",
            per_stream)
    one = system.mnt / "one"
    size = size_of(plan, 2 * GIB)
    run(plan.bin / "bench_load", "write", one, "--bytes", size)
    remount(system)
    with system.measured("streams") as m:
        fio(m, "--rw=read", "--bs=128k", f"--numjobs={STREAMS}", f"--directory={system.mnt}",
            "--filename_format=stream.$jobnum", f"--size={per_stream}")
    blocks = count_of(plan, 30_000)
    for threads in 1, 16:
        remount(system)
        with system.measured(f"random{threads}") as m:
            fio(m, "--rw=randread", "--bs=4k", f"--numjobs={threads}", f"--filename={one}",
                f"--size={size}", f"--io_size={blocks * 4096 // threads}")
    remount(system)
    with system.measured("mmap") as m:
        fio(m, "--rw=read", "--ioengine=mmap", "--bs=128k", f"--filename={one}", f"--size={size}")
    scattered = system.mnt / "scattered"
    run("fio", "--name=write", "--rw=randwrite", "--bs=4k", "--fsync=64", "--randseed=1",
        f"--filename={scattered}", f"--size={size_of(plan, GIB // 2)}")
    remount(system)
    with system.measured("scattered") as m:
        bench_load(plan, m, "read", scattered)


# ---- data that must be durable -------------------------------------------------------------------

def insert_rows(path, journal, count):
    """Inserts `count` rows into a SQLite database, one transaction each."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA journal_mode={journal}")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        for number in range(count):
            database.execute("INSERT INTO t VALUES (?, ?)", (number, f"row {number} " * 8))


def fsync(plan, system):
    count = count_of(plan, 2000)
    for threads in 1, 16:
        folder = system.mnt / f"synced{threads}"
        folder.mkdir()
        os.sync()
        with system.measured(f"synced{threads}") as m:
            bench_load(plan, m, "synced-files", folder, "--threads", threads, "--count", count,
                       "--bytes", 4096)
    for threads in 1, 16:
        path = system.mnt / f"over{threads}"
        size = size_of(plan, 256 * MIB // threads)
        for thread in range(threads):
            run(plan.bin / "bench_load", "write", f"{path}.{thread}", "--bytes", size)
        os.sync()
        with system.measured(f"over{threads}") as m:
            bench_load(plan, m, "overwrites", path, "--threads", threads, "--count", count,
                       "--bytes", size)
    for journal in "wal", "delete":
        os.sync()
        with system.measured(f"sql-{journal}"):
            insert_rows(system.mnt / f"{journal}.db", journal, count)


# name -> (function, whether files must keep their contents)
GROUPS = {"mkdirs": (mkdirs, False), "files": (files, False), "directory": (directory, False),
          "tree": (tree, False), "git": (git, True), "build": (build, True),
          "postmark": (postmark, True), "stream": (stream, False), "reads": (reads, True),
          "fsync": (fsync, True)}
TITLES = {
    "mkdirs": "create directories, 8 threads", "files": "create 4 KiB files, 8 threads",
    "list": "ls -lR of them, cold", "read-files": "read them, cold", "remove": "remove them, sync",
    "dir-make": "files in one directory: create", "dir-list": "list it, cold",
    "dir-remove": "remove it, sync", "untar": "untar Linux, sync", "find": "find in it, cold",
    "tar": "tar of it, cold", "rm": "rm -rf of it, sync", "checkout": "git checkout, sync",
    "status": "git status, cold", "build": "build Linux (tinyconfig)", "postmark": "Postmark",
    "write": "sequential write, fsync", "read": "sequential read, cold",
    "streams": f"{STREAMS} streams of reads, cold", "random1": "random 4 KiB reads, 1 thread",
    "random16": "random 4 KiB reads, 16 threads", "mmap": "read through mmap, cold",
    "scattered": "read what was written at random, cold",
    "synced1": "4 KiB files, fsync, 1 thread", "synced16": "4 KiB files, fsync, 16 threads",
    "over1": "4 KiB over, fsync, 1 thread", "over16": "4 KiB over, fsync, 16 threads",
    "sql-wal": "SQLite inserts, WAL", "sql-delete": "SQLite inserts, rollback"}


# ---- what the loads need -------------------------------------------------------------------------

def warm(path):
    """Reads a file into the page cache, so that reading it from the disk is not measured."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def warm_packs(repository):
    for file in (repository / "objects/pack").iterdir():
        warm(file)


def linux_archive(plan):
    """Linux' source as a plain tar, made once; only its first part if --scale is below 1."""
    if plan.archive:
        return plan.archive
    archive = plan.work / f"linux-{plan.scale:g}.tar"
    if archive.exists():
        return archive
    if not SOURCE.exists():
        raise Failed(f"{SOURCE}: missing; apt-get install linux-source-6.1, or give --archive")
    part = archive.with_suffix(".part")
    if plan.scale >= 1:
        with open(part, "wb") as to:
            subprocess.run(["xz", "-dc", SOURCE], stdout=to, check=True)
    else:
        wanted = max(10, int(84_000 * plan.scale))
        with tarfile.open(SOURCE, "r|xz") as source, tarfile.open(part, "w|") as to:
            for number, member in enumerate(source):
                if number == wanted:
                    break
                if not member.islnk():
                    to.addfile(member, source.extractfile(member) if member.isfile() else None)
    part.rename(archive)
    return archive


def git_repository(plan):
    """A repository with one commit of Linux' source, in one pack as after a clone; made once."""
    repository = plan.work / f"linux-packed-{plan.scale:g}.git"
    if repository.exists():
        return repository
    part, tree_ = repository.with_suffix(".part"), plan.work / "linux.tree"
    run("rm", "-rf", part, tree_)
    tree_.mkdir()
    run("tar", "-xf", linux_archive(plan), "-C", tree_)
    run("git", "init", "-q", "--bare", part)
    at = ["git", f"--git-dir={part}", f"--work-tree={tree_}", "-c", "user.name=bench", "-c",
          "user.email=bench@localhost"]
    run(*at, "add", "--force", ".")
    run(*at, "commit", "-q", "-m", "bench: add the source")
    run("rm", "-rf", tree_)
    run("git", f"--git-dir={part}", "repack", "-a", "-d", "-q")
    part.rename(repository)
    return repository


def image_bytes(scale):
    """Of the device of each filesystem: every group has room on it."""
    return int(4 * GIB + 10 * GIB * scale) // MIB * MIB


def prepare(plan):
    """Makes what the plan's groups need, so that no measured time contains it."""
    if {"tree", "git"} & set(plan.groups):
        linux_archive(plan)
    if "git" in plan.groups:
        git_repository(plan)
