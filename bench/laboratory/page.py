"""The plots, and the page with all rows: Markdown and HTML."""
import html
import json
import shutil
import textwrap

CAPTION_COLUMNS_AN_INCH = 20
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000"]
INTRODUCTION = (
    "Each row repeats an experiment of a paper: the published figure, ours, their ratio, and a "
    "verdict against what was set as the least. `make experiments` (or `bench/experiments`) makes "
    "all of them again, with `--quick` in a quarter of an hour. A time on a named disk is that "
    "disk's simulated time ([simulation.md](simulation.md)); a trace's requests do not wait for "
    "the simulated disk as a kernel's writeback would, unless the row says so.")


def draw(values, result, path):
    """Draws the result with the row's title, and the settings as a caption."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "lazyfs"  # the same input gives the same file
    matplotlib.rcParams["axes.prop_cycle"] = matplotlib.cycler(color=COLOURS)
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(*result.grid, figsize=result.size, layout="constrained")
    result.draw(axes)
    for axis in figure.axes:
        axis.grid(alpha=0.3)
    figure.suptitle(f"{values['experiment']}: {values['title']}")
    caption = textwrap.fill(values["settings"], round(CAPTION_COLUMNS_AN_INCH * result.size[0]))
    figure.text(0.01, -0.01, caption, fontsize=7, va="top")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def text_of(value):
    """A figure, a text, or several by name, for a cell."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {text_of(one)}" for name, one in value.items())
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def figures_of(row):
    """(name, theirs, ours, ratio) for each figure that has a name."""
    columns = [value if isinstance(value, dict) else {} if value is None else {"": value}
               for value in (row["theirs"], row["ours"], row["ratio"])]
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, *(text_of(column.get(name)) for column in columns)) for name in names]


def load(output, rows):
    """The rows' JSON; of rows that were not made, what the catalogue `rows` says of them."""
    found = []
    for name, paper, figure, title, _ in rows:
        path = output / f"{name}.json"
        found.append(json.loads(path.read_text()) if path.exists() else {
            "experiment": name, "paper": paper, "figure": figure, "title": title, "theirs": None,
            "ours": None, "ratio": None, "verdict": "not measured: not made yet", "settings": "",
            "scale": "", "machine": "", "date": ""})
    return found


def markdown(rows, pictures):
    """`pictures`: where the plots lie, relative to the page."""
    text = "# Experiments\n\n" + INTRODUCTION + "\n\n"
    text += "| row | paper | experiment | verdict |\n|---|---|---|---|\n"
    for row in rows:
        word = row["verdict"].partition(":")[0]
        text += (f"| [{row['experiment']}](#{row['experiment'].lower()}) | {row['paper']}, "
                 f"{row['figure']} | {row['title']} | {word} |\n")
    for row in rows:
        text += f"\n## {row['experiment']}\n\n{row['title']} ({row['paper']}, {row['figure']}).\n\n"
        word, _, why = row["verdict"].partition(":")
        text += f"Verdict: **{word}**:{why}.\n\n"
        if row["ours"] is not None:
            text += "| figure | theirs | ours | ratio |\n|---|---|---|---|\n"
            text += "".join(f"| {' | '.join(cells)} |\n" for cells in figures_of(row))
            text += f"\n{row['settings']}. {row['scale'].capitalize()} run, {row['date']}, " \
                    f"{row['machine']}, load average {row.get('load_average', 'not noted')}.\n\n"
            name = row["experiment"]
            text += f"![{row['title']}]({pictures}{name}.svg)\n"
    return text


def page_of(rows, output):
    """One HTML page that needs no other file."""
    body = ""
    for row in rows:
        name = row["experiment"]
        body += f"<h2 id='{name}'>{name}: {html.escape(row['title'])}</h2>"
        body += f"<p>{html.escape(row['paper'])}, {html.escape(row['figure'])}</p>"
        word = row["verdict"].partition(":")[0].split()[0]
        body += f"<p class='{word}'>{html.escape(row['verdict'])}</p>"
        if row["ours"] is None:
            continue
        body += "<table><tr><th>figure<th>theirs<th>ours<th>ratio</tr>"
        for cells in figures_of(row):
            body += "<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells) + "</tr>"
        body += f"</table><p>{html.escape(row['settings'])}</p>"
        plot = output / f"{name}.svg"
        if plot.exists():
            body += plot.read_text().partition("?>")[2].partition(">")[2]
    style = ("body{font-family:sans-serif;max-width:70em;margin:auto}th,td{text-align:left;"
             "padding:0 1em 0 0}.reached{color:#00704f}.partly{color:#9a6700}"
             ".missed,.not{color:#a40000}"
             "svg{max-width:100%;height:auto}")
    return (f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>Experiments</title>"
            f"<style>{style}</style><h1>Experiments</h1>{body}</html>\n")


def write(output, catalogue):
    rows = load(output, catalogue)
    (output / "experiments.md").write_text(markdown(rows, ""))
    (output / "experiments.html").write_text(page_of(rows, output))


def publish(output, catalogue, docs):
    """Copies the page, the plots and the results, without the data of each point, to the
    documents. A row that was not made here keeps its result there."""
    folder = docs / "results/experiments"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [load(output if (output / f"{row[0]}.json").exists() else folder, [row])[0]
            for row in catalogue]
    (docs / "experiments.md").write_text(markdown(rows, "results/experiments/"))
    for row in rows:
        name = row["experiment"]
        row.pop("data", None)
        if (output / f"{name}.json").exists():
            (folder / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
        if (output / f"{name}.svg").exists():
            shutil.copy(output / f"{name}.svg", folder)
