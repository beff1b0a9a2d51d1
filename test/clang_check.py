#!/usr/bin/env python3
"""Checks src/ and tools/ with clang: lock annotations, and warnings that g++ does not have.

    clang_check.py BUILD_FOLDER    checks every file of compile_commands.json; exit status 1 if
                                   clang says anything, 77 (skipped) where there is no clang
    clang_check.py --self-test     breaks the locking of a small file and expects to hear of it

g++ expands GUARDED_BY and its kin to nothing, so only clang can check them. Only the syntax is
checked: no code is generated. A file is checked again when it, a header that it includes, or
this script is newer than the last check that found nothing (BUILD_FOLDER/clang_check).
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

COMPILERS = ("clang++-19", "clang++-16", "clang++")
# All warnings of clang but for:
IGNORED = [
    # older standards
    "c++98-compat", "c++98-compat-pedantic", "pre-c++14-compat", "pre-c++17-compat",
    "pre-c++20-compat-pedantic", "pre-c++23-compat", "c++20-compat",
    # what this code does on purpose
    "padded", "exit-time-destructors", "global-constructors", "unsafe-buffer-usage",
    "ctad-maybe-unsupported", "missing-field-initializers", "missing-designated-field-initializers",
    "weak-vtables", "float-equal", "format-nonliteral", "comma",
    # sa_handler of glibc is a macro
    "disabled-macro-expansion",
    # a switch over all values needs no default, and one with a default need not name all
    "covered-switch-default", "switch-default", "switch-enum",
    # REQUIRES(!mu): EXCLUDES(mu) says the same where it matters
    "thread-safety-negative",
    # those of newer or older versions of clang
    "unknown-warning-option"]
WARNINGS = ["-Weverything", "-Werror", *(f"-Wno-{name}" for name in IGNORED)]
HEADERS = 8  # precompiled
SKIPPED = 77
# Breaks the lock's discipline: a guarded member is read without the lock.
BROKEN = """
#include "base/mutex.h"
struct Counter {
  int get() { return value_; }
  lazyfs::Mutex mu_;
  int value_ GUARDED_BY(mu_) = 0;
};
int main() { return Counter().get(); }
"""


def compiler():
    return next((name for name in COMPILERS if shutil.which(name)), None)


def flags_of(command):
    """The definitions, include folders and language of a compile command."""
    words = iter(shlex.split(command))
    flags = []
    for word in words:
        if word.startswith(("-D", "-I", "-std=")):
            flags.append(word)
        elif word == "-isystem":
            flags += [word, next(words)]
    return flags


def sources_of(entry):
    """The source files that an entry of compile_commands.json compiles: of a batch (CMake's "unity
    build") those that it includes."""
    file = pathlib.Path(entry["directory"], entry["file"]).resolve()
    if file.parent.name != "Unity":
        return [file]
    return [pathlib.Path(name) for name in re.findall(r'^#include "(.+)"$', file.read_text(), re.M)]


def run(name, clang, arguments, folder):
    done = subprocess.run([clang, *arguments], cwd=folder, capture_output=True, text=True)
    return name, done.returncode, done.stdout + done.stderr


class Closures:
    """The headers of this project that a file includes, directly or not."""

    def __init__(self, root):
        self.folders = (root / "src", root)
        self.known = {}

    def of(self, file):
        if file not in self.known:
            self.known[file] = frozenset()  # ends a cycle
            names = re.findall(r'^#include "(.+)"$', file.read_text(), re.M)
            paths = [next((at / name for at in self.folders if (at / name).exists()), None)
                     for name in names]
            found = {path for path in paths if path}
            self.known[file] = frozenset(found).union(*(self.of(path) for path in found))
        return self.known[file]


def choose_headers(files, closures):
    """For each file the header to precompile for it, or None: one that the file includes anyway,
    so that a missing #include is found nevertheless. At most HEADERS headers in all."""
    def weight(headers):
        return sum(header.stat().st_size for header in headers)

    needs = {file: closures.of(file) for file in files}
    offers = {header: (closures.of(header) | {header}) for header in set().union(*needs.values())}
    weights = {header: weight(offer) for header, offer in offers.items()}
    chosen = dict.fromkeys(files)
    for _ in range(HEADERS):
        gains = {header: sum(max(0, weights[header] - weights.get(chosen[file], 0))
                             for file in files if header in needs[file]) - 2 * weights[header]
                 for header in sorted(offers)}
        best = max(gains, key=gains.get, default=None)
        if best is None or gains[best] <= 0:
            break
        for file in files:
            if best in needs[file] and weights[best] > weights.get(chosen[file], 0):
                chosen[file] = best
    return chosen


def wrapper_of(root, header, folder):
    """A header that includes the one that every file of the build gets, and `header`. It stays,
    unchanged, because the record of each file that was checked with it names it."""
    text = f'#include "{root / "src/base/precompiled.h"}"\n'
    if header:
        text += f'#include "{header}"\n'
    wrapper = folder / (name_of(header or root / "none", root) + ".wrapper.h")
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.write_text(text)
    return wrapper


def precompile(clang, wrapper, flags, to):
    includes = [flag for flag in flags if not flag.startswith("-D")]
    return run(wrapper, clang, ["-std=c++23", "-pthread", "-fpch-instantiate-templates", *WARNINGS,
                                *includes, "-x", "c++-header", wrapper, "-o", to], to.parent)


def name_of(file, root):
    return str(file.relative_to(root)).replace("/", "-")


def is_current(record):
    """Whether `record`, the list of files that a check read, is newer than all of them."""
    if not record.exists():
        return False
    checked = record.stat().st_mtime
    names = [__file__, *record.read_text().replace("\\\n", " ").split(":", 1)[1].split()]
    try:
        return all(os.stat(name).st_mtime < checked for name in names)
    except FileNotFoundError:
        return False


def check(clang, header, file, flags, where, record):
    fresh = record.with_suffix(".new")
    outcome = run(file, clang, ["-fsyntax-only", "-pthread", "-include-pch", header, "-MD", "-MF",
                                fresh, *WARNINGS, *flags, file], where)
    if outcome[1] == 0:
        fresh.rename(record)
    return outcome


def outcomes(clang, root, files, due):
    """Of each precompiled header, and of each file that is due."""
    headers = choose_headers(sorted(due), Closures(root))
    users = {header: file for file, header in headers.items()}
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = {header: pathlib.Path(folder) / f"{number}.pch"
                    for number, header in enumerate(users)}
        wrappers = {header: wrapper_of(root, header, due[file].parent)
                    for header, file in users.items()}
        yield from pool.map(lambda header: precompile(clang, wrappers[header],
                                                      files[users[header]][0],
                                                      compiled[header]), users)
        yield from pool.map(lambda file: check(clang, compiled[headers[file]], file,
                                               *files[file], due[file]), due)


def check_all(clang, build):
    root = pathlib.Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {}
    for entry in commands:
        for file in sources_of(entry):
            ours = file.is_relative_to(root / "src") or file.is_relative_to(root / "tools")
            if ours and file.suffix == ".cc":
                files[file] = (flags_of(entry["command"]), entry["directory"])
    records = build / "clang_check"
    records.mkdir(exist_ok=True)
    due = {}
    for file in sorted(files):
        record = records / (name_of(file, root) + ".d")
        if not is_current(record):
            due[file] = record
    failed = 0
    for name, status, text in outcomes(clang, root, files, due):
        if status != 0:
            failed += 1
            print(f"{name}:\n{text}")
    print(f"{len(files)} files, {len(due)} checked now with {clang}, {failed} with findings")
    return 1 if failed or not files else 0


def self_test(clang):
    root = pathlib.Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "broken.cc"
        path.write_text(BROKEN)
        _, status, text = run(path, clang, ["-fsyntax-only", "-std=c++23", f"-I{root / 'src'}",
                                            *WARNINGS, path], folder)
    if status == 0 or "thread-safety" not in text:
        print(f"a guarded member was read without its lock, and clang said: {text or 'nothing'}")
        return 1
    print("clang reports a guarded member that is read without its lock")
    return 0


def main(arguments):
    if len(arguments) != 1:
        print(__doc__)
        return 2
    clang = compiler()
    if not clang:
        print(f"skipped: none of {', '.join(COMPILERS)} is installed (./packages.sh test)")
        return SKIPPED
    if arguments == ["--self-test"]:
        return self_test(clang)
    return check_all(clang, pathlib.Path(arguments[0]).resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
