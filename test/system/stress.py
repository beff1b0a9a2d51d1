#!/usr/bin/env python3
"""Random operations of several processes, each result compared with a model.

    stress.py work FOLDER RECORD SEED OPERATIONS [PROCESSES]    RECORD.N: the expected contents
    stress.py fill ...        like work, for a full disk: does not write through mapped memory,
                              which cannot return an error
    stress.py verify FOLDER RECORD [PROCESSES]                  exit status 1 on a difference

Each process has its own folder below FOLDER. ENOSPC is allowed on a full disk, but a failed
operation must not have changed anything, and removing must always work. Runs as root.
"""
import ctypes
import errno
import hashlib
import json
import mmap
import multiprocessing
import os
import random
import shutil
import sys
import traceback

FILES_MAX = 40          # of a process
FILES_MAX_FULL = 200    # enough to fill a small disk
FILE_BYTES_MAX = 1 << 20
WRITE_BYTES_MAX = 1 << 16  # one request each, so that ENOSPC leaves nothing behind
PAGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16  # of fallocate(2)
AT_FDCWD, AT_SYMLINK_FOLLOW, EXCHANGE = -100, 0x400, 2


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Wrong(Exception):
    pass


def expect(found, wanted, what):
    if found != wanted:
        if isinstance(found, (bytes, bytearray)) and len(found) == len(wanted):
            first = next(i for i in range(len(found)) if found[i] != wanted[i])
            last = next(i for i in reversed(range(len(found))) if found[i] != wanted[i])
            found, wanted = (f"bytes {first} to {last} differ, first {found[first]}",
                             f"{wanted[first]} of {len(wanted)}")
        raise Wrong(f"{what}: {str(found)[:300]}, not {str(wanted)[:300]}")


class File:
    """The model of one file: the contents seen through each of its names and descriptors."""

    def __init__(self):
        self.data = bytearray()
        self.links = 1
        self.xattrs = {}


class Worker:
    def __init__(self, root, seed, maps):
        self.lots = random.Random(seed)
        self.maps = maps     # memory may be mapped
        self.files_max = FILES_MAX if maps else FILES_MAX_FULL
        self.root = root
        os.mkdir(root)
        self.files = {}      # path -> File; two paths of one File are hard links
        self.folders = [""]  # paths
        self.symlinks = {}   # path -> target
        self.orphans = []    # (descriptor, File) without a name
        self.number = 0
        self.full = 0        # operations that failed for lack of space

    # ---- names ----
    def full_path(self, path):
        return os.path.join(self.root, path)

    def new_path(self):
        self.number += 1
        name = f"{self.number}" + "x" * self.lots.choice([0, 0, 0, 3, 60, 240])
        return os.path.join(self.lots.choice(self.folders), name)

    def any_file(self):
        return self.lots.choice(sorted(self.files)) if self.files else None

    def create(self):
        path = self.new_path()
        if len(self.files) >= self.files_max:
            return self.unlink()
        os.close(os.open(self.full_path(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        self.files[path] = File()

    def unlink(self):
        if path := self.any_file():
            file = self.files[path]
            if file.links == 1 and self.lots.random() < 0.3 and len(self.orphans) < 5:
                self.orphans.append((os.open(self.full_path(path), os.O_RDWR), file))
            self.remove(path)
            del self.files[path]
            file.links -= 1

    def remove(self, path):
        try:
            os.unlink(self.full_path(path))
        except OSError as error:  # on a full disk, too, this works
            raise Wrong(f"unlink {path}: {error.strerror}") from None

    def link(self):
        if path := self.any_file():
            new = self.new_path()
            os.link(self.full_path(path), self.full_path(new))
            self.files[new] = self.files[path]
            self.files[path].links += 1

    def rename(self):
        path = self.any_file()
        if not path:
            return
        to = self.lots.choice([self.new_path(), self.any_file()])
        os.rename(self.full_path(path), self.full_path(to))
        if self.files.get(to) is self.files[path]:
            return  # of one file: nothing happens
        if to in self.files:
            self.files[to].links -= 1
        self.files[to] = self.files.pop(path)

    def exchange(self):
        one, other = self.any_file(), self.any_file()
        if one:
            paths = [self.full_path(path).encode() for path in (one, other)]
            checked(LIBC.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], EXCHANGE))
            self.files[one], self.files[other] = self.files[other], self.files[one]

    def create_unnamed(self):
        folder, file = self.lots.choice(self.folders), File()
        file.links = 0
        descriptor = os.open(self.full_path(folder), os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            self.write(descriptor, file, None)
            if len(self.files) < self.files_max:
                path = self.new_path()
                checked(LIBC.linkat(AT_FDCWD, f"/proc/self/fd/{descriptor}".encode(), AT_FDCWD,
                                    self.full_path(path).encode(), AT_SYMLINK_FOLLOW))
                file.links = 1
                self.files[path] = file
            self.read_all(descriptor, file, "a file made without a name")
        finally:
            os.close(descriptor)

    def rename_folder(self):
        if len(self.folders) < 2:
            return
        path, into = self.lots.choice(self.folders[1:]), self.lots.choice(self.folders)
        if (into + "/").startswith(path + "/"):
            return
        self.number += 1
        to = os.path.join(into, f"moved-{self.number}")
        os.rename(self.full_path(path), self.full_path(to))

        def moved(old):
            return to + old[len(path):] if (old + "/").startswith(path + "/") else old
        self.files = {moved(name): file for name, file in self.files.items()}
        self.symlinks = {moved(name): target for name, target in self.symlinks.items()}
        self.folders = [moved(name) for name in self.folders]

    def mkdir(self):
        if len(self.folders) < 12:
            path = self.new_path()
            os.mkdir(self.full_path(path))
            self.folders.append(path)

    def rmdir(self):
        path = self.lots.choice(self.folders)
        if not path:
            return
        inside = [p for p in [*self.files, *self.symlinks, *self.folders]
                  if p.startswith(path + "/")]
        try:
            os.rmdir(self.full_path(path))
        except OSError as error:
            expect(errno.errorcode[error.errno], "ENOTEMPTY", f"rmdir {path}")
            expect(bool(inside), True, f"rmdir {path} finds something in it")
            return
        expect(inside, [], f"what was in the removed {path}")
        self.folders.remove(path)

    def symlink(self):
        if len(self.symlinks) > 20:
            path = self.lots.choice(sorted(self.symlinks))
            self.remove(path)
            del self.symlinks[path]
        else:
            path = self.new_path()
            target = "t" * self.lots.choice([1, 50, 1500, 4000])
            os.symlink(target, self.full_path(path))
            self.symlinks[path] = target

    def list_folder(self):
        path = self.lots.choice(self.folders)
        wanted = [p for p in [*self.files, *self.symlinks, *self.folders[1:]]
                  if os.path.dirname(p) == path]
        expect(sorted(os.listdir(self.full_path(path))),
               sorted(os.path.basename(p) for p in wanted), f"list of '{path}'")
        links = 2 + sum(p in self.folders for p in wanted)
        expect(os.stat(self.full_path(path)).st_nlink, links, f"links of '{path}'")

    # ---- contents ----
    def opened(self, flags):
        """Returns (descriptor, File, name for messages, whether to close the descriptor)."""
        if self.orphans and self.lots.random() < 0.1:
            descriptor, file = self.lots.choice(self.orphans)
            return descriptor, file, "an unlinked file", False
        path = self.any_file()
        if not path:
            return None
        return os.open(self.full_path(path), flags), self.files[path], path, True

    def draw_range(self, file):
        offset = self.lots.choice([self.lots.randint(0, len(file.data)), len(file.data),
                                   self.lots.randint(0, FILE_BYTES_MAX - WRITE_BYTES_MAX)])
        length = self.lots.choice([self.lots.randint(1, 300), PAGE,
                                   self.lots.randint(1, WRITE_BYTES_MAX)])
        if self.lots.random() < 0.3:
            offset -= offset % PAGE
        return min(offset, FILE_BYTES_MAX - length), length

    def put(self, file, offset, data):
        if len(file.data) < offset + len(data):
            file.data.extend(bytes(offset + len(data) - len(file.data)))
        file.data[offset:offset + len(data)] = data

    def write(self, descriptor, file, _):
        offset, length = self.draw_range(file)
        data = self.lots.randbytes(length)
        written = os.pwrite(descriptor, data, offset)
        self.put(file, offset, data[:written])

    def write_direct(self, descriptor, file, _):
        offset, length = (n - n % PAGE for n in self.draw_range(file))
        if not length:
            return
        with mmap.mmap(-1, length) as memory:
            memory[:] = self.lots.randbytes(length)
            fd = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_DIRECT)
            try:
                written = os.pwrite(fd, memory, offset)
                self.put(file, offset, memory[:written])
            finally:
                os.close(fd)

    def write_mapped(self, descriptor, file, what):
        if not file.data or not self.maps:
            return
        with mmap.mmap(descriptor, len(file.data)) as memory:
            offset = self.lots.randrange(len(file.data))
            end = min(len(file.data), offset + self.lots.randint(1, WRITE_BYTES_MAX))
            expect(memory[offset:end], file.data[offset:end], f"mapped {what} at {offset}")
            data = self.lots.randbytes(end - offset)
            memory[offset:end] = data
            self.put(file, offset, data)

    def append(self, descriptor, file, _):
        length = min(self.lots.randint(1, 20000), FILE_BYTES_MAX - len(file.data))
        data = self.lots.randbytes(length)
        if length:
            written = os.pwrite(descriptor, data, len(file.data))
            self.put(file, len(file.data), data[:written])

    def truncate(self, descriptor, file, _):
        size = self.lots.choice([0, self.lots.randint(0, len(file.data)),
                                 self.lots.randint(0, FILE_BYTES_MAX)])
        os.ftruncate(descriptor, size)
        file.data = file.data[:size].ljust(size, b"\0")

    def clear(self, descriptor, file, _):
        """Punches or zeroes a range."""
        if not self.maps and self.lots.random() < 0.8:  # else the disk would not become full
            return self.append(descriptor, file, None)
        offset, length = self.draw_range(file)
        if not self.maps:  # on a full disk the ends of a range may fail, and its middle not
            offset, length = offset - offset % PAGE, length - length % PAGE
        mode = self.lots.choice([PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE])
        if not length:
            return
        checked(LIBC.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))
        if mode & KEEP_SIZE:
            length = min(length, len(file.data) - offset)
        if length > 0:
            self.put(file, offset, bytes(length))

    def find_data(self, descriptor, file, what):
        """Holes read as zeros, and SEEK_DATA and SEEK_HOLE find them."""
        os.fsync(descriptor)  # the kernel's write-back cache keeps what is new to itself
        at = 0
        while at < len(file.data):
            try:
                begin = os.lseek(descriptor, at, os.SEEK_DATA)
            except OSError as error:
                expect(errno.errorcode[error.errno], "ENXIO", f"{what}, data after {at}")
                begin = len(file.data)
            expect(any(file.data[at:begin]), False, f"{what}: data in {at}-{begin}")
            at = begin
            if at < len(file.data):
                at = os.lseek(descriptor, begin, os.SEEK_HOLE)
                expect(at > begin, True, f"{what}: no data at {begin}")

    def copy_range(self, descriptor, file, _):
        """Copies from any file, often with offsets that allow sharing blocks."""
        path = self.any_file()
        if not path:
            return
        source = self.files[path]
        offset, length = self.draw_range(file)
        start = self.lots.randint(0, len(source.data))
        if self.lots.random() < 0.6:
            start, offset = start - start % PAGE, offset - offset % PAGE
        if self.lots.random() < 0.3 and source is not file:
            start, offset, length = 0, 0, len(source.data)
        if source is file:
            length = min(length, abs(start - offset))
        length = min(length, len(source.data) - start, FILE_BYTES_MAX - offset)
        if length <= 0:
            return
        data = source.data[start:start + length]
        from_descriptor = os.open(self.full_path(path), os.O_RDONLY)
        try:
            done = os.copy_file_range(from_descriptor, descriptor, length, start, offset)
            self.put(file, offset, data[:done])
        finally:
            os.close(from_descriptor)

    def read(self, descriptor, file, what):
        offset, length = self.draw_range(file)
        expect(os.pread(descriptor, length, offset), file.data[offset:offset + length],
               f"{what} at {offset}")

    def read_all(self, descriptor, file, what):
        expect(os.pread(descriptor, FILE_BYTES_MAX + 1, 0), file.data, what)
        found = os.fstat(descriptor)
        expect((found.st_size, found.st_nlink), (len(file.data), file.links), f"{what}, stat")

    def read_uncached(self, descriptor, file, what):
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        self.read_all(descriptor, file, what)

    def fsync(self, descriptor, *_):
        os.fsync(descriptor)

    def xattr(self, descriptor, file, what):
        name = "user." + self.lots.choice("abc")
        if name in file.xattrs and self.lots.random() < 0.5:
            os.removexattr(descriptor, name)
            del file.xattrs[name]
        else:
            value = self.lots.randbytes(self.lots.choice([0, 10, 900, 5000]))
            os.setxattr(descriptor, name, value)
            file.xattrs[name] = value
        found = {n: os.getxattr(descriptor, n) for n in os.listxattr(descriptor)}
        expect(found, file.xattrs, f"{what}, attributes")

    def close_orphan(self):
        if self.orphans:
            descriptor, file = self.orphans.pop(self.lots.randrange(len(self.orphans)))
            self.read_all(descriptor, file, "an unlinked file at its end")
            os.close(descriptor)

    # ---- the whole ----
    NAME_WORK = {create: 10, unlink: 4, link: 3, rename: 6, rename_folder: 2, mkdir: 3, rmdir: 3,
                 symlink: 2, list_folder: 4, close_orphan: 2, exchange: 2, create_unnamed: 2}
    FILE_WORK = {write: 20, append: 12, truncate: 6, read: 10, read_all: 3, read_uncached: 2,
                 fsync: 3, xattr: 3, write_mapped: 3, write_direct: 2, clear: 5,
                 find_data: 2, copy_range: 6}

    def step(self):
        work = self.NAME_WORK | self.FILE_WORK
        act = self.lots.choices(list(work), list(work.values()))[0]
        if act in self.NAME_WORK:
            return act(self)
        if found := self.opened(os.O_RDWR):
            descriptor, file, what, is_new = found
            try:
                act(self, descriptor, file, what)
            finally:
                if is_new:
                    os.close(descriptor)

    def work(self, operations):
        for _ in range(operations):
            try:
                self.step()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                self.full += 1
        while self.orphans:
            self.close_orphan()

    def record(self):
        def digest(file):
            attributes = {n: v.hex() for n, v in sorted(file.xattrs.items())}
            return [hashlib.sha256(file.data).hexdigest(), len(file.data), file.links, attributes]
        return {"files": {path: digest(file) for path, file in self.files.items()},
                "folders": self.folders[1:], "symlinks": self.symlinks}


def found_in(root):
    """Returns what Worker.record() would return for the folder."""
    found = {"files": {}, "folders": [], "symlinks": {}}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            if os.path.islink(full):
                found["symlinks"][path] = os.readlink(full)
            elif os.path.isdir(full):
                found["folders"].append(path)
            else:
                with open(full, "rb") as file:
                    data = file.read()
                attributes = {n: os.getxattr(full, n).hex() for n in sorted(os.listxattr(full))}
                found["files"][path] = [hashlib.sha256(data).hexdigest(), len(data),
                                        os.stat(full).st_nlink, attributes]
    return found


def run_worker(root, record, seed, operations, maps):
    try:
        shutil.rmtree(root, ignore_errors=True)
        worker = Worker(root, seed, maps)
        worker.work(operations)
        wanted = worker.record()
        wrong = differences(wanted, found_in(root))
        if wrong:
            raise Wrong("; ".join(wrong[:5]))
        with open(record, "w") as file:
            json.dump(wanted, file)
        print(f"{root}: {operations} operations, {worker.full} of them found the disk full,"
              f" {len(worker.files)} files", flush=True)
    except BaseException as error:
        if not isinstance(error, Wrong):
            print(traceback.format_exc()[-2000:])
        print(f"{root}: {str(error)[:500]}", flush=True)
        os._exit(1)


def differences(wanted, found):
    wrong = []
    if sorted(wanted["folders"]) != sorted(found["folders"]):
        wrong.append("the folders are others")
    for kind in ("files", "symlinks"):
        for path in sorted(wanted[kind].keys() | found[kind].keys()):
            one, other = wanted[kind].get(path), found[kind].get(path)
            if one != other:
                wrong.append(f"{path}: {str(other)[:200]}, not {str(one)[:200]}")
    return wrong


def work(root, record, seed, operations, processes, maps):
    workers = [multiprocessing.Process(
        target=run_worker,
        args=(os.path.join(root, f"worker-{n}"), f"{record}.{n}", seed * 1000 + n, operations,
              maps))
        for n in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return any(worker.exitcode for worker in workers)


def verify(root, record, processes):
    wrong = []
    for n in range(processes):
        with open(f"{record}.{n}") as file:
            folder = f"worker-{n}"
            found = found_in(os.path.join(root, folder))
            wrong += [f"{folder}/{what}" for what in differences(json.load(file), found)]
    print("\n".join(wrong[:20]) or "no differences")
    return bool(wrong)


def main(arguments):
    match arguments:
        case ["work" | "fill" as verb, root, record, seed, operations, *rest]:
            return work(root, record, int(seed), int(operations), int(rest[0]) if rest else 4,
                        maps=verb == "work")
        case ["verify", root, record, *rest]:
            return verify(root, record, int(rest[0]) if rest else 4)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
