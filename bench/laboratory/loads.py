"""Loads on the files of a mounted filesystem. Each is the same in every run."""
import concurrent.futures
import multiprocessing
import os
import random
import shutil
import subprocess

from . import plan as lab

PROCESSES = 8
SYNCS = 20  # of a phase; they stand for the kernel's timers
NOISE = random.Random(0).randbytes(2 << 20)


def sync(path):
    lab.run("sync", "-f", path)


def in_processes(body, mnt, count):
    """Calls body(mnt, process, its share of count) in eight processes."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        share = count // PROCESSES
        for done in [pool.submit(body, mnt, i, share) for i in range(PROCESSES)]:
            done.result()


def tree_path(number, width):
    """Directory `number` of a tree in which each directory has `width` children."""
    names = []
    while number > 0:
        names.append(str(number))
        number = (number - 1) // width
    return "/".join(reversed(names))


def steps(count, process, mnt):
    """Counts; the first process syncs the filesystem SYNCS times on the way."""
    every = max(1, count // SYNCS)
    for i in range(count):
        if process == 0 and i % every == every - 1:
            sync(mnt)
        yield i


def make_directories_in(mnt, process, count):
    top = f"{mnt}/t{process}"
    for i in steps(count, process, mnt):
        os.mkdir(f"{top}/{tree_path(i, 10)}" if i else top)


def make_directories(mnt, count):
    """Directories in a tree in which each has ten (ext4-lazy: MakeDirs)."""
    in_processes(make_directories_in, mnt, count)


def create_files_in(mnt, process, count):
    top = f"{mnt}/f{process}"
    for i in steps(count, process, mnt):
        folder = f"{top}/{tree_path(i // 2, 2)}"
        if i % 2 == 0:
            os.mkdir(folder)
        with open(f"{folder}/file{i % 2}", "wb", buffering=0) as file:
            file.write(NOISE[:4096])


def create_files(mnt, count):
    """Files of 4 KiB in a deep tree: two of them, and two directories, in each (CreateFiles)."""
    in_processes(create_files_in, mnt, count)


def quietly(*command):
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.stdout.read(1 << 20):
            pass
    if process.returncode != 0:
        raise lab.Failed(f"{command[0]} failed")


def list_tree(mnt):
    quietly("ls", "-lR", str(mnt))


def find_files(mnt):
    quietly("find", str(mnt), "-size", "+100")


def tar_tree(mnt):
    quietly("tar", "-cf", "-", "-C", str(mnt), ".")


def remove_tree(mnt):
    """rm -rf of each top directory, with syncs between them and parts of them."""
    for top in sorted(os.listdir(mnt)):
        for entry in sorted(os.listdir(mnt / top)):
            if (mnt / top / entry).is_dir():
                quietly("rm", "-rf", str(mnt / top / entry))
        sync(mnt)
        quietly("rm", "-rf", str(mnt / top))


class Postmark:
    """Postmark (Katcher 1997) as ext4-lazy changed it: a sync after the files were made, and none
    is deleted at the end."""

    def __init__(self, files, directories, transactions, least, most, io_bytes, seed=1):
        self.files, self.directories, self.transactions = files, directories, transactions
        self.least, self.most, self.io_bytes = least, most, io_bytes
        self.random = random.Random(seed)
        self.live, self.made = [], 0

    def __call__(self, mnt):
        for i in range(self.directories):
            os.mkdir(mnt / f"s{i}")
        for _ in range(self.files):
            self.create(mnt)
        sync(mnt)
        every = max(1, self.transactions // SYNCS)
        for i in range(self.transactions):
            self.random.choice((self.read, self.append))(mnt)
            self.random.choice((self.create, self.delete))(mnt)
            if i % every == every - 1:
                sync(mnt)

    def create(self, mnt):
        path = f"s{self.random.randrange(self.directories)}/{self.made}"
        self.made += 1
        self.write(mnt / path, self.random.randint(self.least, self.most), "wb")
        self.live.append(path)

    def write(self, path, length, mode):
        with open(path, mode, buffering=0) as file:
            for at in range(0, length, self.io_bytes):
                file.write(NOISE[:min(self.io_bytes, length - at)])

    def some(self):
        return self.random.randrange(len(self.live))

    def read(self, mnt):
        with open(mnt / self.live[self.some()], "rb", buffering=0) as file:
            while file.read(self.io_bytes):
                pass

    def append(self, mnt):
        path = mnt / self.live[self.some()]
        room = self.most - path.stat().st_size
        if room > 0:
            self.write(path, self.random.randint(1, room), "ab")

    def delete(self, mnt):
        if len(self.live) < 2:
            return
        at = self.some()
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        os.unlink(mnt / self.live.pop())


def postmark(plan, divisor):
    """ext4-lazy's file server: 10,000 files of 512 bytes to 1 MiB, divided by `divisor`."""
    return Postmark(10_000 // divisor, 25_000 // divisor, 100_000 // divisor, 512, 1 << 20, 1 << 20)


def small_postmark(plan):
    """HotOS 2005's: files of 512 bytes to 16 KiB, requests of 512 bytes."""
    return Postmark(plan.pick(2000, 10_000), 20_000, 2000, 512, 16 << 10, 512)


def unpack(archive, mnt):
    quietly("tar", "-xf", str(archive), "-C", str(mnt))


def compile_tree(mnt):
    """What a compiler and a linker read and write: each source with a few headers, and an object
    file twice as long; then all object files of a directory, and one file of them."""
    lots = random.Random(1)
    headers = sorted(mnt.glob("**/*.h"))
    for folder, _, names in sorted(os.walk(mnt)):
        objects = []
        for name in sorted(name for name in names if name.endswith(".c")):
            path = f"{folder}/{name}"
            for header in lots.sample(headers, min(20, len(headers))):
                header.read_bytes()
            with open(path, "rb") as source:
                length = 2 * len(source.read())
            objects.append(path[:-2] + ".o")
            with open(objects[-1], "wb") as file:
                file.write((NOISE * (length // len(NOISE) + 1))[:length])
        if objects:
            with open(f"{folder}/built-in.a", "wb") as archive:
                for path in objects:
                    with open(path, "rb") as file:
                        shutil.copyfileobj(file, archive)
            sync(mnt)


def linux_archive(plan, parts):
    """A plain tar of parts of Linux' sources, made once."""
    archive = plan.work / f"linux-{'-'.join(parts).replace('/', '.')}.tar"
    if not archive.exists():
        source = "/usr/src/linux-source-6.1.tar.xz"
        folder = plan.work / "linux"
        folder.mkdir(exist_ok=True)
        lab.run("tar", "-xf", source, "-C", folder, *[f"linux-source-6.1/{part}" for part in parts])
        lab.run("tar", "-cf", archive, "-C", folder, ".")
        shutil.rmtree(folder)
    return archive
