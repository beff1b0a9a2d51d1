#!/usr/bin/env python3
"""smrsim as a user types it: exit statuses, messages, files. smrsim.py BIN_FOLDER"""
import json
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])
LOAD = "rw=randwrite,bs=4k,range=1g,count=3000"


def smrsim(*words, status=0):
    done = subprocess.run([BIN / "smrsim", *map(str, words)], capture_output=True, text=True,
                          check=False)
    assert done.returncode == status, (words, done)
    return done.stdout if status == 0 else done.stderr


def check_mistakes(folder):
    bad = folder / "bad.trace"
    bad.write_text("# lazyfs block trace 1\n0 W 0 8\n0 W x 8\n")
    error = smrsim("run", "--disk", "cheetah9lp", bad, status=1)
    assert error == f"smrsim: {bad}:3: not a range of sectors: 'x 8'\n", error
    for words in (["run", "--load", LOAD], ["run", "--disk", "cheetah9lp"],
                  ["run", "--disk", "cheetah9lp", "--load", LOAD, bad],
                  ["run", "--disk", "cheetah9lp", "--paced", "--window", "3", bad],
                  ["run", "--disk", "cheetah9lp", "--permute", "3", bad],
                  ["run", "--disk", "cheetah9lp", "--queue", "lifo", bad], ["jump"], []):
        assert smrsim(*words, status=2).startswith("smrsim: "), words
    assert "no such model" in smrsim("run", "--disk", "x", "--load", LOAD, status=1)
    assert "cannot be written" in smrsim("run", "--disk", "cheetah9lp", "--load", LOAD,
                                         "--series", "/nonexistent/x", status=1)


def check_reports(folder):
    reports = []
    for disk in ("ST8000AS0002", "WD5000YS"):
        reports.append(folder / f"{disk}.json")
        reports[-1].write_text(smrsim("run", "--disk", disk, "--load", LOAD, "--json", "--series",
                                      folder / "series.csv", "--points", 100, "--every", 1000))
        assert len(json.loads(reports[-1].read_text())["progress"]) == 3
    lines = (folder / "series.csv").read_text().splitlines()
    assert lines[0] == "second,read_bytes,written_bytes"
    assert sum(int(line.split(",")[2]) for line in lines[1:]) == 3000 * 4096
    rows = json.loads(smrsim("compare", "--json", *reports))
    assert rows[0]["seconds_ratio"] == 1 and rows[1]["seconds_ratio"] > 1, rows
    assert "ST8000AS0002" in smrsim("compare", *reports)
    assert "ST8000AS0002 x 1" in smrsim("run", "--disk", "st8000as0002", "--load", LOAD)
    assert "persistent cache" in smrsim("disks")
    assert {model["name"] for model in json.loads(smrsim("disks", "--json"))} >= {"cheetah9lp"}
    return reports


def check_plots(folder, reports):
    for kind in ("bars", "throughput", "latency", "offsets"):
        picture = folder / f"{kind}.svg"
        smrsim("plot", "--kind", kind, "-o", picture, *reports[:1 if kind == "offsets" else 2])
        text = picture.read_text()
        assert "ST8000AS0002" in text and len(text) > 10_000, kind
    plain = folder / "plain.json"
    plain.write_text(smrsim("run", "--disk", "cheetah9lp", "--load", LOAD, "--json"))
    error = smrsim("plot", "--kind", "throughput", "-o", folder / "x.svg", plain, status=1)
    assert error == "smrsim: plot: plain: made without --series\n", error


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_mistakes(folder)
        reports = check_reports(folder)
        found = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], check=False,
                               capture_output=True)
        if found.returncode != 0:
            print("skipped: plots, for lack of python3-matplotlib")
            return
        check_plots(folder, reports)


main()
