#!/usr/bin/env python3
"""Undoes the writes of a killed daemon since the last flush.

    unflushed.py drop DEVICE JOURNAL          all of them
    unflushed.py drop DEVICE JOURNAL SEED     a random selection of their sectors
    unflushed.py self-test

test/system/unflushed.cc writes and describes JOURNAL. A disk writes a sector as a whole or not at
all. A sector with several writes may have the contents of any of them.
"""
import os
import random
import struct
import sys
import tempfile

HEADER = struct.Struct("=4Q")
WRITE, WRITTEN, FLUSH, FLUSHED = range(4)
SECTOR = 512


def uncovered(journal):
    """Returns [(offset, old contents)] of the writes that no flush covers, in their order."""
    writes, ended, flushes = {}, set(), {}
    place = 0
    while place + HEADER.size <= len(journal):
        kind, number, at, length = HEADER.unpack_from(journal, place)
        place += HEADER.size
        if kind == WRITE:
            if place + length > len(journal):
                break  # the daemon was killed while it recorded a write to come
            writes[number] = (at, journal[place:place + length])
            place += length
        elif kind == WRITTEN:
            ended.add(number)
        elif kind == FLUSH:
            flushes[number] = set(ended)
        elif kind == FLUSHED:
            # A flush that began before the journal was emptied covers no write of it.
            for covered in flushes.pop(number, ()):
                writes.pop(covered, None)
                ended.discard(covered)
        else:
            raise ValueError(f"a record of kind {kind} at {place - HEADER.size}")
    return list(writes.values())


def versions_by_sector(writes):
    """Returns {offset: [earlier contents, oldest first]}."""
    versions = {}
    for at, old in writes:
        for offset in range(0, len(old), SECTOR):
            versions.setdefault(at + offset, []).append(old[offset:offset + SECTOR])
    return versions


def chosen(versions, lots):
    """Returns [(offset, contents)] to write back."""
    if lots is None:
        return [(at, olds[0]) for at, olds in versions.items()]
    share = lots.choice([0.05, 0.5, 0.95])  # of what is lost: little, half, nearly all
    return [(at, lots.choice(olds)) for at, olds in sorted(versions.items())
            if lots.random() < share]


def drop(device, journal_path, lots):
    """Returns a description of what it has undone."""
    with open(journal_path, "rb") as journal:
        writes = uncovered(journal.read())
    versions = versions_by_sector(writes)
    dropped = chosen(versions, lots)
    file = os.open(device, os.O_RDWR)
    try:
        for at, old in dropped:
            os.pwrite(file, old, at)
        os.fsync(file)
    finally:
        os.close(file)
    return (f"{len(writes)} writes ({len(versions) * SECTOR // 1024} KiB) were not flushed,"
            f" {len(dropped) * SECTOR // 1024} KiB of them are lost")


def self_test():
    def record(kind, number, at=0, old=b""):
        return HEADER.pack(kind, number, at, len(old)) + old

    first, second, third = b"a" * 1024, b"b" * 512, b"c" * 512
    write = [record(WRITE, 1, 0, first), record(WRITE, 2, 512, second), record(WRITE, 3, 0, third)]
    cases = {
        "a write that has not ended": (write[0], [(0, first)]),
        "one that has": (write[0] + record(WRITTEN, 1), [(0, first)]),
        "one that a flush covers":
            (write[0] + record(WRITTEN, 1) + record(FLUSH, 2) + record(FLUSHED, 2), []),
        "a flush that did not end":
            (write[0] + record(WRITTEN, 1) + record(FLUSH, 2), [(0, first)]),
        "one that ended while a flush ran":
            (write[0] + record(FLUSH, 2) + record(WRITTEN, 1) + record(FLUSHED, 2), [(0, first)]),
        "one of two":
            (write[0] + record(WRITTEN, 1) + write[1] + record(FLUSH, 4) + record(WRITTEN, 2) +
             record(FLUSHED, 4), [(512, second)]),
        "a flush of before the journal was emptied":
            (write[0] + record(WRITTEN, 1) + record(FLUSHED, 9), [(0, first)]),
        "a torn end": (write[0] + write[1][:-1], [(0, first)]),
        "a torn header": (write[0] + write[1][:9], [(0, first)]),
    }
    wrong = [f"{name}: {uncovered(journal)}" for name, (journal, expected) in cases.items()
             if uncovered(journal) != expected]
    with tempfile.TemporaryDirectory() as folder:
        device, journal_path = os.path.join(folder, "device"), os.path.join(folder, "journal")
        with open(journal_path, "wb") as journal:
            journal.write(b"".join(write))
        for lots, allowed in ((None, [first]), *((random.Random(seed), None)
                                                 for seed in range(20))):
            with open(device, "wb") as file:
                file.write(b"x" * 2048)
            drop(device, journal_path, lots)
            with open(device, "rb") as file:
                found = file.read()
            sectors = [found[at:at + SECTOR] for at in range(0, 2048, SECTOR)]
            of = [{b"a" * 512, b"c" * 512, b"x" * 512}, {b"a" * 512, b"b" * 512, b"x" * 512},
                  {b"x" * 512}, {b"x" * 512}]
            if any(s not in o for s, o in zip(sectors, of)) or len(found) != 2048:
                wrong.append(f"dropped by lot: {found}")
            if allowed and found[:1024] not in allowed:
                wrong.append(f"dropped: {found}")
    print("\n".join(wrong) or f"{len(cases)} journals are read as they must be")
    return bool(wrong)


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "drop":
        lots = random.Random(int(arguments[3])) if len(arguments) == 4 else None
        return print(drop(arguments[1], arguments[2], lots))
    if arguments == ["self-test"]:
        return self_test()
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
