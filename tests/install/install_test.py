"""Checks the installed tree: a consumer builds against it and runs, with the
shared library and with the static one; the shared one exports only our names.

    install_test.py BUILD_FOLDER [TEST...]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv[1])
CONSUMER = Path(__file__).resolve().parent / "consumer"

# The static library's dependencies, and those that they look for.
NOT_FOR_SHARED = ("c-ares", "gRPC", "Gloo", "hwy", "OpenSSL", "Protobuf", "protobuf", "re2",
                  "yaml-cpp", "ZLIB")

OURS = re.compile(r"(((typeinfo|typeinfo name|vtable|VTT) for|(non-)?virtual thunk to) )?lockstep::|lockstep_")


def output_of(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        cls.prefix = cls.root / "prefix"
        output_of("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def consume(self, name, *options):
        """Builds the consumer's programs; returns their folder."""
        build = self.root / name
        output_of("cmake", "-S", CONSUMER, "-B", build, "-G", "Ninja",
                  f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release", *options,
                  env={**os.environ, "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"})
        output_of("cmake", "--build", build)
        return build

    def test_a_consumer_builds_and_runs(self):
        build = self.consume("both", "-DSTATIC=ON")
        for kind in ("client", "client_static"):
            self.assertEqual(output_of(build / f"consumer_of_{kind}"), "no coordinator, as expected\n")

    def test_the_shared_library_needs_only_abseil(self):
        """Whoever looks for another package finds one that stops the configuration."""
        traps = self.root / "traps"
        traps.mkdir()
        options = [f"-DCMAKE_MODULE_PATH={traps}"]
        for package in NOT_FOR_SHARED:
            trap = f'message(FATAL_ERROR "a consumer of the shared library looks for {package}")\n'
            for file in (f"Find{package}.cmake", f"{package}Config.cmake"):
                (traps / file).write_text(trap)
            options.append(f"-D{package}_DIR={traps}")
        build = self.consume("shared", *options)
        self.assertEqual(output_of(build / "consumer_of_client"), "no coordinator, as expected\n")

    def test_only_our_names_are_exported(self):
        names = [line.split(maxsplit=2)[2] for line in output_of(
            "nm", "-D", "--defined-only", "-C",
            self.prefix / "lib/liblockstep_client.so").splitlines()]
        shown = {name.partition("(")[0] for name in names}
        self.assertLessEqual({"lockstep::GradientSync::Create", "lockstep::MakePlainArena",
                              "lockstep::ParseMesh", "lockstep::Session::Join"}, shown)
        self.assertEqual([name for name in shown if re.search("::(Internals|Impl)::", name)], [])
        self.assertEqual([name for name in shown if re.search("(Send|Recv)Activation", name)], [])
        self.assertEqual([name for name in names if not OURS.match(name)], [])

    def test_programs_and_headers_are_there(self):
        programs = {file.name for file in (self.prefix / "bin").glob("*")}
        self.assertLessEqual(programs, {"lockstepd", "lockstepctl", "lockstep-perf"})
        headers = {file.name for file in (self.prefix / "include/lockstep").iterdir()}
        self.assertLessEqual({"session.h", "gradient_sync.h", "pipeline.h", "mesh.h"}, headers)
        # Types without a public call are not installed: no communicator, nor
        # what needs one.
        for header in sorted(headers):
            text = (self.prefix / "include/lockstep" / header).read_text()
            self.assertNotRegex(text, r"\bclass .*Communicator\b|\b(Send|Recv)Activation\b", header)
            for included in re.findall(r'#include "lockstep/([^"]+)"', text):
                self.assertIn(included, headers, header)
        self.assertEqual([name for name in headers if not name.endswith(".h")], [])


class ComponentsTest(unittest.TestCase):
    """The package's configuration file, beside fake target files."""

    def find(self, components):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            shutil.copy(BUILD / "lockstepConfig.cmake", root)
            (root / "lockstepTargets.cmake").touch()
            (root / "lockstepStaticTargets.cmake").touch()
            (root / "CMakeLists.txt").write_text(f"""
                cmake_minimum_required(VERSION 3.25)
                project(consumer LANGUAGES CXX)
                find_package(lockstep {components})
                message(STATUS "found: ${{lockstep_FOUND}}")
                """)
            done = subprocess.run(["cmake", "-S", root, "-B", root / "build", "-G", "Ninja",
                                   f"-Dlockstep_DIR={root}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
            return done.returncode, " ".join(done.stdout.split())

    def test_an_unknown_component_is_named_with_those_that_exist(self):
        code, output = self.find("REQUIRED COMPONENTS cuda")
        self.assertEqual(code, 1)
        self.assertIn("there is no component cuda: the components are static", output)

    def test_an_optional_component_may_be_unknown(self):
        code, output = self.find("OPTIONAL_COMPONENTS cuda")
        self.assertEqual(code, 0, output)
        self.assertIn("found: 1", output)


class InstallAfterOtherBuildTest(unittest.TestCase):

    def test_what_was_not_built_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "program.cc").write_text("int main() {}\n")
            (root / "CMakeLists.txt").write_text(f"""
                cmake_minimum_required(VERSION 3.25)
                project(other LANGUAGES CXX)
                list(APPEND CMAKE_MODULE_PATH "{CONSUMER.parents[2] / 'cmake'}")
                include(lockstep_install)
                add_executable(wanted program.cc)
                add_executable(unwanted program.cc)
                lockstep_install_programs(tools wanted no_such_target)
                """)
            output_of("cmake", "-S", root, "-B", root / "build", "-G", "Ninja")
            output_of("cmake", "--install", root / "build", "--prefix", root / "prefix")
            output_of(root / "prefix/bin/wanted")
            self.assertFalse((root / "build/unwanted").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
