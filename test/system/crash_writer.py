#!/usr/bin/env python3
"""Random operations whose result can be verified after a crash.

    crash_writer.py write FOLDER JOURNAL SEED    works in FOLDER until the filesystem fails
    crash_writer.py verify FOLDER JOURNAL        verifies FOLDER; exit status 1 on a difference
    crash_writer.py self-test                    damages a folder in several ways and must notice

The writer derives operations from SEED. It appends each to JOURNAL, a file outside of the
filesystem, before the call (`["write", number, ...]`) and after the call returns (`[number]`). The
seed and the operation's number determine the written bytes, so JOURNAL has no contents.

The allowed states. Let D be the moment at which the last completed fsync or fsyncdir began:
  names     the names at D, changed by a prefix of the later changes of names
  contents  of each file: each block is as at the file's last fsync, or as one of the later changes
            left it. Past the fsynced end a block may also be zero. The size is between the minimum
            and the maximum since that fsync
An operation that never returned may have happened or not.
"""
import copy
import errno as errors
import json
import os
import random
import shutil
import sys
import tempfile

BLOCK = 4096
FILES_MAX = 60
FILE_BYTES_MAX = 1 << 20
REPORTED_MAX = 20
OF_A_DEAD_MOUNT = {errors.ENOTCONN, errors.ECONNABORTED, errors.ECANCELED, errors.EIO, errors.EBADF}


def contents(seed, number, length):
    return random.Random(f"{seed}/{number}").randbytes(length)


# ---- What a folder holds -------------------------------------------------------------------------

class Folder:
    """The model: names, and for each file the contents that a crash may leave."""

    def __init__(self, seed):
        self.seed = seed
        self.names = {}    # path -> ("file", id) | ("dir",) | ("symlink", target)
        self.images = {}   # id -> [bytes]: as of the last fsync (or empty), then after each change
        self.states = [{}]   # of names: the durable one, then after each change since

    # Each operation changes the model as the kernel changes the folder.
    def apply(self, number, kind, *arguments):
        getattr(self, "do_" + kind)(number, *arguments)
        if kind in NAME_CHANGES:
            self.states.append(dict(self.names))

    def durable(self, image=None):
        self.states = [dict(self.names)]
        if image is not None:
            self.images[image] = self.images[image][-1:]

    def image_of(self, path):
        return self.names[path][1]

    def change(self, path, data):
        self.images[self.image_of(path)].append(data)

    def do_create(self, number, path):
        self.names[path] = ("file", number)
        self.images[number] = [b""]

    def do_write(self, number, path, offset, length):
        old = self.images[self.image_of(path)][-1]
        data = contents(self.seed, number, length)
        old = old.ljust(offset, b"\0")
        self.change(path, old[:offset] + data + old[offset + length:])

    def do_truncate(self, _, path, size):
        self.change(path, self.images[self.image_of(path)][-1][:size].ljust(size, b"\0"))

    def do_fsync(self, _, path):
        self.durable(self.image_of(path))

    def do_fsyncdir(self, _, path):
        self.durable()

    def do_mkdir(self, _, path):
        self.names[path] = ("dir",)

    def do_rmdir(self, _, path):
        del self.names[path]

    def do_unlink(self, _, path):
        del self.names[path]

    def do_rename(self, _, path, to):
        self.names[to] = self.names.pop(path)

    def do_link(self, _, path, to):
        self.names[to] = self.names[path]

    def do_symlink(self, _, path, target):
        self.names[path] = ("symlink", target)


NAME_CHANGES = {"create", "mkdir", "rmdir", "unlink", "rename", "link", "symlink"}


# ---- Writing -------------------------------------------------------------------------------------

def perform(root, seed, number, kind, path, *rest):
    """The same operations on a real folder."""
    full = os.path.join(root, path)
    if kind == "create":
        os.close(os.open(full, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    elif kind == "write":
        offset, length = rest
        with open(full, "r+b", buffering=0) as file:
            file.seek(offset)
            data = contents(seed, number, length)
            while data:
                data = data[file.write(data):]
    elif kind == "truncate":
        os.truncate(full, rest[0])
    elif kind in ("fsync", "fsyncdir"):
        file = os.open(full, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    elif kind == "rename":
        os.rename(full, os.path.join(root, rest[0]))
    elif kind == "link":
        os.link(full, os.path.join(root, rest[0]))
    elif kind == "symlink":
        os.symlink(rest[0], full)
    else:
        getattr(os, kind)(full)


def draw(lots, model, number):
    """Returns the next operation: (kind, path, ...)."""
    folders = [""] + [path for path, what in model.names.items() if what[0] == "dir"]
    files = [path for path, what in model.names.items() if what[0] == "file"]
    new = os.path.join(lots.choice(folders), f"{number:06}")
    if not files:
        return "create", new
    path = lots.choice(files)
    size = len(model.images[model.image_of(path)][-1])
    length = lots.choice([lots.randint(1, 300), BLOCK, lots.randint(1, 1 << 16), 1 << 17])
    everything = list(model.names)
    choices = [
        (12 if len(files) < FILES_MAX else 0, lambda: ("create", new)),
        (14, lambda: ("write", path, min(size, FILE_BYTES_MAX - length), length)),  # append
        (10, lambda: ("write", path, lots.randint(0, size), length)),
        (3, lambda: ("write", path, min(size + lots.randint(0, 1 << 15),
                                        FILE_BYTES_MAX - length), length)),  # leaves a hole
        (4, lambda: ("truncate", path, lots.randint(0, size))),
        (14, lambda: ("fsync", path)),
        (5, lambda: ("fsyncdir", lots.choice(folders))),
        (6, lambda: ("rename", path, lots.choice([new, lots.choice(files)]))),
        (3, lambda: ("link", path, new)),
        (2, lambda: ("symlink", new, "to/" + new)),
        (6 if len(files) < FILES_MAX else 30, lambda: ("unlink", path)),
        (3 if len(folders) < 12 else 0, lambda: ("mkdir", new)),
        (2, lambda: ("rmdir", lots.choice(folders[1:] or [""]))),
    ]
    while True:
        operation = lots.choices([c[1] for c in choices], [c[0] for c in choices])[0]()
        kind, target = operation[:2]
        if kind == "rmdir" and (not target or any(p.startswith(target + "/") for p in everything)):
            continue
        # Renaming one link of a file onto another one does nothing, in any filesystem.
        if kind == "rename" and model.names.get(operation[2]) == model.names[target]:
            continue
        return operation


def write(root, journal_path, seed):
    lots = random.Random(seed)
    model = Folder(seed)
    with open(journal_path, "ab", buffering=0) as journal:
        journal.write(json.dumps(["seed", seed]).encode() + b"\n")
        number = 0
        try:
            os.makedirs(root)
        except OSError as error:  # killed before it began
            journal.write(json.dumps(["failed", number, error.errno]).encode() + b"\n")
            return
        while True:
            number += 1
            operation = draw(lots, model, number)
            journal.write(json.dumps([operation[0], number, *operation[1:]]).encode() + b"\n")
            try:
                perform(root, seed, number, *operation)
            except OSError as error:
                # These are the errors of a dead filesystem. Any other error is a fault of lazyfs.
                journal.write(json.dumps(["failed", number, error.errno]).encode() + b"\n")
                return
            journal.write(b"[%d]\n" % number)
            model.apply(number, *operation)


# ---- Verifying -----------------------------------------------------------------------------------

def read_journal(path):
    """Returns (seed, completed operations, the pending operation or None, errno or None)."""
    seed, done, pending, errno = None, [], None, None
    with open(path, "rb") as journal:
        for line in journal:
            record = json.loads(line)
            if record[0] == "seed":
                seed = record[1]
            elif record[0] == "failed":
                errno = record[2]
            elif len(record) == 1:
                done.append(pending)
                pending = None
            else:
                pending = record
    return seed, done, pending, errno


def listing(root):
    names = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            if os.path.islink(full):
                names[path] = ("symlink", os.readlink(full))
            else:
                names[path] = ("dir",) if os.path.isdir(full) else ("file",)
    return names


def block_of(image, index, length):
    return image[index * BLOCK:index * BLOCK + length].ljust(length, b"\0")


def wrong_contents(images, found):
    """Returns the problem of a file's contents, or None."""
    sizes = [len(image) for image in images]
    if not min(sizes) <= len(found) <= max(sizes):
        return f"{len(found)} bytes, not between {min(sizes)} and {max(sizes)}"
    for index in range((len(found) + BLOCK - 1) // BLOCK):
        block = found[index * BLOCK:(index + 1) * BLOCK]
        if any(block == block_of(image, index, len(block)) for image in images):
            continue
        # A truncation may be durable while an earlier write is not.
        if any(block == block_of(image[:size], index, len(block))
               for size in sizes for image in images):
            continue
        # Past the fsynced end of the file, zeros mean that a write is not durable.
        kept = max(0, min(len(block), sizes[0] - index * BLOCK))
        if block[:kept] == block_of(images[0], index, kept) and not any(block[kept:]):
            continue
        return f"block {index} has contents that were never written to it"
    return None


def wrong_state(model, names, root, found):
    """Returns the differences from this state of names."""
    kinds = {path: what if what[0] == "symlink" else what[:1] for path, what in names.items()}
    wrong = [f"{path}: is missing" for path in sorted(kinds.keys() - found.keys())]
    wrong += [f"{path}: must not exist" for path in sorted(found.keys() - kinds.keys())]
    for path in sorted(kinds.keys() & found.keys()):
        if kinds[path] != found[path]:
            wrong.append(f"{path}: is {found[path]}, not {kinds[path]}")
        elif names[path][0] == "file":
            image = names[path][1]
            full = os.path.join(root, path)
            with open(full, "rb") as file:
                data = file.read()
            if what := wrong_contents(model.images[image], data):
                wrong.append(f"{path}: {what}")
            links = sum(other == names[path] for other in names.values())
            if os.stat(full).st_nlink != links:
                wrong.append(f"{path}: {os.stat(full).st_nlink} links, not {links}")
    return wrong


def verify_folder(root, journal_path):
    """Returns the problems of the folder; empty if there are none."""
    seed, done, pending, errno = read_journal(journal_path)
    if errno is not None and errno not in OF_A_DEAD_MOUNT:
        return [f"the writer's operation {pending} failed: {os.strerror(errno)}"], None
    model = Folder(seed)
    for kind, number, *arguments in done:
        model.apply(number, kind, *arguments)
    if pending:
        late = copy.deepcopy(model)
        kind, number, *arguments = pending
        if kind not in ("fsync", "fsyncdir"):
            late.apply(number, kind, *arguments)
        model = late
    found = listing(root) if os.path.isdir(root) else {}
    best = None
    for names in model.states:
        wrong = wrong_state(model, names, root, found)
        if best is None or len(wrong) < len(best):
            best = wrong
        if not wrong:
            break
    return best, (len(done), sum(k[0].startswith("fsync") for k in done), len(found))


def verify(root, journal_path):
    wrong, figures = verify_folder(root, journal_path)
    for line in wrong[:REPORTED_MAX]:
        print(f"{root}: {line}")
    if wrong:
        print(f"{root}: {len(wrong)} differences; the journal is {journal_path}")
    else:
        print(f"{figures[0]} operations, {figures[1]} fsyncs: {figures[2]} names are correct")
    return bool(wrong)


# ---- Self-test -----------------------------------------------------------------------------------

def self_test():
    folder = tempfile.mkdtemp()
    root, journal_path = os.path.join(folder, "root"), os.path.join(folder, "journal")
    os.makedirs(root)
    seed, model, lots = 7, Folder(7), random.Random(7)
    with open(journal_path, "w") as journal:
        journal.write(json.dumps(["seed", seed]) + "\n")
        for number in range(1, 400):
            operation = draw(lots, model, number)
            perform(root, seed, number, *operation)
            model.apply(number, *operation)
            journal.write(json.dumps([operation[0], number, *operation[1:]]) + f"\n[{number}]\n")
        # The last operation makes everything durable, so that any difference is a loss.
        number = 400
        for path in [p for p, what in model.names.items() if what[0] == "file"] + [""]:
            kind = "fsync" if path else "fsyncdir"
            model.apply(number, kind, path)
            journal.write(json.dumps([kind, number, path]) + f"\n[{number}]\n")
            number += 1
    files = [p for p, what in model.names.items()
             if what[0] == "file" and len(model.images[what[1]][-1]) > 2 * BLOCK]
    victim = os.path.join(root, files[0])
    wrong = []
    if verify_folder(root, journal_path)[0]:
        wrong.append(f"an intact folder has differences: {verify_folder(root, journal_path)[0]}")

    def flip():
        with open(victim, "r+b") as file:
            file.seek(BLOCK + 17)
            byte = file.read(1)
            file.seek(BLOCK + 17)
            file.write(bytes([byte[0] ^ 4]))

    damages = {
        "a file is lost": lambda: os.unlink(victim),
        "a bit is flipped": flip,
        "a file is cut": lambda: os.truncate(victim, BLOCK),
        "a file is too long": lambda: os.truncate(victim, os.path.getsize(victim) + 1),
        "a deleted file is back": lambda: open(os.path.join(root, "x"), "w").close(),
        "a name is another file's": lambda: shutil.copy(
            os.path.join(root, files[1]), victim),
    }
    pristine = os.path.join(folder, "pristine")
    shutil.copytree(root, pristine, symlinks=True)
    for name, damage in damages.items():
        shutil.rmtree(root)
        shutil.copytree(pristine, root, symlinks=True)
        for path, what in model.names.items():  # hard links, which copytree does not keep
            others = [p for p, w in model.names.items() if w == what and p < path]
            if what[0] == "file" and others:
                os.unlink(os.path.join(root, path))
                os.link(os.path.join(root, others[0]), os.path.join(root, path))
        if verify_folder(root, journal_path)[0]:
            wrong.append(f"a copy has differences: {verify_folder(root, journal_path)[0]}")
        damage()
        if not verify_folder(root, journal_path)[0]:
            wrong.append(f"the check did not notice that {name}")
    shutil.rmtree(folder)
    print("\n".join(wrong) or f"{len(damages)} damages are noticed")
    return bool(wrong)


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "write":
        return write(arguments[1], arguments[2], int(arguments[3]))
    if len(arguments) == 3 and arguments[0] == "verify":
        return verify(arguments[1], arguments[2])
    if arguments == ["self-test"]:
        return self_test()
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
