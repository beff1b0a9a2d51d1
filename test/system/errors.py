#!/usr/bin/env python3
"""Errors that programs get from a failing device (errors.sh).

    errors.py writers FOLDER [,opens]  write, and check which calls report errors; waits for a line
                                       of the standard input before each step, prints one after
    errors.py written FOLDER           checks that the writers' data exists
    errors.py make FILE                makes a file of different blocks
    errors.py damage IMAGE             changes one of these blocks on the disk
    errors.py read FILE                checks that every way of reading gives all other blocks
"""
import errno
import mmap
import os
import sys

BLOCK = 4096
BLOCKS = 1024
BAD = 500
BYTES = 1 << 20


def wait():
    print("ready", flush=True)
    assert sys.stdin.readline()


def error_of(function, *arguments):
    """Returns the error's name, or None."""
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")


def data(name):
    return (name.encode() * BYTES)[:BYTES]


def writers(folder, opens):
    """With `opens` the kernel announces each descriptor; each reports once what failed while it was
    open. Without, fsync of any descriptor reports what is not durable."""
    names = ["a", "b"]
    opened = {name: [os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT) for _ in range(3)]
              for name in names}
    bystander = os.open(f"{folder}/c", os.O_RDWR | os.O_CREAT)
    os.write(bystander, b"nothing wrong")
    for file in [bystander] + [files[0] for files in opened.values()]:
        os.fsync(file)
    wait()  # now the disk is filled
    for name, files in opened.items():
        expect("write", os.pwrite(files[0], data(name), 0), BYTES)
    wait()  # now it was tried to write that
    for name, files in opened.items():
        for _ in range(2):
            expect("fsync while nothing can be written", error_of(os.fsync, files[0]), "ENOSPC")
        expect("read while nothing can be written", os.pread(files[0], BYTES, 0), data(name))
    wait()  # now there is room again
    for name, files in opened.items():
        later = os.open(f"{folder}/{name}", os.O_RDWR)
        expect("fsync of a file opened later", error_of(os.fsync, later), None)
        os.close(later)
        wanted = "ENOSPC" if opens else None
        # The first descriptor has already reported the last failure, unless another one followed.
        error_of(os.fsync, files[0])
        expect("fsync after that", error_of(os.fsync, files[0]), None)
        if opens:
            duplicate = os.dup(files[2])
            expect("close of a duplicate", error_of(os.close, duplicate), "ENOSPC")
        for file in files[1:]:
            expect("first fsync", error_of(os.fsync, file), wanted)
            expect("second fsync", error_of(os.fsync, file), None)
        expect("close", [error_of(os.close, file) for file in files], [None] * 3)
    expect("fsync of another file", error_of(os.fsync, bystander), None)


def written(folder):
    for name in ("a", "b"):
        with open(f"{folder}/{name}", "rb") as file:
            if file.read() != data(name):
                sys.exit(f"{name} is not what was written")


def block(number):
    return f"block {number} of a file\n".encode().ljust(BLOCK, bytes([number % 251]))


def make(path):
    with open(path, "wb") as file:
        for number in range(BLOCKS):
            file.write(block(number))
        file.flush()
        os.fsync(file.fileno())


def damage(image):
    """Finds the block. Its offset is a multiple of its size."""
    found = []
    with open(image, "r+b") as file:
        at = 0
        while (at := next_data(file, at)) is not None:
            if os.pread(file.fileno(), BLOCK, at) == block(BAD):
                found.append(at)
            at += BLOCK
        if len(found) != 1:
            sys.exit(f"the block exists {len(found)} times")
        os.pwrite(file.fileno(), b"\xff", found[0] + 2000)


def next_data(file, at):
    try:
        return os.lseek(file.fileno(), at, os.SEEK_DATA) // BLOCK * BLOCK
    except OSError:
        return None  # only a hole follows


def drop(file):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def expect_all_but_one(what, read_one):
    for number in range(BLOCKS):
        error = None
        try:
            found = read_one(number)
        except OSError as raised:
            error = errno.errorcode[raised.errno]
        if number == BAD:
            expect(f"{what}: the damaged block", error, "EIO")
        else:
            expect(f"{what}: block {number}", (error, error or found == block(number)),
                   (None, True))


def read(path):
    file = os.open(path, os.O_RDONLY)
    # Sequentially with the kernel's read-ahead; each block alone; and without the kernel's cache.
    expect_all_but_one("forwards", lambda n: os.pread(file, BLOCK, n * BLOCK))
    drop(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    expect_all_but_one("at random", lambda n: os.pread(file, BLOCK, n * BLOCK))
    drop(file)
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, BLOCK)

    def read_direct(number):
        expect("length", os.preadv(direct, [page], number * BLOCK), BLOCK)
        return page[:]

    expect_all_but_one("O_DIRECT", read_direct)
    # A large read returns the bytes before the damage.
    got = b""
    while len(got) < BAD * BLOCK:
        got += os.pread(file, 1 << 20, len(got))
    expect("a large read", got, b"".join(block(n) for n in range(BAD)))
    expect("after it", error_of(os.pread, file, 1 << 20, BAD * BLOCK), "EIO")
    expect("the size", os.fstat(file).st_size, BLOCKS * BLOCK)
    with mmap.mmap(file, BLOCKS * BLOCK, prot=mmap.PROT_READ) as memory:
        for number in (BAD - 1, BAD + 1):
            expect("mapped", memory[number * BLOCK:(number + 1) * BLOCK], block(number))


if __name__ == "__main__":
    verb, where = sys.argv[1], sys.argv[2]
    if verb == "writers":
        writers(where, sys.argv[3:] == [",opens"])
    else:
        {"written": written, "make": make, "damage": damage, "read": read}[verb](where)
