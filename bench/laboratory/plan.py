"""What every experiment uses: how to run programs, to simulate, and to say what came out."""
import dataclasses
import json
import pathlib
import sys

from commands import Failed, run, stats_of  # noqa: F401  (what experiments use)

MIB, GIB = 1 << 20, 1 << 30
SECTOR = 512


@dataclasses.dataclass(eq=False)
class Plan:
    """How much to do, and where."""
    quick: bool
    bin: pathlib.Path
    bench: pathlib.Path
    work: pathlib.Path
    output: pathlib.Path

    def pick(self, quick, full):
        return quick if self.quick else full

    def simulate(self, disk, *options, traces=()):
        """Returns the report of smrsim run."""
        return json.loads(run(self.bin / "smrsim", "run", "--disk", disk, "--json", *options,
                              *traces))

    def benchmark(self, name, *arguments):
        """Runs a script of bench/ that writes a JSON file, and returns that file's contents."""
        out = self.work / f"{name}.json"
        words = [str(word).replace("OUT.json", str(out)).replace("OUT", str(out.with_suffix("")))
                 for word in arguments]
        run(sys.executable, self.bench / name, "--bin", self.bin, *words)
        return json.loads(out.read_text())


@dataclasses.dataclass
class Result:
    """What an experiment has shown. `theirs`, `ours` and `ratio`: a figure, a text, or several by
    name. `verdict` begins with "reached", "partly", "missed" or "not measured"."""
    theirs: object
    ours: object
    ratio: object
    verdict: str
    settings: str
    data: object = None
    draw: object = None  # draws the plot on matplotlib's axes
    size: tuple = (8, 4.5)
    grid: tuple = (1, 1)  # of plots: rows, columns


def verdict_of(checks):
    """A verdict of (claim, whether it holds) pairs."""
    failed = [claim for claim, holds in checks if not holds]
    if not failed and len(checks) > 8:
        return f"reached: all of {len(checks)} claims hold, from \"{checks[0][0]}\" to " \
               f"\"{checks[-1][0]}\""
    if not failed:
        return "reached: " + "; ".join(claim for claim, _ in checks)
    word = "missed" if len(failed) == len(checks) else "partly"
    return f"{word}: not reached: " + "; ".join(failed)
