#!/usr/bin/env python3
"""Several users on one mount:  users.py FOLDER

Each test has its own folder below FOLDER. Runs as root. Child processes act as other users.
"""
import ctypes
import errno
import fcntl
import os
import stat
import subprocess
import sys
import unittest

import semantics
from semantics import MountTest, get, put

ALICE, BOB, TEAM = 5001, 5002, 6001  # numbers are enough: no test looks up names
CLEAN, SHUT_DOWN = (0xC028ED0E, bytes(40)), (0x8004587D, 0)
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, STATX_MODE = -100, 2


def mode_alone(path):
    """Returns the permissions of a file by statx(2), and asks for no other attribute."""
    answer = ctypes.create_string_buffer(256)
    if LIBC.statx(AT_FDCWD, path.encode(), 0, STATX_MODE, answer) != 0:
        raise OSError(ctypes.get_errno(), path)
    return stat.S_IMODE(int.from_bytes(answer.raw[28:30], sys.byteorder))


def as_user(user, action, groups=()):
    """Returns the errno that action() raises as `user`, or 0."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            os.setgroups(list(groups))
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.umask(0o022)
            action()
            status = 0
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class UserTest(MountTest):
    def setUp(self):
        super().setUp()
        os.chmod(".", 0o755)

    def succeeds(self, user, action, groups=()):
        self.assertEqual(errno.errorcode.get(as_user(user, action, groups), "0"), "0")

    def refused(self, code, user, action, groups=()):
        got = as_user(user, action, groups)
        self.assertEqual(errno.errorcode.get(got, "0"), errno.errorcode[code])

    def folder_of(self, user, mode=0o700):
        os.mkdir("d", mode)
        os.chmod("d", mode)
        os.chown("d", user, user)


class Users(UserTest):
    def test_a_private_folder_is_private(self):
        self.folder_of(ALICE)
        self.succeeds(ALICE, lambda: put("d/secret", b"x"))
        self.refused(errno.EACCES, BOB, lambda: get("d/secret"))
        self.refused(errno.EACCES, BOB, lambda: os.listdir("d"))
        self.refused(errno.EACCES, BOB, lambda: put("d/secret", b"y"))
        self.assertEqual(get("d/secret"), b"x")

    def test_in_a_sticky_folder_only_owners_remove(self):
        self.folder_of(0, 0o1777)
        self.succeeds(ALICE, lambda: put("d/a", b"x"))
        self.refused(errno.EPERM, BOB, lambda: os.unlink("d/a"))
        self.refused(errno.EPERM, BOB, lambda: os.rename("d/a", "d/b"))
        self.succeeds(BOB, lambda: put("d/b", b"x"))
        self.refused(errno.EPERM, BOB, lambda: os.rename("d/b", "d/a"))
        self.succeeds(ALICE, lambda: os.unlink("d/a"))

    def test_supplementary_groups_count(self):
        self.folder_of(ALICE, 0o2770)
        os.chown("d", ALICE, TEAM)
        os.chmod("d", 0o2770)
        self.refused(errno.EACCES, BOB, lambda: put("d/f", b"x"))
        self.succeeds(BOB, lambda: put("d/f", b"x"), groups=[TEAM])
        self.assertEqual(os.stat("d/f").st_gid, TEAM)

    def test_only_an_owner_changes_modes_and_only_root_gives_files_away(self):
        self.folder_of(ALICE, 0o777)
        self.succeeds(ALICE, lambda: put("d/f", b"x"))
        self.refused(errno.EPERM, BOB, lambda: os.chmod("d/f", 0o777))
        self.refused(errno.EPERM, ALICE, lambda: os.chown("d/f", BOB, -1))
        self.refused(errno.EPERM, ALICE, lambda: os.chown("d/f", -1, TEAM))
        self.succeeds(ALICE, lambda: os.chown("d/f", -1, TEAM), groups=[TEAM])
        self.refused(errno.EPERM, BOB, lambda: os.utime("d/f", (1, 1)))

    def test_a_write_by_another_user_drops_set_id_bits(self):
        put("f", b"x")
        os.chmod("f", 0o6777)
        self.succeeds(BOB, lambda: put("f", b"y", "r+b"))
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o777)

    def test_whatever_another_user_writes_by_the_kernel_knows_of_the_bits(self):
        def copy():
            with open("source", "rb") as source, open("f", "r+b") as target:
                os.copy_file_range(source.fileno(), target.fileno(), 5000)

        def allocate():
            with open("f", "r+b") as target:
                os.posix_fallocate(target.fileno(), 0, 20000)

        put("source", b"s" * 5000)
        put("f", b"x" * 10000)
        for action in (copy, allocate, lambda: put("f", b"y", "r+b")):
            os.chmod("f", 0o6777)
            self.assertEqual(mode_alone("f"), 0o6777)
            self.succeeds(BOB, action)
            self.assertEqual(mode_alone("f"), 0o777)

    def test_a_change_by_an_outsider_of_the_group_drops_its_set_group_id_bit(self):
        def changed(name, function, *arguments):
            def action():
                file = os.open("f", os.O_RDWR)
                function(file, *arguments)
            return name, action

        def fallocate(file, mode):
            if LIBC.fallocate(file, mode, ctypes.c_int64(0), ctypes.c_int64(8192)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")

        def copy(file):
            os.copy_file_range(os.open("source", os.O_RDONLY), file, 4096, 0, 0)

        put("source", b"s" * 4096)
        for name, action in (changed("write", os.pwrite, b"y", 0),
                             changed("punch", fallocate, 3),
                             changed("zero", fallocate, 16),
                             changed("copy", copy),
                             changed("truncate", os.ftruncate, 5)):
            for groups, left in ([], 0o767), ([TEAM], 0o2767):
                put("f", b"x" * 8192)
                os.chown("f", 0, TEAM)
                os.chmod("f", 0o6767)
                with self.subTest(name, groups=groups):
                    self.succeeds(BOB, action, groups)
                    self.assertEqual(oct(mode_alone("f")), oct(left))

    def test_the_umask_narrows_modes(self):
        self.folder_of(ALICE, 0o777)

        def make():
            os.umask(0o027)
            put("d/f")
            os.mkdir("d/e")
            os.mkfifo("d/p", 0o666)

        self.succeeds(ALICE, make)
        modes = [stat.S_IMODE(os.stat(f"d/{name}").st_mode) for name in "fep"]
        self.assertEqual(modes, [0o640, 0o750, 0o640])

    def test_namespaces_of_attributes_are_guarded(self):
        self.folder_of(ALICE, 0o755)
        self.succeeds(ALICE, lambda: put("d/f", b"x"))
        self.succeeds(ALICE, lambda: os.setxattr("d/f", "user.a", b"v"))
        self.refused(errno.EPERM, ALICE, lambda: os.setxattr("d/f", "trusted.a", b"v"))
        self.refused(errno.EPERM, ALICE, lambda: os.setxattr("d/f", "security.a", b"v"))
        self.refused(errno.EACCES, BOB, lambda: os.setxattr("d/f", "user.b", b"v"))
        os.setxattr("d/f", "trusted.a", b"v")
        self.refused(errno.ENODATA, ALICE, lambda: os.getxattr("d/f", "trusted.a"))
        self.assertEqual(sorted(os.listxattr("d/f")), ["trusted.a", "user.a"])

        def list_own():
            if os.listxattr("d/f") != ["user.a"]:
                raise OSError(errno.EBADMSG, "another list")

        self.succeeds(ALICE, list_own)

    def test_control_requests_are_refused_to_users(self):
        def control(command, argument):
            folder = os.open(".", os.O_RDONLY)
            fcntl.ioctl(folder, command, argument)

        for command in (CLEAN, SHUT_DOWN):
            self.refused(errno.EPERM, ALICE, lambda command=command: control(*command))
        put("f", b"still here")
        self.assertEqual(get("f"), b"still here")


class Lists(UserTest):
    """Access control lists."""

    def setfacl(self, *arguments):
        subprocess.run(["setfacl", *arguments], check=True)

    def getfacl(self, path):
        done = subprocess.run(["getfacl", "-cnpE", path], check=True, capture_output=True,
                              text=True)
        return done.stdout.split()

    def test_an_acl_gives_a_named_user_its_permissions(self):
        put("f", b"x")
        os.chmod("f", 0o600)
        self.refused(errno.EACCES, ALICE, lambda: get("f"))
        self.setfacl("-m", f"u:{ALICE}:r", "f")
        self.succeeds(ALICE, lambda: get("f"))
        self.refused(errno.EACCES, ALICE, lambda: put("f", b"y", "r+b"))
        self.refused(errno.EACCES, BOB, lambda: get("f"))
        self.assertEqual(stat.S_IMODE(os.stat("f").st_mode), 0o640)
        os.chmod("f", 0o600)  # the mask
        self.refused(errno.EACCES, ALICE, lambda: get("f"))
        self.setfacl("-b", "f")
        self.assertEqual(self.getfacl("f"), ["user::rw-", "group::---", "other::---"])

    def test_an_acl_gives_a_named_group_its_permissions(self):
        put("f", b"x")
        os.chmod("f", 0o600)
        self.setfacl("-m", f"g:{TEAM}:rw", "f")
        self.refused(errno.EACCES, BOB, lambda: get("f"))
        self.succeeds(BOB, lambda: put("f", b"y", "r+b"), groups=[TEAM])

    def test_defaults_are_inherited_instead_of_the_umask(self):
        os.mkdir("d")
        self.setfacl("-d", "-m", f"u::rwx,u:{ALICE}:rwx,g::rx,o::-", "d")
        os.umask(0o077)
        put("d/f")
        os.mkdir("d/e")
        self.assertEqual(self.getfacl("d/f"),
                         ["user::rw-", f"user:{ALICE}:rwx", "group::r-x", "mask::rw-",
                          "other::---"])
        self.assertEqual([line for line in self.getfacl("d/e") if line.startswith("default:")],
                         ["default:user::rwx", f"default:user:{ALICE}:rwx",
                          "default:group::r-x", "default:mask::rwx", "default:other::---"])
        self.succeeds(ALICE, lambda: put("d/f", b"y", "r+b"))
        os.symlink("f", "d/s")
        self.fails_with(errno.ENODATA, os.getxattr, "d/e/../f", "system.posix_acl_default")

    def test_a_default_list_is_for_folders(self):
        os.mkdir("d")
        put("f")
        self.setfacl("-d", "-m", "u::rwx", "d")
        value = os.getxattr("d", "system.posix_acl_default")
        self.fails_with(errno.EACCES, os.setxattr, "f", "system.posix_acl_default", value)
        self.refused(errno.EPERM, BOB,
                     lambda: os.setxattr("d", "system.posix_acl_default", value))

    def test_a_list_set_by_an_outsider_of_the_group_drops_its_set_group_id_bit(self):
        for groups, left in ([], 0o755), ([TEAM], 0o2755):
            put("f", b"x")
            os.chown("f", BOB, TEAM)
            os.chmod("f", 0o2755)
            self.succeeds(BOB, lambda: self.setfacl("-m", f"u:{ALICE}:rx", "f"), groups)
            self.assertEqual(oct(stat.S_IMODE(os.stat("f").st_mode)), oct(left))

    def test_removing_a_missing_acl_succeeds(self):
        os.mkdir("d")
        for kind in "access", "default":
            os.removexattr("d", f"system.posix_acl_{kind}")
        self.fails_with(errno.ENODATA, os.removexattr, "d", "user.a")

    def test_names_of_unknown_namespaces_are_refused(self):
        put("f")
        for name in "system.something", "other.something", "something":
            self.fails_with(errno.EOPNOTSUPP, os.setxattr, "f", name, b"v")
            self.fails_with(errno.EOPNOTSUPP, os.getxattr, "f", name)
            self.fails_with(errno.EOPNOTSUPP, os.removexattr, "f", name)
        self.fails_with(errno.EINVAL, os.setxattr, "f", "user.", b"v")


if __name__ == "__main__":
    semantics.ROOT = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]], verbosity=1)
