"""The bundle's own `run`, in a bundle of fake programs with a chosen exit status."""

import os
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
        # This machine's loader and Python programs, as the tests set them.
        self.machine = self.root / "machine"
        self.machine.mkdir()
        self.loader_has("libnccl.so.2", "libibverbs.so.1")
        self.script(self.machine / "python3", "exit 1")
        self.script(self.machine / "python", "exit 1")
        self.environment = {}
        self.program("gpu_facts", 0, says="NCCL, driver, device")

    def script(self, file, text):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)

    def loader_has(self, *libraries):
        lines = "".join(f"\t{name} (libc6,x86-64) => /usr/lib/{name}\\n" for name in libraries)
        self.script(self.machine / "ldconfig", f"printf '{lines}'")

    def python_with_nccl(self, file):
        """Installs a Python whose packages have an NCCL; returns that library."""
        site = file.parent.parent / f"site-of-{file.name}"
        library = site / "nvidia/nccl/lib/libnccl.so.2"
        library.parent.mkdir(parents=True)
        library.touch()
        self.script(file, f'PYTHONPATH="{site}" exec /usr/bin/python3 "$@"')
        return str(library)

    def program(self, name, code, says="", does=""):
        self.script(self.root / "bin" / name, f"echo '{says}'\n{does}\nexit {code}")

    def run_it(self, *arguments):
        path = f"{self.machine}:/usr/bin:/bin"
        inherited = {name: value for name, value in os.environ.items()
                     if not name.startswith(("LOCKSTEP_", "NCCL_"))
                     and name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH")}
        done = subprocess.run(["bash", self.root / "run", *arguments], capture_output=True,
                              env=inherited | {"PATH": path} | self.environment,
                              text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def said(self, name, variable):
        """The value of a variable in a program's environment."""
        self.program(name, 0, does=f'echo "{variable}=${variable}"')
        code, lines = self.run_it(name)
        self.assertEqual(code, 0, lines)
        return next(line for line in lines if line.startswith(f"{variable}="))[len(variable) + 1:]

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

    def test_strict_takes_what_is_skipped_for_failed(self):
        self.program("kernels_test", 0)
        self.program("nccl_test", 77)
        self.assertEqual(self.run_it()[0], 0)
        code, lines = self.run_it("--strict")
        self.assertEqual(code, 1)
        self.assertIn("== skipped, with --strict: nccl_test", lines)
        self.assertEqual(self.run_it("--strict", "kernels_test")[0], 0)

    def test_windows_come_last_and_only_there(self):
        self.program("z_test", 0)
        self.program("nccl_processes_test", 0, does='echo "given: $*"')
        (self.root / "demo").mkdir()
        names = self.run_it("--list")[1]
        gradients = ["gradients", "gradients-ahead-1", "gradients-ahead-2", "gradients-replayed"]
        self.assertEqual(names, ["nccl_processes_test", "z_test", "demo", "demo-pipe"] + gradients + ["windows"])
        self.assertIn("given: --gtest_filter=-*Windows*:*Gradients*", self.run_it("nccl_processes_test")[1])
        self.assertIn("given: --gtest_filter=*Windows*", self.run_it("windows")[1])
        for name, tests in zip(gradients, ("*Synchronise*Gradients", "*OneStepAhead", "*TwoStepsAhead", "*Replay*Gradients")):
            self.assertIn(f"given: --gtest_filter={tests}", self.run_it(name)[1])

    def test_the_nccl_that_is_named_goes_before_all_others(self):
        self.loader_has()
        self.python_with_nccl(self.machine / "python3")
        self.environment = {"LOCKSTEP_NCCL_LIBRARY": "/my/libnccl.so"}
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), "/my/libnccl.so")

    def test_the_loader_s_nccl_goes_before_a_python_s(self):
        self.python_with_nccl(self.machine / "python3")
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), "")

    def test_a_python_is_asked_for_its_nccl(self):
        self.loader_has("libibverbs.so.1")
        library = self.python_with_nccl(self.machine / "python")
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), library)
        library = self.python_with_nccl(self.machine / "python3")
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), library)
        library = self.python_with_nccl(self.root / "venv/bin/python3")
        self.environment = {"VIRTUAL_ENV": str(self.root / "venv")}
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), library)

    def test_without_any_nccl_the_programs_say_so_themselves(self):
        self.loader_has()
        self.assertEqual(self.said("a", "LOCKSTEP_NCCL_LIBRARY"), "")

    def test_the_machine_s_libibverbs_goes_before_the_bundle_s(self):
        self.assertEqual(self.said("a", "LD_LIBRARY_PATH"), f"{self.root}/lib")
        self.loader_has("libnccl.so.2")
        self.assertEqual(self.said("a", "LD_LIBRARY_PATH"), f"{self.root}/lib:{self.root}/lib-verbs")

    def test_what_is_said_is_kept(self):
        writes = 'echo "a warning" > "${NCCL_DEBUG_FILE//%h.%p/host.7}"; : > "${NCCL_DEBUG_FILE//%h.%p/host.8}"'
        self.program("loud_test", 3, says="wrong", does=f'echo "at $NCCL_DEBUG"; {writes}')
        self.assertEqual(self.run_it()[0], 1)
        results = self.root / "results"
        self.assertEqual((results / "loud_test.log").read_text(), "wrong\nat WARN\n")
        self.assertEqual(sorted(file.name for file in results.iterdir()),
                         ["loud_test.log", "loud_test.nccl.host.7.log"])
        self.environment = {"NCCL_DEBUG": "INFO", "LOCKSTEP_RESULTS": str(self.root / "mine")}
        self.run_it()
        self.assertEqual((self.root / "mine/loud_test.log").read_text(), "wrong\nat INFO\n")


if __name__ == "__main__":
    unittest.main()
