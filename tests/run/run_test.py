"""Tests ./run in a source tree of its own: a copy of the script in a folder
with three presets of one-line tests, and a fake Debian whose packages are
files. Nothing is compiled and nothing is installed."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PRESETS = {
    "version": 6,
    "configurePresets": [
        {"name": name, "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}",
         "cacheVariables": {"PRESET": name}} for name in ("release", "asan", "tsan")
    ],
    "buildPresets": [{"name": n, "configurePreset": n} for n in ("release", "asan", "tsan")],
}

# Each preset's build leaves a file, so that a test can see that it ran.
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(house LANGUAGES NONE)
enable_testing()
add_custom_target(house ALL COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/built)
add_custom_target(plan COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/plan_built)
file(WRITE ${PROJECT_BINARY_DIR}/test_targets.txt "${PRESET}.plan plan\\nrelease.paper\\n")
add_test(NAME ${PRESET}.plan COMMAND ${CMAKE_COMMAND} -E true)
if(PRESET STREQUAL "release")
  set_tests_properties(release.plan PROPERTIES LABELS unit)
  add_test(NAME release.demo COMMAND ${CMAKE_COMMAND} -E %s)
  set_tests_properties(release.demo PROPERTIES LABELS demo)
  add_test(NAME release.paper COMMAND ${CMAKE_COMMAND} -E true)
  set_tests_properties(release.paper PROPERTIES LABELS unit)
else()
  set_tests_properties(${PRESET}.plan PROPERTIES LABELS "${PRESET};unit")
endif()
"""

# Fake programs of a Debian: packages are files in $DEBIAN, calls are lines in
# $DEBIAN/calls.
DEBIAN = {
    "dpkg-query": """
        shift 2
        for package; do
          [[ ! -e "$DEBIAN/$package" ]] || echo "installed $package"
        done""",
    "apt-get": """
        echo "apt-get $*" >>"$DEBIAN/calls"
        [[ "$1" != install ]] || for word; do [[ "$word" == -* ]] || touch "$DEBIAN/$word"; done
        [[ "$1" != download ]] || touch "${!#}_1.0_amd64.deb" """,
    "dpkg": """
        echo "dpkg $1" >>"$DEBIAN/calls"
        case "$2" in
          */etcd-server_*) program=etcd ;;
          */prometheus_*) program=promtool ;;
          *) exit 1 ;;
        esac
        mkdir -p "$3/usr/bin"
        install -m 755 /dev/null "$3/usr/bin/$program" """,
    "sudo": """
        echo sudo >>"$DEBIAN/calls"
        exec "$@" """,
    "id": "echo ${FAKE_UID:-0}",
}


class House(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copy(ROOT / "run", self.root)
        shutil.copytree(ROOT / "tools/run", self.root / "tools/run")
        self.write("CMakePresets.json", json.dumps(PRESETS))
        self.write("CMakeLists.txt", CMAKE % "true")
        self.budgets = {"unit": 60, "demo": 60, "asan": 60, "tsan": 60, "build": 60, "wall": 60, "processor": 60}
        self.debian = self.root / "debian"
        for name, body in DEBIAN.items():
            self.write(f"bin/{name}", "#!/bin/bash\n" + body).chmod(0o755)
        self.write("debian/calls", "")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run_door(self, *arguments, **environment):
        self.write("tests/budgets.txt",
                   "".join(f"{label} {seconds}\n" for label, seconds in self.budgets.items()))
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [self.root / "run", *arguments], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": path, "DEBIAN": str(self.debian), **environment})

    def built(self, what="built"):
        """The presets in which it was built."""
        return {file.parent.name for file in self.root.glob(f"build/*/{what}")}

    def calls(self):
        return (self.debian / "calls").read_text().splitlines()


class UsageTest(House):

    def test_what_it_does_not_know_is_refused_with_2(self):
        for arguments in ([], ["dance"], ["--fast"], ["help", "me"], ["test", "--fast"],
                          ["test", "a", "b"], ["build", "--fast"], ["build", "a", "b"], ["package", "a"],
                          ["bench", "--fast"], ["lint", "--fast"], ["demo", "--fast"],
                          ["demo", "5"], ["demo", "--steps"], ["build", "no-such-preset"]):
            with self.subTest(arguments):
                done = self.run_door(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertNotEqual(done.stderr, "")
                self.assertEqual(self.built(), set())

    def test_each_command_explains_itself(self):
        for command in ("demo", "test", "build", "package", "bench", "lint"):
            done = self.run_door(command, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"usage: ./run {command}", done.stdout)
            self.assertIn(f"  {command} ", self.run_door("help").stdout)
        self.assertEqual(self.calls(), [])


class TestTest(House):

    def test_all_presets_in_one_ctest_run_then_the_table(self):
        done = self.run_door("test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("tests passed"), 1)
        self.assertIn("100% tests passed, 0 tests failed out of 5", done.stdout)
        self.assertEqual(self.built(), {"release", "asan", "tsan"})
        table = done.stdout.splitlines()[-8:]
        self.assertEqual([row.split()[0] for row in table],
                         ["label", "asan", "demo", "tsan", "unit", "build", "wall", "processor"])

    def test_a_label_builds_only_what_carries_it(self):
        done = self.run_door("test", "asan")
        self.assertIn("0 tests failed out of 1", done.stdout)
        self.assertEqual(self.built("plan_built"), {"asan"})
        self.assertEqual(self.built(), set())

    def test_what_other_tests_run_is_left_out_unless_it_is_named(self):
        self.write("CMakeLists.txt", CMAKE % "true" + """
if(PRESET STREQUAL "release")
  add_test(NAME release.part COMMAND ${CMAKE_COMMAND} -E false)
  set_tests_properties(release.part PROPERTIES LABELS "unit;again")
endif()
""")
        done = self.run_door("test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 tests failed out of 5", done.stdout)
        self.assertNotIn("release.part", self.run_door("test", "--list").stdout)
        self.assertIn("1 tests failed out of 5", self.run_door("test", "unit").stdout)

    def test_a_test_that_needs_nothing_has_nothing_built(self):
        done = self.run_door("test", "paper")
        self.assertIn("0 tests failed out of 1", done.stdout)
        self.assertEqual(self.built() | self.built("plan_built"), set())

    def test_a_test_that_is_no_target_has_all_of_its_preset_built(self):
        done = self.run_door("test", "demo")
        self.assertIn("release.demo", done.stdout)
        self.assertIn("0 tests failed out of 1", done.stdout)
        self.assertEqual(self.built(), {"release"})

    def test_what_is_no_label_is_a_regex_on_names(self):
        done = self.run_door("test", r"n\.pl.n$")
        self.assertIn("0 tests failed out of 2", done.stdout)
        self.assertEqual(self.built("plan_built"), {"asan", "tsan"})

    def test_no_match_lists_the_labels_and_builds_nothing(self):
        for name_filter in ("nothing", "(", "uni t"):
            done = self.run_door("test", name_filter)
            self.assertEqual(done.returncode, 2)
            self.assertIn("labels: asan demo tsan unit", done.stderr)
        self.assertEqual(self.built(), set())

    def test_list_prints_names_and_builds_nothing(self):
        for arguments, names in (
                ([], ["asan.plan", "release.demo", "release.paper", "release.plan", "tsan.plan"]),
                (["unit"], ["asan.plan", "release.paper", "release.plan", "tsan.plan"]),
                ([r"release\.p"], ["release.paper", "release.plan"])):
            done = self.run_door("test", "--list", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = [line for line in done.stdout.splitlines() if not line.startswith("== ")]
            self.assertEqual(sorted(said), names)
        self.assertEqual(self.run_door("test", "--list", "nothing").returncode, 2)
        self.assertEqual(self.run_door("test", "--list", "a", "b").returncode, 2)
        self.assertEqual(self.built() | self.built("plan_built"), set())

    def test_a_failing_test_fails_the_run_and_the_table_is_still_there(self):
        self.write("CMakeLists.txt", CMAKE % "false")
        done = self.run_door("test")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1 tests failed out of 5", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1].split()[0], "processor")

    def test_the_cases_that_failed_are_said_again_before_the_table(self):
        self.write("said", "[ RUN      ] A.Holds\n[       OK ] A.Holds (0 ms)\n"
                   "[ RUN      ] A.Fails\nis 3, want 4\n[  FAILED  ] A.Fails (0 ms)\n")
        self.write("CMakeLists.txt", (CMAKE % "false").replace(
            "COMMAND ${CMAKE_COMMAND} -E false", "COMMAND sh -c \"cat ${CMAKE_SOURCE_DIR}/said && false\""))
        done = self.run_door("test")
        self.assertIn("\nfailed: release.demo\n  A.Fails:\n  is 3, want 4\n\nlabel", done.stdout)
        self.write("said", "no such device\n")
        done = self.run_door("test")
        self.assertIn("\nfailed: release.demo\n  no such device\n\nlabel", done.stdout)

    def test_a_label_over_its_budget_is_reported_and_processor_time_over_it_fails(self):
        self.write("CMakeLists.txt", (CMAKE % "sleep 1").replace("-E sleep 1", "-E sleep 1.1"))
        self.budgets.update(demo=1, wall=0)
        done = self.run_door("test", "demo")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"demo +1\.\d +1  over budget\n")
        self.assertRegex(done.stdout, r"wall +\d+\.\d +0  over budget\n")
        self.budgets["processor"] = 0
        done = self.run_door("test", "demo")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"processor +\d+\.\d +0  over budget: FAILED\n$")

    def test_a_label_without_a_budget_fails(self):
        del self.budgets["tsan"]
        self.assertEqual(self.run_door("test", "asan").returncode, 0)
        done = self.run_door("test", "tsan")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no budget", done.stdout)


class SetUpTest(House):

    def test_what_is_missing_is_said_then_installed_once(self):
        first = self.run_door("build", "release")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout.splitlines()[0], "to be installed with apt-get: .*cmake")
        self.assertEqual([call.split()[1] for call in self.calls()], ["update", "install"])
        self.assertIn("--no-install-recommends", self.calls()[1])
        self.run_door("build", "release")
        self.assertEqual(len(self.calls()), 2)

    def test_a_program_whose_package_starts_a_daemon_is_only_unpacked(self):
        self.assertEqual(self.run_door("test", "--list").returncode, 0)
        missing = [name for name in ("etcd", "promtool") if not shutil.which(name)]
        for name in ("etcd", "promtool"):
            unpacked = self.root / "build/tools/usr/bin" / name
            self.assertEqual(unpacked.exists(), name in missing, "unless it is there already")
        calls = [call.split()[:2] for call in self.calls()]
        unpacking = [call for call in calls if call[1] in ("download", "-x")]
        self.assertEqual(unpacking, [["apt-get", "download"], ["dpkg", "-x"]] * len(missing))
        self.assertEqual(self.run_door("test", "--list").returncode, 0)
        self.assertEqual(len(self.calls()), len(calls), "once")

    def test_what_cmake_calls_by_default_is_installed(self):
        self.run_door("build", "release")
        self.assertIn("make", self.calls()[-1].split())

    def test_only_what_is_missing_is_installed(self):
        self.run_door("build", "release")
        (self.debian / "cmake").unlink()
        self.run_door("build", "release")
        packages = [word for word in self.calls()[-1].split()[2:] if not word.startswith("-")]
        self.assertEqual(packages, ["cmake"])

    def test_who_is_not_root_asks_sudo(self):
        self.run_door("build", "release", FAKE_UID="1000")
        self.assertEqual(self.calls()[0], "sudo")

    def test_an_install_that_fails_ends_the_run(self):
        self.write("bin/apt-get", "#!/bin/bash\n[[ $1 == update ]]\n").chmod(0o755)
        self.assertNotEqual(self.run_door("build", "release").returncode, 0)
        self.assertEqual(self.built(), set())


if __name__ == "__main__":
    unittest.main()
