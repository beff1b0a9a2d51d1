#!/usr/bin/env python3
"""Checks what Linux adds to POSIX on a mount:  beyond_posix.py FOLDER

Each test has its own folder below FOLDER. Runs as root.
"""
import ctypes
import errno
import mmap
import os
import struct
import subprocess
import sys
import threading
import unittest

import semantics
from semantics import MountTest, get, put

LIBC = ctypes.CDLL(None, use_errno=True)
BLOCK = 4096
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE, INSERT = 1, 2, 8, 16, 32
NOREPLACE, EXCHANGE = 1, 2
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
STATX_BTIME = 0x800


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def fallocate(file, mode, offset, length):
    checked(LIBC.fallocate(file, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def rename(old, new, flags):
    checked(LIBC.renameat2(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags))


def birth(path):
    """Returns the birth time of statx(2) in nanoseconds."""
    buffer = ctypes.create_string_buffer(256)
    checked(LIBC.statx(AT_FDCWD, path.encode(), 0, STATX_BTIME, buffer))
    mask, = struct.unpack_from("<I", buffer, 0)
    seconds, nanoseconds = struct.unpack_from("<qI", buffer, 80)
    return seconds * 10**9 + nanoseconds if mask & STATX_BTIME else None


def link_open(file, name):
    """Gives an open file a name."""
    checked(LIBC.linkat(AT_FDCWD, f"/proc/self/fd/{file}".encode(), AT_FDCWD, name.encode(),
                        AT_SYMLINK_FOLLOW))


class FileHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("body", ctypes.c_char * 128)]


def handle_of(path):
    handle = FileHandle(bytes=128)
    checked(LIBC.name_to_handle_at(AT_FDCWD, path.encode(), ctypes.byref(handle),
                                   ctypes.byref(ctypes.c_int()), 0))
    return handle


def open_handle(mount, handle):
    return checked(LIBC.open_by_handle_at(mount, ctypes.byref(handle), os.O_RDONLY))


class Ranges(MountTest):
    def file(self, data):
        put("f", data)
        file = os.open("f", os.O_RDWR)
        self.addCleanup(os.close, file)
        return file

    def blocks(self, file):
        os.fsync(file)
        os.close(os.dup(file))  # with its write-back cache the kernel asks again after a close
        return os.fstat(file).st_blocks // (BLOCK // 512)

    def test_a_punched_hole_reads_as_zeros_and_takes_no_blocks(self):
        file = self.file(b"x" * (10 * BLOCK))
        self.assertEqual(self.blocks(file), 10)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 2 * BLOCK + 100, 3 * BLOCK)
        left = b"x" * (2 * BLOCK + 100) + bytes(3 * BLOCK) + b"x" * (5 * BLOCK - 100)
        self.assertEqual(get("f"), left)
        self.assertEqual(self.blocks(file), 8)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 0, 1 << 40)
        self.assertEqual(get("f"), bytes(10 * BLOCK))
        self.assertEqual(self.blocks(file), 0)

    def test_a_range_punched_before_write_back_stays_zero(self):
        file = self.file(b"")
        os.pwrite(file, b"a" * (64 * BLOCK), 0)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 8 * BLOCK, 48 * BLOCK)
        os.pwrite(file, b"b" * 10, 20 * BLOCK + 5)
        expected = bytearray(b"a" * (64 * BLOCK))
        expected[8 * BLOCK:56 * BLOCK] = bytes(48 * BLOCK)
        expected[20 * BLOCK + 5:20 * BLOCK + 15] = b"b" * 10
        self.assertEqual(get("f"), expected)
        self.assertEqual(self.blocks(file), 17)
        self.assertEqual(get("f"), expected)

    def test_a_small_file_is_punched_too(self):
        file = self.file(b"0123456789")
        os.fsync(file)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 3, 4)
        self.assertEqual(get("f"), b"012\0\0\0\x00789")
        os.fsync(file)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 0, 10)
        self.assertEqual(get("f"), bytes(10))
        self.fails_with(errno.ENXIO, os.lseek, file, 0, os.SEEK_DATA)

    def test_a_zeroed_range_may_grow_the_file(self):
        file = self.file(b"x" * 5000)
        fallocate(file, ZERO_RANGE | KEEP_SIZE, 4000, 10000)
        self.assertEqual(get("f"), b"x" * 4000 + bytes(1000))
        fallocate(file, ZERO_RANGE, 3000, 10000)
        self.assertEqual(get("f"), b"x" * 3000 + bytes(10000))

    def test_fallocate_promises_no_space_that_it_cannot_keep(self):
        file = self.file(b"x" * 100)
        for mode in (0, KEEP_SIZE, COLLAPSE, INSERT):
            self.fails_with(errno.EOPNOTSUPP, fallocate, file, mode, 0, 1 << 20)
        self.fails_with(errno.EINVAL, fallocate, file, 0, 0, 0)
        self.assertEqual(get("f"), b"x" * 100)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, 0, 10)  # the refusal stops no other mode
        self.assertEqual(get("f"), bytes(10) + b"x" * 90)

    def test_posix_fallocate_takes_its_space_at_once(self):
        file = self.file(b"x" * 100)
        os.posix_fallocate(file, 50, 20)
        self.assertEqual(os.fstat(file).st_size, 100)
        os.posix_fallocate(file, 0, 1 << 20)
        self.assertEqual(get("f"), b"x" * 100 + bytes((1 << 20) - 100))
        self.assertEqual(self.blocks(file), (1 << 20) // BLOCK)

    def test_two_files_are_not_promised_the_same_space(self):
        disk = os.statvfs(".")
        length = disk.f_bavail * disk.f_frsize * 6 // 10
        for name in ("one", "other"):
            file = os.open(name, os.O_RDWR | os.O_CREAT)
            self.addCleanup(os.close, file)
            self.fails_with(errno.EOPNOTSUPP, fallocate, file, 0, 0, length)

    def test_data_and_holes_are_found(self):
        file = self.file(b"")
        for offset in (3 * BLOCK, 4 * BLOCK, 10 * BLOCK, 1 << 40):
            os.pwrite(file, b"d" * BLOCK, offset)
        for _ in range(2):  # waiting to be written, and written
            found, at = [], 0
            while at < os.fstat(file).st_size:
                try:
                    begin = os.lseek(file, at, os.SEEK_DATA)
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENXIO)
                    break
                at = os.lseek(file, begin, os.SEEK_HOLE)
                found.append((begin, at))
            self.assertEqual(found, [(3 * BLOCK, 5 * BLOCK), (10 * BLOCK, 11 * BLOCK),
                                     (1 << 40, (1 << 40) + BLOCK)])
            self.assertEqual(os.lseek(file, 0, os.SEEK_HOLE), 0)
            self.assertEqual(os.lseek(file, 3 * BLOCK + 7, os.SEEK_DATA), 3 * BLOCK + 7)
            self.assertEqual(os.lseek(file, 5 * BLOCK + 7, os.SEEK_HOLE), 5 * BLOCK + 7)
            os.fsync(file)
        self.fails_with(errno.ENXIO, os.lseek, file, (1 << 40) + BLOCK, os.SEEK_DATA)
        self.fails_with(errno.ENXIO, os.lseek, file, (1 << 40) + BLOCK, os.SEEK_HOLE)

    def test_data_that_the_kernel_holds_is_no_hole(self):
        file = self.file(bytes(16 * BLOCK))
        os.ftruncate(file, 0)
        os.ftruncate(file, 16 * BLOCK)
        os.fsync(file)
        with mmap.mmap(file, 16 * BLOCK) as mapped:
            mapped[5 * BLOCK] = 1
            self.assertEqual(os.lseek(file, 0, os.SEEK_DATA), 5 * BLOCK)
            mapped[9 * BLOCK + 17] = 1
            self.assertEqual(os.lseek(file, 5 * BLOCK, os.SEEK_HOLE), 6 * BLOCK)
            self.assertEqual(os.lseek(file, 6 * BLOCK, os.SEEK_DATA), 9 * BLOCK)

    def test_many_seek_while_the_kernel_holds_data(self):
        def seek(number):
            name = f"many{number}"
            for at in range(0, 30, 3):
                file = os.open(name, os.O_RDWR | os.O_CREAT)
                os.pwrite(file, b"x", at * BLOCK)
                found.append(os.lseek(file, max(at - 2, 0) * BLOCK, os.SEEK_DATA) == at * BLOCK)
                os.close(file)

        found = []
        threads = [threading.Thread(target=seek, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(found), all(found)), (640, True))

    def test_files_reach_almost_8_EiB(self):
        file = self.file(b"")
        last = 2**63 - 1 - 2 * BLOCK
        os.pwrite(file, b"end", last - 3)
        self.assertEqual(os.fstat(file).st_size, last)
        self.assertEqual(self.blocks(file), 1)
        self.assertEqual(os.pread(file, 10, last - 5), b"\0\0end")
        self.assertEqual(os.lseek(file, 0, os.SEEK_DATA), (last - 3) // BLOCK * BLOCK)
        os.ftruncate(file, 10)
        self.assertEqual(self.blocks(file), 0)

    def test_copies_within_the_mount_share_their_blocks(self):
        data = os.urandom(30_000_000)
        file = self.file(data)
        os.fsync(file)
        free = os.statvfs(".").f_bfree
        with open("g", "w+b") as copy:
            done = 0
            while done < len(data):
                done += os.copy_file_range(file, copy.fileno(), len(data) - done, done, done)
            os.fsync(copy.fileno())
            self.assertGreater(os.statvfs(".").f_bfree, free - len(data) // BLOCK // 2)
            os.pwrite(copy.fileno(), b"own", 1_000_000)
            os.fsync(copy.fileno())
        self.assertEqual(get("f"), data)
        self.assertEqual(get("g"), data[:1_000_000] + b"own" + data[1_000_003:])
        os.unlink("f")
        self.assertEqual(get("g")[:1_000_000], data[:1_000_000])


class Names(MountTest):
    def test_rename_with_noreplace_does_not_replace(self):
        put("a", b"a")
        put("b", b"b")
        self.fails_with(errno.EEXIST, rename, "a", "b", NOREPLACE)
        rename("a", "c", NOREPLACE)
        self.assertEqual((get("c"), get("b"), os.path.exists("a")), (b"a", b"b", False))

    def test_rename_exchanges_files_and_folders(self):
        put("a", b"a")
        os.makedirs("d/below")
        rename("a", "d", EXCHANGE)
        self.assertEqual(get("d"), b"a")
        self.assertTrue(os.path.isdir("a/below"))
        rename("d", "a/below", EXCHANGE)
        self.assertEqual(get("a/below"), b"a")
        self.assertEqual((os.stat(".").st_nlink, os.stat("a").st_nlink), (4, 2))
        self.fails_with(errno.ENOENT, rename, "a", "nothing", EXCHANGE)
        self.fails_with(errno.EINVAL, rename, "a", "d", EXCHANGE | NOREPLACE)

    def test_an_unnamed_file_can_get_a_name(self):
        os.mkdir("d", 0o777)
        file = os.open("d", os.O_TMPFILE | os.O_RDWR, 0o640)
        self.addCleanup(os.close, file)
        os.write(file, b"hidden" * 1000)
        self.assertEqual((os.listdir("d"), os.fstat(file).st_nlink), ([], 0))
        link_open(file, "d/name")
        os.fsync(file)
        self.assertEqual((get("d/name"), os.fstat(file).st_nlink), (b"hidden" * 1000, 1))
        self.assertEqual(os.fstat(file).st_mode & 0o7777, 0o640)

    def test_an_unnamed_file_opened_with_o_excl_gets_no_name(self):
        file = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
        self.addCleanup(os.close, file)
        self.fails_with(errno.ENOENT, link_open, file, "name")

    def test_the_birth_time_stays(self):
        put("f", b"x")
        born = birth("f")
        self.assertIsNotNone(born)
        os.utime("f", (5, 5))
        os.chmod("f", 0o600)
        os.rename("f", "g")
        put("g", b"more", "ab")
        self.assertEqual(birth("g"), born)
        while os.stat("g").st_ctime_ns == born:  # for a step of the clock
            os.chmod("g", 0o600)
        subprocess.run(["sync", "-f", "."], check=True)
        put("/proc/sys/vm/drop_caches", b"2")  # the kernel remembers the time, too
        self.assertEqual(birth("g"), born)
        self.assertLessEqual(born, os.stat("g").st_ctime_ns)

    def test_file_handles_outlive_caches(self):
        os.makedirs("d/e")
        put("d/e/f", b"reached")
        handles = [handle_of(path) for path in ("d/e/f", "d/e")]
        mount = os.open(".", os.O_RDONLY)
        self.addCleanup(os.close, mount)
        subprocess.run(["sync", "-f", "."], check=True)
        put("/proc/sys/vm/drop_caches", b"2")
        file = open_handle(mount, handles[0])
        self.addCleanup(os.close, file)
        self.assertEqual(os.read(file, 10), b"reached")
        folder = open_handle(mount, handles[1])
        self.addCleanup(os.close, folder)
        self.assertEqual(os.listdir(folder), ["f"])
        put("gone", b"x")
        handle = handle_of("gone")
        os.unlink("gone")
        self.fails_with(errno.ESTALE, open_handle, mount, handle)

    def test_times_reach_beyond_2038_with_nanoseconds(self):
        put("f")
        for time in (2**31 * 10**9 + 7, 2**34 * 10**9 - 1, -(2**31) * 10**9 + 3):
            os.utime("f", ns=(time, time + 1))
            self.assertEqual((os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns),
                             (time, time + 1))


if __name__ == "__main__":
    semantics.ROOT = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]], verbosity=1)
