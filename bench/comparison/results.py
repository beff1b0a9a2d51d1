"""Medians and ratios of bench/compare's rounds: a table, CSV, JSON and a plot."""
import csv
import json
import statistics

import machine

from .loads import TITLES

MIB = 1 << 20
# A palette for the colour-blind (Okabe and Ito).
COLOURS = {"ext4": "#E69F00", "lazyfs": "#0072B2", "xfs": "#009E73", "btrfs": "#CC79A7",
           "limit": "#999999"}
MORE_COLOURS = ["#56B4E9", "#D55E00", "#000000", "#F0E442"]
INTERVAL_ROUNDS = 5  # fewer rounds give no interval of the ratio


def limit_of(system):
    """The FUSE limit over the same transport as this lazyfs."""
    return "limit" + system.removeprefix("lazyfs") if system.startswith("lazyfs") else None


def round_ratios(rows, load, system, base):
    """Of each round that has both: the system's time as a multiple of the base system's."""
    times = {(row["round"], row["system"]): row["seconds"] for row in rows if row["load"] == load}
    return [seconds / times[number, base] for (number, name), seconds in times.items()
            if name == system and times.get((number, base), 0) > 0]


def ratio_figures(found, prefix=""):
    """The median of the ratios, and its interval if there are enough of them."""
    if not found:
        return {}
    middle, low, high = machine.bootstrap(found)
    figures = {f"{prefix}ratio": round(middle, 3)}
    if len(found) >= INTERVAL_ROUNDS:
        figures[f"{prefix}interval"] = [round(low, 3), round(high, 3)]
    return figures


def summarize(rows, systems, base):
    """load -> {system: medians, and the median ratios to the times of the base system and of the
    FUSE limit}. `rows`: dictionaries with round, system, load and figures."""
    summary = {}
    for load in dict.fromkeys(row["load"] for row in rows):
        summary[load] = {}
        for system in systems:
            found = [row for row in rows if (row["load"], row["system"]) == (load, system)]
            if not found:
                continue
            entry = {"rounds": len(found), "disturbed": sum(row["disturbed"] for row in found)}
            for figure in ("seconds", "daemon_cpu", "flushes", "written"):
                values = [row[figure] for row in found if row[figure] is not None]
                entry[figure] = statistics.median(values) if values else None
            if system != base:
                entry |= ratio_figures(round_ratios(rows, load, system, base))
            entry |= ratio_figures(round_ratios(rows, load, system, limit_of(system)), "limit_")
            summary[load][system] = entry
    return summary


def ratio_text(entry, prefix=""):
    ratio, interval = entry.get(f"{prefix}ratio"), entry.get(f"{prefix}interval")
    if ratio is None:
        return ""
    return f"{ratio:.2f}" + (f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else "")


def print_summary(summary, systems, base):
    print(f"\nMedians; in brackets where 95 % of medians lie; * disturbed rounds\n\n"
          f"{'':32}{'seconds':>10}{'to ' + base:>20}{'to its limit':>20}{'daemon CPU s':>14}"
          f"{'flushes':>9}{'MiB written':>13}")
    for load, entries in summary.items():
        print(TITLES[load])
        for system in systems:
            if system not in entries:
                continue
            entry = entries[system]
            cpu = "" if entry["daemon_cpu"] is None else f"{entry['daemon_cpu']:.2f}"
            mark = "*" if entry["disturbed"] else ""
            print(f"  {system[:28]:30}{entry['seconds']:10.3f}{ratio_text(entry):>20}"
                  f"{ratio_text(entry, 'limit_'):>20}{cpu:>14}{entry['flushes']:9.0f}"
                  f"{entry['written'] / MIB:13.1f}{mark}")


def draw(results, systems, base, path):
    """One bar a load and system: its time as a multiple of the base system's."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    summary = results["summary"]
    loads = [load for load in summary if base in summary[load]]
    shown = [system for system in systems if system != base]
    if not loads or not shown:
        return
    more = iter(MORE_COLOURS * len(systems))
    figure, axes = pyplot.subplots(figsize=(8, 1.4 + 0.22 * len(loads) * (len(shown) + 0.6)),
                                   layout="constrained")
    step = len(shown) + 0.8
    for k, system in enumerate(shown):
        at = [i * step + k for i, load in enumerate(loads) if "ratio" in summary[load].get(
            system, {})]
        entries = [summary[load][system] for load in loads if "ratio" in summary[load].get(
            system, {})]
        ratios = [entry["ratio"] for entry in entries]
        errors = [[max(0, entry["ratio"] - entry.get("interval", [entry["ratio"]] * 2)[0])
                   for entry in entries],
                  [max(0, entry.get("interval", [entry["ratio"]] * 2)[1] - entry["ratio"])
                   for entry in entries]]
        bars = axes.barh(at, ratios, xerr=errors, height=0.9, label=system, ecolor="#444444",
                         color=COLOURS.get(system) or next(more), error_kw={"linewidth": 0.8})
        axes.bar_label(bars, [f" {ratio:.2f}" for ratio in ratios], fontsize=7)
    axes.set_yticks([i * step + (len(shown) - 1) / 2 for i in range(len(loads))],
                    [TITLES[load] for load in loads])
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.axvline(1, color=COLOURS.get(base, "black"), linewidth=1.2, label=base)
    axes.set_xlabel(f"Time as a multiple of {base}'s (less is better)")
    rounds = results["settings"]["rounds"]
    axes.set_title("Filesystems on the same disk"
                   + (f", medians of {rounds} rounds" if rounds > 1 else ", one round"))
    axes.legend(loc="lower right")
    figure.supxlabel(f"{results['machine']}; {results['date']}", fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def read_undisturbed(folder):
    """The rows of write() that nothing disturbed. Without a file: none."""
    path = folder / "results.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = [{name: value if name in ("group", "load", "system") else json.loads(
                     value.lower() or "null") for name, value in row.items()}
                for row in csv.DictReader(file)]
    return [row for row in rows if not row["disturbed"]]


def write(rows, results, systems, base, folder):
    with open(folder / "results.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results, systems, base, folder / "results.svg")
