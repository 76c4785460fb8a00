"""The build for users: what the preset `user` omits and when it builds GPU parts.
Also compiles, in a folder of its own, the programs that `./run demo` needs.

    user_build_test.py BUILD_FOLDER [TEST...]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1]).parent / "user_build"  # beside it, so that they share cached objects


def call(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, cwd=ROOT, **options)


class CudaTest(unittest.TestCase):
    """lockstep_cuda.cmake with a toolkit whose compiler always fails."""

    def configure(self, when, toolkit=True):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            home = root / "cuda"
            if toolkit:
                nvcc = home / "bin/nvcc"
                nvcc.parent.mkdir(parents=True)
                nvcc.write_text("#!/bin/sh\nexit 1\n")
                nvcc.chmod(0o755)
            (root / "CMakeLists.txt").write_text(f"""
                cmake_minimum_required(VERSION 3.25)
                project(other LANGUAGES NONE)
                set(LOCKSTEP_TOOLS ON)
                include("{ROOT}/cmake/lockstep_cuda.cmake")
                """)
            hidden = [] if toolkit else ["/usr/local/cuda/bin", *os.environ["PATH"].split(":")]
            return call("cmake", "-S", root, "-B", root / "build", "-G", "Ninja",
                        f"-DLOCKSTEP_CUDA={when}", f"-DCMAKE_IGNORE_PATH={';'.join(hidden)}",
                        f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
                        env={**os.environ, "CUDA_HOME": str(home), "CUDA_PATH": ""})

    def test_the_kernels_of_users_wait_for_a_driver(self):
        has_driver = Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()
        done = self.configure("DRIVER")
        if has_driver:
            self.assertIn("CUDA found: ", done.stdout)
        else:
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(done.stdout, "not built: no driver .*; -DLOCKSTEP_CUDA=ON builds them")

    def test_whoever_asks_for_them_gets_them_without_a_driver(self):
        for when in ("ON", "TOOLKIT"):
            done = self.configure(when)
            self.assertIn("CUDA found: ", done.stdout)
            self.assertNotEqual(done.returncode, 0, "the toolkit was not used")

    def test_off_looks_for_no_toolkit(self):
        done = self.configure("OFF")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("CUDA", done.stdout)

    def test_without_a_toolkit_on_fails_and_the_others_say_so(self):
        self.assertNotEqual(self.configure("ON", toolkit=False).returncode, 0)
        for when in ("DRIVER", "TOOLKIT"):
            done = self.configure(when, toolkit=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("CUDA not found", done.stdout)

    def test_what_is_no_choice_is_refused(self):
        self.assertNotEqual(self.configure("MAYBE").returncode, 0)


class PresetTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        # With the compiler flags of the release preset, so that the compiler cache has its objects.
        done = call("cmake", "--preset", "user", "-B", BUILD, "-DLOCKSTEP_WARNINGS_ARE_ERRORS=ON")
        assert done.returncode == 0, done.stdout

    def test_it_has_programs_and_neither_tests_nor_benchmarks(self):
        done = call("cmake", "--build", BUILD, "--target", "help")
        self.assertEqual(done.returncode, 0, done.stdout)
        targets = set(re.findall(r"^([\w-]+): phony$", done.stdout, re.MULTILINE))
        self.assertLessEqual({"lockstepd", "lockstepctl", "lockstep-perf", "lockstep-demo",
                              "minimal", "lockstep_client"}, targets)
        self.assertEqual({name for name in targets if re.search("_(test|bench)$", name)}, set())

    def test_the_demonstration_compiles_few_files_and_none_of_tests(self):
        plan = call("ninja", "-C", BUILD, "-t", "commands", "lockstepctl", "lockstep-demo")
        self.assertEqual(plan.returncode, 0, plan.stdout)
        files = {name for name in re.findall(r" -c (\S+)$", plan.stdout, re.MULTILINE)}
        self.assertNotEqual(files, set())
        ours = [name for name in files if re.search(r"/(tests|bench)/", name.removeprefix(str(BUILD)))]
        self.assertEqual(ours, [])
        # A file in a unity build costs a fifth of one compiled alone.
        self.assertLess(len(files), 120, files)

    def test_the_demonstration_compiles(self):
        """Sources that are joined, and warnings that only joined ones give."""
        done = call("cmake", "--build", BUILD, "--target", "lockstepctl", "lockstep-demo",
                    "lockstep-perf", "minimal", "recovering")
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
