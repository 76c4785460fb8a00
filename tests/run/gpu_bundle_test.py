"""The bundle's own `run`, in a bundle whose programs say what they end with."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class BundleTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "bin").mkdir()
        shutil.copy(ROOT / "tools/run/gpu_bundle_run.sh", self.root / "run")
        self.program("gpu_facts", 0, says="NCCL, driver, device")

    def program(self, name, code, says=""):
        file = self.root / "bin" / name
        file.write_text(f"#!/bin/bash\necho '{says}'\nexit {code}\n")
        file.chmod(0o755)

    def run_it(self, *arguments):
        done = subprocess.run(["bash", self.root / "run", *arguments], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_it_lists_the_programs_and_not_what_tells_the_facts(self):
        self.program("b_test", 0)
        self.program("a_bench", 0)
        self.assertEqual(self.run_it("--list"), (0, ["a_bench", "b_test"]))
        (self.root / "demo").mkdir()
        self.assertEqual(self.run_it("--list"), (0, ["a_bench", "b_test", "demo", "demo-pipe"]))

    def test_the_facts_come_first(self):
        self.program("a_test", 0, says="a test")
        code, lines = self.run_it()
        self.assertEqual(code, 0)
        self.assertEqual(lines[0], "NCCL, driver, device")
        self.assertIn("a test", lines[1:])

    def test_it_ends_with_0_1_or_77(self):
        for codes, expected in (([0, 0], 0), ([0, 77], 0), ([77, 77], 77), ([0, 3], 1),
                                ([77, 134], 1)):
            with self.subTest(codes):
                for number, code in enumerate(codes):
                    self.program(f"test_{number}", code)
                code, lines = self.run_it()
                self.assertEqual(code, expected)
                self.assertEqual(
                    lines[-1], f"== {codes.count(0)} passed, "
                    f"{len(codes) - codes.count(0) - codes.count(77)} failed, "
                    f"{codes.count(77)} skipped")

    def test_it_runs_the_programs_that_are_named_and_no_others(self):
        self.program("good_test", 0)
        self.program("bad_test", 1)
        self.assertEqual(self.run_it("good_test")[0], 0)
        self.assertEqual(self.run_it("bad_test")[0], 1)
        for wrong in ("gpu_facts", "no_test", "--fast"):
            self.assertEqual(self.run_it(wrong)[0], 2, wrong)


if __name__ == "__main__":
    unittest.main()
