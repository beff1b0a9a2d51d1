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
    # a switch over all values needs no default, and one with a default need not name all
    "covered-switch-default", "switch-default", "switch-enum",
    # REQUIRES(!mu): EXCLUDES(mu) says the same where it matters
    "thread-safety-negative",
    # those of newer or older versions of clang
    "unknown-warning-option"]
WARNINGS = ["-Weverything", "-Werror", *(f"-Wno-{name}" for name in IGNORED)]
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


def run(name, clang, arguments, folder):
    done = subprocess.run([clang, *arguments], cwd=folder, capture_output=True, text=True)
    return name, done.returncode, done.stdout + done.stderr


def precompile(clang, root, folder):
    """The header that every file of the build gets, for clang. Definitions do not matter to it."""
    to = pathlib.Path(folder) / "precompiled.pch"
    subprocess.run([clang, "-std=c++23", "-pthread", "-x", "c++-header",
                    root / "src/base/precompiled.h", "-o", to], check=True)
    return to


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


def check_all(clang, build):
    root = pathlib.Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {}
    for entry in commands:
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        ours = file.is_relative_to(root / "src") or file.is_relative_to(root / "tools")
        if ours and file.suffix == ".cc":
            files[file] = (flags_of(entry["command"]), entry["directory"])
    records = build / "clang_check"
    records.mkdir(exist_ok=True)
    due = {}
    for file in sorted(files):
        record = records / (str(file.relative_to(root)).replace("/", "-") + ".d")
        if not is_current(record):
            due[file] = record
    failed = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        header = precompile(clang, root, folder) if due else None
        jobs = [pool.submit(check, clang, header, file, *files[file], record)
                for file, record in due.items()]
        for job in jobs:
            name, status, text = job.result()
            if status != 0:
                failed += 1
                print(f"{name.relative_to(root)}:\n{text}")
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
