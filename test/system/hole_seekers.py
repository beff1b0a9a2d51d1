#!/usr/bin/env python3
"""Makes the daemon notify the kernel of dirty pages all the time.
hole_seekers.py FOLDER NUMBER: so many processes write a file each and seek holes in it, until a
call fails."""
import os
import sys

FILE_BYTES = 64 << 20
STEP = 1 << 20


def work(path):
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    data = os.urandom(STEP)
    try:
        while True:
            os.ftruncate(fd, 0)
            for at in range(0, FILE_BYTES, STEP):
                os.pwrite(fd, data, at)
                os.lseek(fd, 0, os.SEEK_HOLE)
    except OSError:
        pass


for number in range(int(sys.argv[2])):
    if os.fork() == 0:
        work(os.path.join(sys.argv[1], f"file-{number}"))
        os._exit(0)
for _ in range(int(sys.argv[2])):
    os.wait()
