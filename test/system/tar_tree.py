#!/usr/bin/env python3
"""A tar archive and the tree that it was unpacked to.

    tar_tree.py cut ARCHIVE OUTPUT COUNT    writes the first COUNT members to a new archive
    tar_tree.py compare ARCHIVE ROOT        compares names, types, modes, owners, mtimes, links and
                                            contents; exit status 1 on a difference
"""
import os
import stat
import sys
import tarfile

REPORTED_MAX = 20
TYPES = [("file", tarfile.TarInfo.isreg, stat.S_ISREG), ("folder", tarfile.TarInfo.isdir,
         stat.S_ISDIR), ("symlink", tarfile.TarInfo.issym, stat.S_ISLNK)]


def cut(archive, output, count):
    with tarfile.open(archive, "r|*") as source, tarfile.open(output, "w") as to:
        for number, member in enumerate(source):
            if number >= count:
                break
            to.addfile(member, source.extractfile(member) if member.isreg() else None)


def differences(member, path, source):
    """Yields the differences of one member."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        yield "is missing"
        return
    if member.islnk():
        return  # its target is compared; that it is one file, with the count of links
    for name, is_member, is_found in TYPES:
        if is_member(member) != is_found(found.st_mode):
            yield f"{'is no' if is_member(member) else 'is a'} {name}"
            return
    if member.issym():
        if os.readlink(path) != member.linkname:
            yield f"points to {os.readlink(path)}, not to {member.linkname}"
    elif stat.S_IMODE(found.st_mode) != member.mode:
        yield f"mode {stat.S_IMODE(found.st_mode):o}, not {member.mode:o}"
    if int(found.st_mtime) != int(member.mtime):
        yield f"mtime {int(found.st_mtime)}, not {int(member.mtime)}"
    if (found.st_uid, found.st_gid) != (member.uid, member.gid):
        yield f"owner {found.st_uid}:{found.st_gid}, not {member.uid}:{member.gid}"
    if member.isreg():
        if found.st_size != member.size:
            yield f"{found.st_size} bytes, not {member.size}"
        elif not same_contents(source.extractfile(member), path):
            yield "other contents"


def same_contents(expected, path):
    with open(path, "rb") as found:
        while True:
            one, other = expected.read(1 << 20), found.read(1 << 20)
            if one != other:
                return False
            if not one:
                return True


def compare(archive, root):
    wrong, expected = [], set()
    with tarfile.open(archive, "r:") as source:
        for member in source:
            name = os.path.normpath(member.name)
            expected.add(name)
            wrong += [f"{name}: {what}"
                      for what in differences(member, os.path.join(root, name), source)]
    found = set()
    for folder, folders, files in os.walk(root):
        found |= {os.path.relpath(os.path.join(folder, name), root) for name in folders + files}
    parents = {os.path.dirname(name) for name in expected} - {""}
    wrong += [f"{name}: is not in the archive" for name in sorted(found - expected - parents)]
    for line in wrong[:REPORTED_MAX]:
        print(line)
    if wrong:
        print(f"{len(wrong)} differences")
    else:
        print(f"{len(expected)} members are as in the archive")
    return bool(wrong) or not expected


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "cut":
        return cut(arguments[1], arguments[2], int(arguments[3]))
    if len(arguments) == 3 and arguments[0] == "compare":
        return compare(arguments[1], arguments[2])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
