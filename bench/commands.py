"""Runs the commands of a measurement, and prepares the disk under it."""
import contextlib
import json
import os
import pathlib
import subprocess


class Failed(Exception):
    """A command failed, or the measurement makes no sense. The message says which, and why."""


def run(*command, **options):
    """Returns the command's output without the line end. Raises Failed with its message."""
    words = [str(word) for word in command]
    done = subprocess.run(words, text=True, capture_output=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout.strip()


def drop_caches():
    """Empties the kernel's caches, after it has written everything."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def attach(image):
    """Returns a loop device with direct I/O over the file. The caller detaches it."""
    device = run("losetup", "--find", "--show", "--direct-io=on", image)
    run("blockdev", "--setrw", device)  # the previous user may have left it read-only
    return device


@contextlib.contextmanager
def loop_device(image):
    device = attach(image)
    try:
        yield device
    finally:
        run("losetup", "-d", device)


def stats_of(programs, mnt):
    """The counters of a mounted lazyfs. `programs`: the folder of its programs."""
    return json.loads(run(programs / "lazyfsctl", "stats", "--json", mnt))
