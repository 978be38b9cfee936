"""The pictures of docs/benchmarks.md: they are drawn from the committed figures, and always in the same way."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
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
    return {"subject": "keys", "operation": "mark <new>", "of": "keys", "unit": "call", "points": points, "slopes": slopes, "verdict": "flat", **changes}


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


if __name__ == "__main__":
    unittest.main()
