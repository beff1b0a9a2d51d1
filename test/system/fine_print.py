#!/usr/bin/env python3
"""Checks rarely used features on a mount:  fine_print.py FOLDER [OPTION [TEST]]

OPTION is the mount's option: relatime (the default), noatime or strictatime. Each test has its own
folder below FOLDER. Runs as root.
"""
import ctypes
import errno
import fcntl
import multiprocessing
import os
import signal
import stat
import struct
import sys
import time
import unittest

import semantics
from semantics import MountTest, get, put

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.opendir.restype = LIBC.readdir.restype = ctypes.c_void_p
LIBC.telldir.restype = ctypes.c_long
LIBC.readdir.argtypes = LIBC.telldir.argtypes = LIBC.rewinddir.argtypes = [ctypes.c_void_p]
LIBC.closedir.argtypes = [ctypes.c_void_p]
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_int64]
LIBC.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
F_OFD_SETLK = 37
DAY = 86400 * 10**9
ATIME = "relatime"
SPAWN = multiprocessing.get_context("fork")


def as_another(user, body):
    """Runs body() as that user. Returns true if body() returned."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            body()
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(error, file=sys.stderr)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def drop_caches():
    """Of names and inodes."""
    folder = os.open(".", os.O_RDONLY)
    LIBC.syncfs(folder)
    os.close(folder)
    put("/proc/sys/vm/drop_caches", b"2")


class Times(MountTest):
    def access_after_reading(self, access, modification):
        put("f", b"x" * 10000)
        with open("f", "rb") as file:
            os.fsync(file.fileno())
            os.utime("f", ns=(access, modification))
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            file.read()
        return os.stat("f").st_atime_ns

    def test_a_read_moves_the_access_time_as_the_mount_says(self):
        now = time.time_ns()
        # (access time, modification time) before the read; whether relatime sets the access time.
        # A change of owner, mode or times sets ctime, so an old access time is always before ctime.
        for access, modification in [(now - 10**12, now - 10**11), (now - 2 * DAY, now - 3 * DAY),
                                     (10**18, 10**18)]:
            found = self.access_after_reading(access, modification)
            if ATIME == "noatime":
                self.assertEqual(found, access)
            else:
                self.assertGreaterEqual(found, now - 10**9)

    def test_a_recent_access_time_moves_only_with_strictatime(self):
        later = time.time_ns() + 3600 * 10**9
        found = self.access_after_reading(later, later - 10**9)
        if ATIME == "strictatime":
            self.assertNotEqual(found, later)
        else:
            self.assertEqual(found, later)

    def test_reading_a_folder_or_a_link_moves_its_access_time_as_the_mount_says(self):
        os.mkdir("d")
        put("d/f")
        os.symlink("f", "l")
        now = time.time_ns()
        for path, read in ("d", os.listdir), ("l", os.readlink):
            os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
            drop_caches()
            read(path)
            found = os.lstat(path).st_atime_ns
            if ATIME == "noatime":
                self.assertEqual(found, 10**18)
            else:
                self.assertGreaterEqual(found, now - 10**9)

    def test_a_file_opened_with_noatime_keeps_its_access_time(self):
        put("f", b"x" * 300000)
        os.mkdir("d")
        put("d/f")
        for path, read in (("f", lambda file: os.read(file, 300000)), ("d", os.listdir)):
            os.utime(path, ns=(10**18, 10**18))
            drop_caches()
            file = os.open(path, os.O_RDONLY | os.O_NOATIME)
            self.addCleanup(os.close, file)
            read(file)
            self.assertEqual(os.stat(path).st_atime_ns, 10**18)

    def test_what_the_kernel_has_in_its_cache_is_read_without_being_noted(self):
        put("f", b"x")
        get("f")
        os.utime("f", ns=(1, 1))
        get("f")
        self.assertEqual(os.stat("f").st_atime_ns, 1)

    def test_times_outlive_the_caches(self):
        put("f")
        times = (2**33 * 10**9 + 123456789, 2**34 * 10**9 - 1)
        os.utime("f", ns=times)
        drop_caches()
        found = os.stat("f")
        self.assertEqual((found.st_atime_ns, found.st_mtime_ns), times)

    def test_times_set_to_now_are_now(self):
        put("f")
        os.utime("f", ns=(1, 1))
        before = time.time_ns()
        os.utime("f")
        self.assertGreaterEqual(os.stat("f").st_mtime_ns, before - 10**8)
        self.assertGreaterEqual(os.stat("f").st_ctime_ns, before - 10**8)


class Attributes(MountTest):
    def test_attributes_of_64_KiB_in_every_namespace(self):
        put("f")
        values = {f"{space}.{size}": bytes([size % 251]) * size
                  for space in ("user", "trusted", "security")
                  for size in (0, 1, 1023, 1024, 1025, 4096, 65535, 65536)}
        for name, value in values.items():
            os.setxattr("f", name, value)
        drop_caches()
        self.assertEqual(sorted(os.listxattr("f")), sorted(values))
        for name, value in values.items():
            self.assertEqual(os.getxattr("f", name), value, name)
        self.fails_with(errno.E2BIG, os.setxattr, "f", "user.v", bytes(65537))
        os.setxattr("f", "user.65536", b"short")
        self.assertEqual(os.getxattr("f", "user.65536"), b"short")
        for name in values:
            os.removexattr("f", name)
        self.assertEqual(os.listxattr("f"), [])

    def test_attributes_of_other_kinds_of_files(self):
        os.symlink("nowhere", "link")
        os.setxattr("link", "trusted.t", b"t", follow_symlinks=False)
        self.assertEqual(os.getxattr("link", "trusted.t", follow_symlinks=False), b"t")
        self.fails_with(errno.EPERM, os.setxattr, "link", "user.u", b"", follow_symlinks=False)
        os.mkfifo("pipe")
        os.setxattr("pipe", "security.s", b"s")
        self.assertEqual(os.getxattr("pipe", "security.s"), b"s")
        self.fails_with(errno.EPERM, os.setxattr, "pipe", "user.u", b"")

    def test_set_id_bits_are_cleared_when_required(self):
        def mode():
            return stat.S_IMODE(os.stat("f").st_mode)

        def write():
            with open("f", "ab", buffering=0) as file:
                file.write(b"x")

        def truncate():
            os.truncate("f", 1)

        def punch():
            with open("f", "r+b") as file:
                if LIBC.fallocate(file.fileno(), 3, ctypes.c_int64(0), ctypes.c_int64(1)):
                    raise OSError(ctypes.get_errno(), "fallocate")

        os.chmod(".", 0o777)
        for change in (write, truncate, punch):
            for before, after in [(0o6777, 0o777), (0o4777, 0o777), (0o2777, 0o777),
                                  (0o2767, 0o767)]:
                put("f", b"data")
                os.chmod("f", before)
                self.assertTrue(as_another(1234, change))
                self.assertEqual(oct(mode()), oct(after), f"{change.__name__} of {before:o}")
        put("f", b"data")
        os.chmod("f", 0o6755)
        write()  # root may keep them
        self.assertEqual(oct(mode()), oct(0o6755))
        os.chown("f", 1234, 1234)
        self.assertEqual(oct(mode()), oct(0o755))
        os.chmod("f", 0o6755)
        self.assertTrue(as_another(1234, lambda: os.chown("f", -1, 1234)))
        self.assertEqual(oct(mode()), oct(0o755))


class Locks(MountTest):
    def in_child(self, body):
        """Returns the result of body() in another process: false if the lock was refused."""
        def run(answer):
            try:
                body()
                answer.send(True)
            except BlockingIOError:
                answer.send(False)
        mine, theirs = SPAWN.Pipe()
        child = SPAWN.Process(target=run, args=(theirs,))
        child.start()
        got = mine.recv()
        child.join()
        return got

    def lock(self, kind, start=0, length=0):
        def body():
            with open("f", "r+b") as file:
                fcntl.lockf(file, kind | fcntl.LOCK_NB, length, start)
        return self.in_child(body)

    def test_posix_locks_exclude_other_processes_by_range(self):
        put("f", b"x" * 100)
        with open("f", "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 10)
            self.assertFalse(self.lock(fcntl.LOCK_EX))
            self.assertFalse(self.lock(fcntl.LOCK_SH, 19, 1))
            self.assertTrue(self.lock(fcntl.LOCK_EX, 20, 10))
            self.assertTrue(self.lock(fcntl.LOCK_EX, 0, 10))
            fcntl.lockf(file, fcntl.LOCK_UN, 5, 12)  # cut in two
            self.assertTrue(self.lock(fcntl.LOCK_EX, 12, 5))
            self.assertFalse(self.lock(fcntl.LOCK_EX, 11, 1))
            self.assertFalse(self.lock(fcntl.LOCK_EX, 17, 1))
            fcntl.lockf(file, fcntl.LOCK_SH, 10, 10)
            self.assertTrue(self.lock(fcntl.LOCK_SH, 10, 10))
            self.assertFalse(self.lock(fcntl.LOCK_EX, 10, 10))
            os.close(os.open("f", os.O_RDONLY))  # POSIX: closing any descriptor gives all back
            self.assertTrue(self.lock(fcntl.LOCK_EX))

    def test_a_waiter_gets_the_lock_when_its_holder_dies(self):
        put("f", b"x")
        mine, theirs = SPAWN.Pipe()

        def hold():
            with open("f", "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
                theirs.send("held")
                time.sleep(1000)
        holder = SPAWN.Process(target=hold)
        holder.start()
        self.assertEqual(mine.recv(), "held")
        self.assertFalse(self.lock(fcntl.LOCK_EX))
        with open("f", "r+b") as file:
            killer = SPAWN.Process(target=lambda: (time.sleep(0.3),
                                                   os.kill(holder.pid, signal.SIGKILL)))
            killer.start()
            fcntl.lockf(file, fcntl.LOCK_EX)  # waits
            killer.join()
        holder.join()

    def test_locks_of_open_files_belong_to_the_open_file(self):
        put("f", b"x")
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        one, other = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
        fcntl.fcntl(one, F_OFD_SETLK, lock)
        self.fails_with(errno.EAGAIN, fcntl.fcntl, other, F_OFD_SETLK, lock)
        os.close(one)
        fcntl.fcntl(other, F_OFD_SETLK, lock)
        os.close(other)

    def test_flock_is_shared_or_exclusive_and_inherited(self):
        put("f", b"x")

        def attempt(kind):
            def body():
                with open("f", "rb") as file:
                    fcntl.flock(file, kind | fcntl.LOCK_NB)
            return self.in_child(body)
        with open("f", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            self.assertTrue(attempt(fcntl.LOCK_SH))
            self.assertFalse(attempt(fcntl.LOCK_EX))
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertFalse(attempt(fcntl.LOCK_SH))
            self.assertTrue(self.in_child(lambda: fcntl.flock(file, fcntl.LOCK_EX)))
        self.assertTrue(attempt(fcntl.LOCK_EX))


class Maps(MountTest):
    def test_bytes_stored_past_the_end_are_lost_after_a_sync_of_the_page(self):
        put("f", b"x" * 100)
        for grow in (lambda file: os.ftruncate(file, 8192),
                     lambda file: os.pwrite(file, b"w", 8191),
                     lambda file: os.pwrite(file, b"w", 2000)):
            file = os.open("f", os.O_RDWR)
            self.addCleanup(os.close, file)
            os.ftruncate(file, 100)
            page = LIBC.mmap(None, 4096, 3, 1, file, 0)  # shared, to be written to
            ctypes.memset(page + 100, ord("Z"), 1000)
            self.assertEqual(LIBC.msync(page, 4096, 4), 0)  # MS_SYNC
            grow(file)
            self.assertEqual(os.pread(file, 1000, 100), bytes(1000))
            self.assertEqual(ctypes.string_at(page + 100, 1000), bytes(1000))
            LIBC.munmap(page, 4096)


class Writers(MountTest):
    def test_processes_that_append_do_not_overwrite_one_another(self):
        record, records = 137, 400

        def append(letter):
            file = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            for number in range(records):
                os.write(file, f"{letter}{number:06}".encode().ljust(record, b"."))
        writers = [SPAWN.Process(target=append, args=(chr(97 + n),)) for n in range(6)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        drop_caches()
        found = get("f")
        self.assertEqual(len(found), 6 * records * record)
        lines = [found[at:at + 7].decode() for at in range(0, len(found), record)]
        for letter in "abcdef":
            own = [line for line in lines if line[0] == letter]
            self.assertEqual(own, [f"{letter}{n:06}" for n in range(records)])


class Listings(MountTest):
    def names_from(self, folder):
        while entry := LIBC.readdir(folder):
            yield ctypes.string_at(entry + 19).decode()

    def test_a_place_of_telldir_stays_valid_while_the_folder_changes(self):
        for number in range(3000):
            put(f"{number:04}")
        folder = LIBC.opendir(b".")
        self.addCleanup(LIBC.closedir, folder)
        names = self.names_from(folder)
        first = [next(names) for _ in range(1200)]
        place = LIBC.telldir(folder)
        rest = sorted(names)
        removed = rest[::3]
        for name in removed + [n for n in first if n not in (".", "..")][::2]:
            os.unlink(name)
        for number in range(500):
            put(f"new-{number}")
        LIBC.seekdir(folder, place)
        again = [n for n in self.names_from(folder) if not n.startswith("new-")]
        # POSIX leaves open whether a listing shows names that were removed meanwhile.
        self.assertEqual(len(again), len(set(again)))
        self.assertLessEqual(set(rest) - set(removed), set(again))
        self.assertLessEqual(set(again), set(rest))
        LIBC.rewinddir(folder)
        self.assertEqual(sorted(self.names_from(folder)), sorted(os.listdir(".") + [".", ".."]))


if __name__ == "__main__":
    semantics.ROOT = os.path.abspath(sys.argv[1])
    ATIME = (sys.argv[2:] or ["relatime"])[0]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
