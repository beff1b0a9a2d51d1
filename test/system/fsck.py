#!/usr/bin/env python3
"""Many files for fsck.sh.

    fsck.py make FOLDER FILES            makes folders of 1,000 files; one file in fifty has blocks
    fsck.py damage IMAGE ONE_IN SEED     flips a bit in one of ONE_IN images of metadata nodes
    fsck.py headers IMAGE                overwrites the header of each band of the metadata log
    fsck.py digest IMAGE                 prints a digest of all blocks outside of holes
    fsck.py verify FOLDER FILES LOST LOSSES
                                         checks that at most LOST files are missing, and that all
                                         others are unchanged, but for those that the file LOSSES
                                         of fsck.lazyfs names
"""
import hashlib
import os
import random
import sys

FOLDER_FILES = 1000
BLOCK = 4096


def contents(number):
    line = b"file %d\n" % number
    return line * (5000 // len(line)) if number % 50 == 0 else line


def path_of(root, number):
    return os.path.join(root, f"{number // FOLDER_FILES:04}", f"{number:07}")


def make(root, files):
    for number in range(files):
        if number % FOLDER_FILES == 0:
            os.mkdir(os.path.dirname(path_of(root, number)))
        with open(path_of(root, number), "wb") as file:
            file.write(contents(number))


def written(file):
    """Yields (offset, block) of all blocks outside of holes."""
    end = os.fstat(file).st_size
    at = 0
    while True:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
            hole = os.lseek(file, at, os.SEEK_HOLE)
        except OSError:  # nothing but a hole is left
            return
        for at in range(at // BLOCK * BLOCK, min(hole, end), BLOCK):
            yield at, os.pread(file, BLOCK, at)
        at = hole


def damage(image, one_in, seed):
    lots = random.Random(seed)
    file = os.open(image, os.O_RDWR)
    nodes = [at for at, block in written(file) if block[:4] == b"LZND"]
    for at in lots.sample(nodes, max(1, len(nodes) // one_in)):
        bit = lots.randrange(BLOCK * 8)
        byte = os.pread(file, 1, at + bit // 8)[0] ^ 1 << bit % 8
        os.pwrite(file, bytes([byte]), at + bit // 8)
    os.fsync(file)
    print(f"a bit was flipped in {max(1, len(nodes) // one_in)} of {len(nodes)} images of nodes")


def headers(image):
    file = os.open(image, os.O_RDWR)
    found = [at for at, block in written(file) if block[:4] == b"LZBH"]
    for at in found:
        os.pwrite(file, bytes(BLOCK), at)
    os.fsync(file)
    print(f"{len(found)} headers of log bands were overwritten")


def digest(image):
    """The digest covers the offsets, too."""
    sha = hashlib.sha256()
    file = os.open(image, os.O_RDONLY)
    for at, block in written(file):
        if any(block):
            sha.update(b"%d" % at + block)
    print(sha.hexdigest())


def paths_of_losses(path):
    """The paths that the lines begin with: "/a/b (inode 5): 4 KiB, which read as zeros"."""
    with open(path) as file:
        return {line.split(" (inode ")[0] for line in file}


def is_named(path, named):
    """Whether the path is named, or that of a folder it lies in."""
    while path != "/":
        if path in named:
            return True
        path = os.path.dirname(path)
    return path in named


def verify(root, files, lost_at_most, losses):
    wrong, lost, named = [], 0, paths_of_losses(losses)
    for number in range(files):
        path = path_of("/", number)
        try:
            with open(path_of(root, number), "rb") as file:
                found = file.read()
        except FileNotFoundError:
            lost += 1
            if not is_named(path, named):
                wrong.append(f"{path}: is missing, and not named as lost")
            continue
        if found != contents(number) and path not in named:
            wrong.append(f"{path}: {found[:40]}")
        # If an inode's record was lost, repair sets the size to the end of the blocks.
        if found.rstrip(b"\0") not in (b"", contents(number)):
            wrong.append(f"{path}: {found[:40]}")
    print(f"{lost} files are not in their place")
    if lost > lost_at_most:
        wrong.append(f"{lost} files are lost, more than {lost_at_most}")
    print("\n".join(wrong[:20]), end="")
    return bool(wrong)


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "make":
        return make(arguments[1], int(arguments[2]))
    if len(arguments) == 4 and arguments[0] == "damage":
        return damage(arguments[1], int(arguments[2]), int(arguments[3]))
    if len(arguments) == 2 and arguments[0] == "headers":
        return headers(arguments[1])
    if len(arguments) == 2 and arguments[0] == "digest":
        return digest(arguments[1])
    if len(arguments) == 5 and arguments[0] == "verify":
        return verify(arguments[1], int(arguments[2]), int(arguments[3]), arguments[4])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
