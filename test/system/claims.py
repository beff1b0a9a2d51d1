#!/usr/bin/env python3
"""Checks that a command writes to a device only while no other program can claim the device.

    claims.py DEVICE COMMAND...    runs the command under strace, which stops it whenever it has
                                   opened the device for writing, or made writes durable

Exit status: that of the command; 99 if the device was free for others, 98 if there was no stop.
"""
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

FREE, NEVER_STOPPED = 99, 98


def is_claimed(device):
    is_block_device = stat.S_ISBLK(os.stat(device).st_mode)
    try:
        file = os.open(device, os.O_RDONLY | (os.O_EXCL if is_block_device else 0))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return True
    try:
        if not is_block_device:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)


def traced(device, command, trace):
    # LeakSanitizer cannot trace a program that strace traces.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    calls = "openat,fdatasync"
    return subprocess.Popen(["strace", "-o", trace, "-P", device, "-e", f"trace={calls}",
                             "-e", f"inject={calls}:signal=SIGSTOP", *command],
                            env={**os.environ, "ASAN_OPTIONS": options})


def child_of(process):
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def stops_in(trace):
    """The call before each stop."""
    calls, stops = [], []
    with open(trace, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("--- stopped by SIGSTOP"):
                stops.append(calls[-1])
            elif not line.startswith("---"):
                calls.append(line.strip())
    return stops


def run(device, command, trace):
    tracer = traced(device, command, trace)
    seen, writes, free = 0, 0, []
    while tracer.poll() is None:
        stops = stops_in(trace)
        if len(stops) == seen:
            time.sleep(0.001)
            continue
        seen = len(stops)
        if "O_RDWR" in stops[-1] or stops[-1].startswith("fdatasync"):
            writes += 1
            if not is_claimed(device):
                free.append(stops[-1])
        os.kill(child_of(tracer.pid), signal.SIGCONT)
    if free:
        print(f"{command[0]}: the device is free for others at: {free[0]}", file=sys.stderr)
        return FREE
    return tracer.returncode if writes > 0 else NEVER_STOPPED


with tempfile.NamedTemporaryFile() as log:
    sys.exit(run(sys.argv[1], sys.argv[2:], log.name))
