"""Tests of what bench/experiments consists of: traces, permutations, verdicts, the page."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
# pylint: disable=wrong-import-position
from laboratory import hotos, loads, page, plan, volumes  # noqa: E402

HEAD = "  kworker/1:0-42 [001] d..1. "


def event(seconds, flags, sector, sectors):
    return f"{HEAD}{seconds}: block_rq_issue: 7,0 {flags} 4096 () {sector} + {sectors} none [x]"


class TraceTest(unittest.TestCase):
    def convert(self, *lines, flag_of=lambda sector, flags: "M" if "M" in flags else "-"):
        begin, out = None, []
        for line in lines:
            some, begin = volumes.converted(line, begin, flag_of)
            out += some
        return out

    def test_times_begin_with_the_first_request(self):
        self.assertEqual(self.convert(event("10.5", "R", 8, 16), event("10.500250", "W", 0, 8)),
                         ["0 R 8 16 -", "250 W 0 8 -"])

    def test_metadata_keeps_its_class(self):
        self.assertEqual(self.convert(event("1.0", "WSM", 8, 8)), ["0 W 8 8 M"])

    def test_a_write_with_a_flush_before_it_and_fua_is_three_requests(self):
        self.assertEqual(self.convert(event("1.0", "FWFS", 8, 8)),
                         ["0 F 0 0 -", "0 W 8 8 -", "0 F 0 0 -"])

    def test_a_flush_has_no_sectors(self):
        self.assertEqual(self.convert(event("1.0", "FF", 0, 0)), ["0 F 0 0 -"])

    def test_other_lines_and_discards_are_no_requests(self):
        self.assertEqual(self.convert("# tracer: nop", event("1.0", "DS", 8, 800)), [])

    def test_requests_within_the_log_belong_to_the_journal(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = volumes.Recording("/dev/null")
            recording.lines = [event("1.0", "WM", sector, 8).encode() for sector in (7, 8, 16)]
            path = pathlib.Path(folder) / "trace"
            recording.write(path, [(8, 15)])
            self.assertEqual([line.split()[-1] for line in path.read_text().splitlines()[1:]],
                             ["M", "J", "M"])


class PermutationTest(unittest.TestCase):
    def test_the_stupid_version_has_each_block_once_and_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, out = (pathlib.Path(folder) / name for name in ("smart", "stupid"))
            trace.write_text("# lazyfs block trace 1\n0 W 0 800 -\n5 F 0 0 -\n9 R 4 8 -\n")
            lines = hotos.permuted(trace, out, 8000).read_text().splitlines()
        blocks = [int(line.split()[2]) for line in lines if " W " in line]
        self.assertEqual(len(set(blocks)), 100)
        self.assertEqual({block % 8 for block in blocks}, {0})
        self.assertNotEqual(blocks, sorted(blocks))
        self.assertEqual([int(line.split()[2]) for line in lines if " R " in line], blocks[:2])


class LoadTest(unittest.TestCase):
    def test_each_directory_of_a_tree_lies_in_its_parent(self):
        paths = [loads.tree_path(i, 3) for i in range(1, 40)]
        self.assertEqual(paths[:4], ["1", "2", "3", "1/4"])
        self.assertTrue(all(path.rpartition("/")[0] in ["", *paths[:i]]
                            for i, path in enumerate(paths)))

    def test_postmark_does_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for name in ("a", "b"):
                mnt = pathlib.Path(folder) / name
                mnt.mkdir()
                loads.Postmark(20, 5, 50, 100, 5000, 1000)(mnt)
                found.append(sorted((str(path.relative_to(mnt)), path.stat().st_size)
                                    for path in mnt.rglob("*") if path.is_file()))
        self.assertEqual(found[0], found[1])
        self.assertTrue(found[0])


class VerdictTest(unittest.TestCase):
    def test_says_what_does_not_hold(self):
        self.assertEqual(plan.verdict_of([("a", True), ("b", True)]), "reached: a; b")
        self.assertEqual(plan.verdict_of([("a", True), ("b", False)]), "partly: not reached: b")
        self.assertEqual(plan.verdict_of([("a", False)]), "missed: not reached: a")

    def test_the_page_has_a_row_for_each_figure(self):
        row = {"theirs": {"x": 2.0}, "ours": {"x": 4.0, "y": "many"}, "ratio": {"x": 0.5}}
        self.assertEqual(page.figures_of(row), [("x", "2", "4", "0.5"), ("y", "-", "many", "-")])

    def test_rows_that_were_not_made_are_on_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            catalogue = [("L1", "paper", "figure 1", "A title", None)]
            page.write(pathlib.Path(folder), catalogue)
            text = (pathlib.Path(folder) / "experiments.md").read_text()
        self.assertIn("A title (paper, figure 1)", text)
        self.assertIn("**not measured**: not made yet", text)


if __name__ == "__main__":
    unittest.main()
