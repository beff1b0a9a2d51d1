"""Programs that are only tried on lazyfs: each is fetched once, into ~/.cache/lazyfs-PROGRAM or the
folder that PROGRAM_CACHE names. Ends the program with a message when one cannot be had."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent


def cache_of(program):
    folder = os.environ.get(f"{program.upper()}_CACHE")
    return pathlib.Path(folder) if folder else pathlib.Path.home() / f".cache/lazyfs-{program}"


def run(log, *command, **options):
    """Runs a command whose output goes to the file `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as output:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              stdout=output, stderr=output, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed, see {log}")


def jars(program):
    """The folder of the jars that test/system/PROGRAM/pom.xml names. Its name has the checksum of
    the list."""
    pom, cache = TOP / f"test/system/{program}/pom.xml", cache_of(program)
    folder = cache / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    if folder.is_dir():
        return folder
    print(f"fetching jars into {folder}", flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch.", dir=cache) as work:
        lib = pathlib.Path(work, "lib")
        run(cache / "mvn.log", "mvn", "-B", "-f", pom, "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={lib}")
        lib.rename(folder)
    return folder


def spark(version):
    """The interpreter of a virtual environment that has Spark, from PyPI."""
    cache = cache_of("spark")
    folder = cache / version
    python = folder / "bin/python"
    if not (folder / "complete").exists():
        print(f"fetching Spark {version} into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        run(cache / "venv.log", "/usr/bin/python3", "-m", "venv", folder)
        run(cache / "pip.log", python, "-m", "pip", "install", f"pyspark=={version}", "setuptools")
        (folder / "complete").touch()
    return python


def minio(version):
    """The server's program, built by Go."""
    cache = cache_of("minio")
    program = cache / version / "minio"
    if not program.exists():
        print(f"building MinIO {version} into {program.parent}", flush=True)
        run(cache / "go.log", "go", "install", f"github.com/minio/minio@{version}",
            env={**os.environ, "GOBIN": str(program.parent)})
    return program


def inferno(version):
    """The folder of the programs that draw flame graphs, built by Cargo."""
    cache = cache_of("inferno")
    folder = cache / version
    if not (folder / "bin/inferno-flamegraph").exists():
        print(f"building inferno {version} into {folder}", flush=True)
        run(cache / "cargo.log", "cargo", "install", "--locked", "--root", folder, "--version",
            version, "inferno")
    return folder / "bin"
