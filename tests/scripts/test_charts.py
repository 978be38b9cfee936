"""The pictures of docs/benchmarks.md: they are drawn from the committed figures, and always in the same way."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load():
    loader = importlib.machinery.SourceFileLoader("charts", str(ROOT / "scripts/charts"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("charts", loader))
    loader.exec_module(module)
    return module


CHARTS = load()


def curve(**changes):
    points = [{"size": 10**n, "time_us": 100.0, "cpu_us": 50.0, "calls": 1.0, "memory": 0.0, "dollars": None} for n in range(3, 7)]
    slopes = {"time": 0.0, "cpu": -0.004, "calls": 0.0, "dollars": None, "memory": None}
    return {"subject": "keys", "operation": "mark <new>", "of": "keys", "unit": "call", "points": points, "slopes": slopes, "verdict": "flat",
            "date": "2026-11-18", "sizes": "full", "load": 0.25, **changes}


class Charts(unittest.TestCase):
    def test_the_committed_pictures_are_those_of_the_committed_figures(self):
        checked = subprocess.run([ROOT / "scripts/charts", "--check"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_every_committed_picture_is_shown(self):
        text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
        subjects = CHARTS.subjects(json.loads(CHARTS.FIGURES.read_text(encoding="utf-8")))
        for subject in subjects:
            self.assertIn(f"images/curves-{subject}.svg", text)
        drawn = {image.name for image in CHARTS.IMAGES.glob("curves-*.svg")}
        self.assertEqual(drawn, {f"curves-{subject}.svg" for subject in subjects})

    def test_a_picture_is_well_formed_and_leaves_out_what_was_not_measured(self):
        drawn = CHARTS.picture([curve()])
        texts = [element.text for element in xml.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("store calls per unit", texts)
        self.assertNotIn("memory in all", texts)
        self.assertNotIn("$ per million units", texts)
        self.assertIn("mark <new>; the unit is one call; flat (slope of the CPU −0.00)", texts)
        self.assertEqual(drawn, CHARTS.picture([curve()]))

    def test_a_flat_line_is_drawn_flat(self):
        line = [part for part in CHARTS.picture([curve()]).splitlines() if 'class="line"' in part][0]
        heights = {place.split()[1] for place in line.split(' d="M')[1].rstrip('"/>').split("L")}
        self.assertEqual(len(heights), 1, line)

    def test_figures_are_rounded_and_keep_their_units(self):
        for us, text in [(0.0421, "42 ns"), (3.14159, "3.1 µs"), (86.4, "86 µs"), (123.4, "123 µs"), (1234.0, "1.23 ms"), (2_500_000.0, "2.5 s")]:
            self.assertEqual(CHARTS.rounded(us), text)

    def test_the_table_of_the_page_is_replaced_and_nothing_else(self):
        report = {"curves": [curve()]}
        page = f"before\n\n{CHARTS.TABLE} old |\n|---|\n| old |\n\nafter\n\n| another | table |\n"
        expected = f"before\n\n{CHARTS.table(report)}\n\nafter\n\n| another | table |\n"
        self.assertEqual(CHARTS.with_table(page, report), expected)
        self.assertEqual(CHARTS.with_table(expected, report), expected)
        self.assertIn("| 2026-11-18, full, 0 |", expected)
        with self.assertRaisesRegex(SystemExit, "no table"):
            CHARTS.with_table("nothing", report)

    def test_figures_that_cannot_be_drawn_are_refused_with_what_is_wrong(self):
        self.assertIsNone(CHARTS.wrong({"curves": [curve()]}))
        point = curve()["points"][0]
        for report, problem in [
            ([], "no curves"),
            ({"curves": []}, "no curves"),
            ({"curves": [curve(points=[])]}, r"keys: mark <new>\) has no points"),
            ({"curves": [curve(points=[{**point, "size": 0}])]}, "size is 0"),
            ({"curves": [curve(points=[{**point, "cpu_us": None}])]}, "no cpu_us at size 1000"),
            ({"curves": [curve(slopes={"time": 0.0})]}, "no slope of cpu"),
            ({"curves": [curve(date=None)]}, "no date"),
        ]:
            self.assertRegex(CHARTS.wrong(report), problem)

    def run_with(self, *arguments):
        return subprocess.run([ROOT / "scripts/charts", *arguments], capture_output=True, text=True)

    def test_a_file_that_is_not_json_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("{")
            file.flush()
            ran = self.run_with("--table", file.name)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, f"^charts: {file.name} is not JSON: .*\n$")

    def test_help_is_no_error(self):
        for option in ["--help", "-h"]:
            ran = self.run_with(option)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertIn("scripts/charts --check", ran.stdout)
        self.assertEqual(self.run_with("--no-such-option").returncode, 1)

    def test_a_picture_of_a_subject_that_is_gone_fails_the_check(self):
        report = json.loads(CHARTS.FIGURES.read_text(encoding="utf-8"))
        gone = report["curves"][0]["subject"]
        report["curves"] = [curve for curve in report["curves"] if curve["subject"] != gone]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(report, file)
            file.flush()
            checked = self.run_with("--check", file.name)
        self.assertEqual(checked.returncode, 1)
        self.assertIn(f"curves-{gone}.svg is of a subject that", checked.stderr)


if __name__ == "__main__":
    unittest.main()
