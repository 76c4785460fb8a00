"""The weather example under lockstepctl run: its workers have the bits of one process.

    weather_test.py BIN_FOLDER
"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
SPEC = Path(__file__).resolve().parents[3] / "examples/specs/weather.yaml"


class WeatherTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_weather(self, *flags, workers=4, mesh="lat=2,lon=2", transport="shm", code=0):
        spec = self.folder / "spec.yaml"
        text = re.sub("mesh: .*", f"mesh: {mesh}", SPEC.read_text())
        spec.write_text(f"{text}transport: {transport}\n")
        done = subprocess.run(
            [BIN / "lockstepctl", "run", "-n", str(workers), "-f", spec, "--", BIN / "weather", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=100)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_a_few_hundred_steps_over_shared_memory_and_their_picture(self):
        picture = self.folder / "weather.png"
        output = self.run_weather("--picture", picture)
        self.assertIn("300 steps on lat=2,lon=2", output)
        self.assertIn("weather: PASS", output)
        self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertLess(picture.stat().st_size, 200_000)

    def test_over_gloo(self):
        self.assertIn("weather: PASS", self.run_weather("--steps", "20", transport="gloo"))

    def test_tiles_of_different_sizes(self):
        for mesh, workers in ("lat=3,lon=1", 3), ("lat=1,lon=5", 5), ("lat=3,lon=2", 6):
            with self.subTest(mesh=mesh):
                output = self.run_weather("--steps", "10", mesh=mesh, workers=workers)
                self.assertIn("weather: PASS", output)

    def test_without_halos_it_fails(self):
        output = self.run_weather("--steps", "10", "--no-halo", code=1)
        self.assertIn("weather: FAIL", output)
        self.assertNotIn("PASS", output)

    def test_a_mesh_of_other_axes_is_refused(self):
        output = self.run_weather("--steps", "1", mesh="data=4", code=1)
        self.assertIn("lat=N,lon=M", output)
        self.assertNotIn("PASS", output)


if __name__ == "__main__":
    unittest.main()
