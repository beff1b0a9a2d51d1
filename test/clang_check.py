#!/usr/bin/env python3
"""Checks src/ and tools/ with clang: lock annotations, and warnings that g++ does not have.

    clang_check.py BUILD_FOLDER    checks every file of compile_commands.json; exit status 1 if
                                   clang says anything, 77 (skipped) where there is no clang
    clang_check.py --self-test     breaks the locking of a small file and expects to hear of it

g++ expands GUARDED_BY and its kin to nothing, so only clang can check them. Only the syntax is
checked: no code is generated.
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
WARNINGS = ["-Wall", "-Wextra", "-Wthread-safety", "-Wthread-safety-beta", "-Werror",
            "-Wno-missing-field-initializers", "-Wno-unknown-warning-option"]
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


def check_all(clang, build):
    root = pathlib.Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {}
    for entry in commands:
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if file.is_relative_to(root / "src") or file.is_relative_to(root / "tools"):
            files[file] = (flags_of(entry["command"]), entry["directory"])
    failed = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        header = precompile(clang, root, folder)
        jobs = [pool.submit(run, file, clang,
                            ["-fsyntax-only", "-pthread", "-include-pch", header, *WARNINGS,
                             *flags, file], where)
                for file, (flags, where) in sorted(files.items()) if file.suffix == ".cc"]
        for job in jobs:
            name, status, text = job.result()
            if status != 0:
                failed += 1
                print(f"{name.relative_to(root)}:\n{text}")
    print(f"{len(jobs)} files checked with {clang}, {failed} with findings")
    return 1 if failed or not jobs else 0


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
