#!/usr/bin/env python3
"""Checks the semantics of POSIX on a mount:  semantics.py FOLDER writeback|nowriteback

Each test has its own folder below FOLDER. Runs as root. `writeback`: the mount uses the kernel's
write-back cache; then the kernel sets the times of files.
"""
import errno
import fcntl
import mmap
import os
import random
import stat
import sys
import tempfile
import threading
import unittest

ROOT = None
WRITEBACK = False
NANOSECONDS = 10**9


def put(path, data=b"", mode="wb"):
    with open(path, mode) as file:
        file.write(data)


def get(path):
    with open(path, "rb") as file:
        return file.read()


class MountTest(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix=self._testMethodName + ".", dir=ROOT)
        os.chdir(self.home)
        os.umask(0o022)

    def tearDown(self):
        os.chdir("/")

    def fails_with(self, code, function, *arguments, **named):
        with self.assertRaises(OSError) as raised:
            function(*arguments, **named)
        self.assertEqual(errno.errorcode[raised.exception.errno], errno.errorcode[code])


class Names(MountTest):
    def test_an_unlinked_file_lives_while_it_is_open(self):
        with open("f", "w+b") as file:
            file.write(b"x" * 100000)
            file.flush()
            os.unlink("f")
            self.assertFalse(os.path.exists("f"))
            file.seek(50000)
            file.write(b"y" * 100000)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            self.assertEqual(file.read(), b"x" * 50000 + b"y" * 100000)
            self.assertEqual(os.fstat(file.fileno()).st_nlink, 0)
            put("f", b"another")
            file.seek(0)
            self.assertEqual(file.read(3), b"xxx")
        self.assertEqual(get("f"), b"another")

    def test_a_rename_replaces_an_existing_name(self):
        put("new", b"new")
        put("old", b"old")
        with open("old", "rb") as old:
            os.rename("new", "old")
            self.assertEqual(old.read(), b"old")
            self.assertEqual(os.fstat(old.fileno()).st_nlink, 0)
        self.assertEqual(os.listdir("."), ["old"])
        self.assertEqual(get("old"), b"new")

    def test_a_rename_of_folders_follows_the_rules(self):
        os.mkdir("empty")
        os.makedirs("full/below")
        put("file")
        self.fails_with(errno.ENOTEMPTY, os.rename, "empty", "full")
        self.fails_with(errno.EINVAL, os.rename, "full", "full/below/x")
        self.fails_with(errno.ENOTDIR, os.rename, "full", "file")
        self.fails_with(errno.EISDIR, os.rename, "file", "empty")
        self.fails_with(errno.ENOENT, os.rename, "missing", "x")
        os.rename("full", "empty")
        self.assertEqual(os.listdir("empty"), ["below"])
        self.assertEqual(os.stat("empty").st_nlink, 3)

    def test_dot_dot_follows_a_moved_folder(self):
        os.makedirs("a/moved")
        os.mkdir("b")
        os.rename("a/moved", "b/moved")
        self.assertEqual(os.stat("b/moved/..").st_ino, os.stat("b").st_ino)
        self.assertEqual((os.stat("a").st_nlink, os.stat("b").st_nlink), (2, 3))

    def test_rename_of_a_file_onto_its_other_link_changes_nothing(self):
        put("a", b"x")
        os.link("a", "b")
        os.rename("a", "b")
        self.assertEqual(sorted(os.listdir(".")), ["a", "b"])

    def test_hard_links_are_one_file(self):
        put("a", b"one")
        os.link("a", "b")
        put("b", b" two", "ab")
        self.assertEqual(get("a"), b"one two")
        self.assertEqual(os.stat("a").st_ino, os.stat("b").st_ino)
        self.assertEqual(os.stat("a").st_nlink, 2)
        os.unlink("a")
        self.assertEqual(os.stat("b").st_nlink, 1)
        self.assertEqual(get("b"), b"one two")
        os.mkdir("d")
        self.fails_with(errno.EPERM, os.link, "d", "e")
        self.fails_with(errno.EEXIST, os.link, "b", "d")

    def test_symlinks_hold_any_text(self):
        for number, target in enumerate(["x", "../.." * 200, "ü" * 1000, "/" + "y" * 4094]):
            os.symlink(target, f"link-{number}")
            self.assertEqual(os.readlink(f"link-{number}"), target)
            self.assertEqual(os.lstat(f"link-{number}").st_size, len(target.encode()))
        put("file", b"through")
        os.symlink("file", "short")
        self.assertEqual(get("short"), b"through")
        self.fails_with(errno.ENOENT, os.stat, "link-0")
        os.symlink("loop", "loop")
        self.fails_with(errno.ELOOP, os.stat, "loop")

    def test_only_an_empty_folder_is_removed(self):
        os.mkdir("d")
        put("d/f")
        self.fails_with(errno.ENOTEMPTY, os.rmdir, "d")
        self.fails_with(errno.EISDIR, os.unlink, "d")
        self.fails_with(errno.ENOTDIR, os.rmdir, "d/f")
        os.unlink("d/f")
        os.rmdir("d")
        self.fails_with(errno.ENOENT, os.rmdir, "d")
        self.fails_with(errno.ENOENT, os.unlink, "d/f")

    def test_a_name_exists_once(self):
        put("f")
        self.fails_with(errno.EEXIST, os.mkdir, "f")
        self.fails_with(errno.EEXIST, os.symlink, "x", "f")
        self.fails_with(errno.EEXIST, os.open, "f", os.O_CREAT | os.O_EXCL)
        self.fails_with(errno.EEXIST, os.mkfifo, "f")
        self.fails_with(errno.ENOTDIR, os.open, "f/x", os.O_CREAT)

    def test_names_are_bytes_of_1_to_255(self):
        names = [b"\xff\xfe", b" ", b"a\nb", b"\xc3\xbc", b"-", b"x" * 255, b"..."]
        for name in names:
            put(name, name)
        self.assertEqual(sorted(os.listdir(b".")), sorted(names))
        for name in names:
            self.assertEqual(get(name), name)
        self.fails_with(errno.ENAMETOOLONG, put, b"x" * 256)
        self.fails_with(errno.ENAMETOOLONG, os.stat, b"x" * 256)

    def test_special_files_keep_their_kind_and_number(self):
        os.mkfifo("fifo")
        os.mknod("char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod("block", 0o600 | stat.S_IFBLK, os.makedev(259, 70000))
        os.mknod("socket", 0o600 | stat.S_IFSOCK)
        self.assertTrue(stat.S_ISFIFO(os.stat("fifo").st_mode))
        self.assertTrue(stat.S_ISSOCK(os.stat("socket").st_mode))
        self.assertEqual(os.stat("char").st_rdev, os.makedev(1, 3))
        self.assertEqual(os.stat("block").st_rdev, os.makedev(259, 70000))
        with open("char", "wb") as null:
            null.write(b"x")


class Folders(MountTest):
    def test_a_large_folder_is_listed_once_and_emptied_while_it_is_listed(self):
        count = 20000
        for number in range(count):
            os.close(os.open(f"{number:05}", os.O_CREAT | os.O_WRONLY))
        self.assertEqual(sorted(os.listdir(".")), [f"{n:05}" for n in range(count)])
        seen = set()
        with os.scandir(".") as entries:
            for entry in entries:
                self.assertNotIn(entry.name, seen)
                seen.add(entry.name)
                os.unlink(entry.name)
        self.assertEqual(len(seen), count)
        self.assertEqual(os.listdir("."), [])

    def test_entries_that_stay_are_listed_exactly_once_while_others_come_and_go(self):
        stay = {f"stay-{n}" for n in range(2000)}
        for name in stay:
            put(name)
        seen = []
        with os.scandir(".") as entries:
            for number, entry in enumerate(entries):
                seen.append(entry.name)
                put(f"new-{number % 300}")
                if number % 3 == 0:
                    os.rename(f"new-{number % 300}", f"renamed-{number % 500}")
                if number > 20000:
                    self.fail("the listing never ends")
        self.assertEqual(sorted(n for n in seen if n.startswith("stay")), sorted(stay))

    def test_the_count_of_links_is_that_of_the_folders(self):
        for number in range(10):
            os.mkdir(f"d{number}")
        self.assertEqual(os.stat(".").st_nlink, 12)
        for number in range(5):
            os.rmdir(f"d{number}")
        self.assertEqual(os.stat(".").st_nlink, 7)

    def test_a_removed_folder_takes_no_new_names(self):
        os.mkdir("d")
        folder = os.open("d", os.O_RDONLY)
        os.rmdir("d")
        self.fails_with(errno.ENOENT, os.open, "f", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
        self.assertEqual(os.listdir(folder), [])
        os.close(folder)

    def test_deep_trees(self):
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        put("leaf", b"deep")
        self.assertEqual(get("leaf"), b"deep")
        os.unlink("leaf")
        for _ in range(300):
            os.chdir("..")
            os.rmdir("d")

    def test_set_group_id_is_inherited(self):
        os.mkdir("d")
        os.chown("d", 0, 4242)
        os.chmod("d", 0o2775)
        os.mkdir("d/below")
        put("d/file")
        self.assertEqual(os.stat("d/below").st_gid, 4242)
        self.assertEqual(os.stat("d/file").st_gid, 4242)
        self.assertTrue(os.stat("d/below").st_mode & stat.S_ISGID)


class Contents(MountTest):
    def test_truncation_and_growth_read_zeros(self):
        put("f", b"x" * 10000)
        os.truncate("f", 5000)
        os.truncate("f", 12000)
        self.assertEqual(get("f"), b"x" * 5000 + bytes(7000))
        os.truncate("f", 0)
        self.assertEqual(get("f"), b"")
        self.assertEqual(os.stat("f").st_blocks, 0)
        os.truncate("f", 4097)
        self.assertEqual(get("f"), bytes(4097))

    def test_sparse_files_take_only_what_was_written(self):
        with open("f", "wb") as file:
            file.seek(1 << 40)
            file.write(b"end")
            file.seek(1 << 20)
            file.write(b"middle")
            file.flush()
            os.fsync(file.fileno())
        self.assertEqual(os.stat("f").st_size, (1 << 40) + 3)
        self.assertLessEqual(os.stat("f").st_blocks, 64)
        with open("f", "rb") as file:
            self.assertEqual(file.read(4096), bytes(4096))
            file.seek((1 << 20) - 2)
            self.assertEqual(file.read(10), b"\0\0middle\0\0")
            file.seek(1 << 40)
            self.assertEqual(file.read(), b"end")

    def test_a_file_of_64_MiB_written_at_random_reads_as_written(self):
        lots = random.Random(5)
        image = bytearray()
        with open("f", "w+b", buffering=0) as file:
            for _ in range(400):
                offset = lots.randrange(64 << 20)
                data = lots.randbytes(lots.choice([1, 100, 4096, 65536, 300000]))
                if len(image) < offset + len(data):
                    image.extend(bytes(offset + len(data) - len(image)))
                image[offset:offset + len(data)] = data
                file.seek(offset)
                file.write(data)
                if lots.random() < 0.02:
                    os.fsync(file.fileno())
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.assertEqual(get("f"), image)

    def test_appenders_do_not_overwrite_one_another(self):
        def append(letter):
            file = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for _ in range(500):
                os.write(file, letter * 100)
            os.close(file)
        threads = [threading.Thread(target=append, args=(bytes([65 + n]),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        data = get("f")
        self.assertEqual(len(data), 4 * 500 * 100)
        for number in range(4):
            self.assertEqual(data.count(bytes([65 + number]) * 100), 500)

    def test_mapped_memory_and_reads_see_the_same(self):
        put("f", bytes(1 << 20))
        with open("f", "r+b") as file:
            with mmap.mmap(file.fileno(), 1 << 20) as memory:
                memory[5000:5005] = b"hello"
                memory.flush()
                file.seek(5000)
                self.assertEqual(file.read(5), b"hello")
                os.pwrite(file.fileno(), b"world", 9000)
                self.assertEqual(memory[9000:9005], b"world")
        self.assertEqual(get("f")[5000:5005], b"hello")

    def test_a_private_mapping_does_not_change_the_file(self):
        put("f", b"a" * 8192)
        with open("f", "rb") as file:
            with mmap.mmap(file.fileno(), 8192, access=mmap.ACCESS_COPY) as memory:
                memory[0:5] = b"other"
        self.assertEqual(get("f"), b"a" * 8192)

    def test_direct_writes_and_cached_reads_agree(self):
        file = os.open("f", os.O_RDWR | os.O_CREAT | getattr(os, "O_DIRECT", 0))
        page = mmap.mmap(-1, 1 << 16)
        page.write(random.Random(3).randbytes(1 << 16))
        self.assertEqual(os.pwrite(file, page, 1 << 16), 1 << 16)
        self.assertEqual(get("f"), bytes(1 << 16) + page[:])
        put("g", page[:])
        os.close(file)
        file = os.open("g", os.O_RDONLY | getattr(os, "O_DIRECT", 0))
        again = mmap.mmap(-1, 1 << 16)
        self.assertEqual(os.preadv(file, [again], 0), 1 << 16)
        self.assertEqual(again[:], page[:])
        os.close(file)

    def test_reads_at_and_past_the_end(self):
        put("f", b"abc")
        file = os.open("f", os.O_RDONLY)
        self.assertEqual(os.pread(file, 10, 2), b"c")
        self.assertEqual(os.pread(file, 10, 3), b"")
        self.assertEqual(os.pread(file, 10, 1 << 50), b"")
        os.close(file)

    def test_a_file_that_is_too_large_is_refused(self):
        put("f")
        with self.assertRaises(OSError) as raised:
            os.truncate("f", (1 << 63) - 1)
        self.assertEqual(raised.exception.errno, errno.EFBIG)

    def test_locks_exclude(self):
        put("f")
        one, other = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
        fcntl.flock(one, fcntl.LOCK_EX)
        self.fails_with(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(one)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


class Attributes(MountTest):
    def test_times_move_when_they_must_and_only_then(self):
        put("f", b"x")
        old = 10**9 * NANOSECONDS
        os.utime("f", ns=(old, old + 1))
        before = os.stat("f")
        self.assertEqual((before.st_atime_ns, before.st_mtime_ns), (old, old + 1))
        os.chmod("f", 0o600)
        self.assertEqual(os.stat("f").st_mtime_ns, old + 1)
        self.assertGreaterEqual(os.stat("f").st_ctime_ns, before.st_ctime_ns)
        put("f", b"y", "ab")
        self.assertGreater(os.stat("f").st_mtime_ns, old + 1)

        os.utime(".", ns=(old, old))
        os.rename("f", "g")
        self.assertGreater(os.stat(".").st_mtime_ns, old)
        os.utime(".", ns=(old, old))
        os.unlink("g")
        self.assertGreater(os.stat(".").st_mtime_ns, old)
        os.mkdir("d")
        os.utime(".", ns=(old, old))
        put("d/inner")
        self.assertEqual(os.stat(".").st_mtime_ns, old)

    def test_truncation_to_the_same_size_counts_as_a_change(self):
        if WRITEBACK:
            self.skipTest("the kernel does not ask for it and believes only its own mtime")
        put("f", b"abc")
        os.utime("f", ns=(1, 1))
        os.truncate("f", 3)
        self.assertGreater(os.stat("f").st_mtime_ns, 1)

    def test_times_before_1970_and_far_away(self):
        put("f")
        for when in [-1, -10**9 * NANOSECONDS - 1, 2**33 * NANOSECONDS + 999999999]:
            os.utime("f", ns=(when, when))
            self.assertEqual(os.stat("f").st_mtime_ns, when)

    def test_modes_and_owners(self):
        put("f")
        os.chmod("f", 0o6751)
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o6751)
        os.chown("f", 1, 2)
        found = os.stat("f")
        self.assertEqual((found.st_uid, found.st_gid), (1, 2))
        self.assertEqual(stat.S_IMODE(found.st_mode) & 0o777, 0o751)
        os.chown("f", 2**31 + 5, -1)
        self.assertEqual(os.stat("f").st_uid, 2**31 + 5)

    def test_permissions_hold_for_others(self):
        put("secret", b"x")
        os.chmod("secret", 0o600)
        os.chmod(".", 0o755)
        child = os.fork()
        if child == 0:
            try:
                os.setgid(65534)
                os.setuid(65534)
                os.open("secret", os.O_RDONLY)
            except PermissionError:
                os._exit(0)
            except BaseException:
                os._exit(2)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_extended_attributes(self):
        put("f")
        self.assertEqual(os.listxattr("f"), [])
        self.fails_with(errno.ENODATA, os.getxattr, "f", "user.a")
        values = {"user.a": b"", "user.b": b"x" * 200, "user." + "n" * 250: b"long name",
                  "trusted.t": bytes(range(256))}
        for name, value in values.items():
            os.setxattr("f", name, value)
        self.assertEqual({name: os.getxattr("f", name) for name in os.listxattr("f")}, values)
        os.setxattr("f", "user.b", b"shorter")
        self.assertEqual(os.getxattr("f", "user.b"), b"shorter")
        self.fails_with(errno.EEXIST, os.setxattr, "f", "user.a", b"", os.XATTR_CREATE)
        self.fails_with(errno.ENODATA, os.setxattr, "f", "user.z", b"", os.XATTR_REPLACE)
        both = os.XATTR_CREATE | os.XATTR_REPLACE
        self.fails_with(errno.EEXIST, os.setxattr, "f", "user.a", b"", both)
        self.fails_with(errno.ENODATA, os.setxattr, "f", "user.z", b"", both)
        os.removexattr("f", "user.a")
        self.fails_with(errno.ENODATA, os.removexattr, "f", "user.a")
        os.mkdir("d")
        os.setxattr("d", "user.on", b"folder")
        self.assertEqual(os.getxattr("d", "user.on"), b"folder")

    def test_an_attribute_is_either_set_whole_or_refused(self):
        put("f")
        for size in [1000, 4000, 20000, 65536]:
            value = random.Random(size).randbytes(size)
            try:
                os.setxattr("f", "user.v", value)
            except OSError as error:
                self.assertIn(error.errno, (errno.ENOSPC, errno.E2BIG, errno.ERANGE))
                continue
            self.assertEqual(os.getxattr("f", "user.v"), value)
        self.assertEqual(os.listxattr("f"), ["user.v"])

    def test_statfs_counts_written_data(self):
        before = os.statvfs(".")
        self.assertGreater(before.f_blocks, before.f_bavail)
        self.assertEqual(before.f_namemax, 255)
        with open("f", "wb") as file:
            file.write(random.Random(1).randbytes(8 << 20))
            file.flush()
            os.fsync(file.fileno())
        used = (before.f_bavail - os.statvfs(".").f_bavail) * before.f_frsize
        self.assertGreaterEqual(used, 7 << 20)
        self.assertLessEqual(used, 32 << 20)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ROOT = os.path.realpath(sys.argv.pop(1))
    if sys.argv[1:2] in (["writeback"], ["nowriteback"]):
        WRITEBACK = sys.argv.pop(1) == "writeback"
    unittest.main()
