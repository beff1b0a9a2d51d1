#!/usr/bin/env python3
"""File handles, as an NFS server keeps them.

    handles.py take FOLDER FILE    makes files below FOLDER and writes their handles to FILE
    handles.py use FOLDER FILE     opens the files by handle; the handle of a removed file is stale
"""
import errno
import os
import pickle
import sys

from beyond_posix import FileHandle, handle_of, open_handle

NAMES = ["handles", "handles/file", "handles/moved", "handles/removed"]


def take(folder, record):
    os.makedirs(f"{folder}/handles/deeper")
    for name in NAMES[1:]:
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(name)
    handles = {name: handle_of(f"{folder}/{name}") for name in NAMES}
    os.rename(f"{folder}/handles/moved", f"{folder}/handles/deeper/elsewhere")
    os.unlink(f"{folder}/handles/removed")
    with open(record, "wb") as file:
        pickle.dump({name: bytes(handle) for name, handle in handles.items()}, file)


def use(folder, record):
    with open(record, "rb") as file:
        handles = pickle.load(file)
    mount = os.open(folder, os.O_RDONLY)
    for name, handle in handles.items():
        try:
            opened = open_handle(mount, FileHandle.from_buffer_copy(handle))
        except OSError as error:
            if name != "handles/removed" or error.errno != errno.ESTALE:
                sys.exit(f"{name}: {error.strerror}")
            continue
        if name == "handles/removed":
            sys.exit("a removed file can be opened")
        if name == "handles":
            found = sorted(os.listdir(opened))
            if found != ["deeper", "file"]:
                sys.exit(f"{name}: holds {found}")
        elif os.read(opened, 100).decode() != name:
            sys.exit(f"{name}: another file")


if __name__ == "__main__":
    {"take": take, "use": use}[sys.argv[1]](*sys.argv[2:])
