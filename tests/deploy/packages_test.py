"""The Debian packages of ./run package: installed in a bare Debian 12, they serve a job there.

    packages_test.py DIGITS

Also runs the cases of images_test.py, with these packages and the given program.
Exits with 77 and the reason where no bare Debian can be made.
"""

import gzip
import re
import secrets
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import bare_root
import images_test
from bare_root import Host, output_of, wait_for_line
from images_test import ImagesTest  # unittest finds it here
from systemd_unit import Unit, unit_text

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("lockstepd", "liblockstep", "liblockstep-dev", "lockstep-tools")
COMPILER = ("cmake", "g++", "make")
VERSION = re.search(r"project\(lockstep VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def field(deb, name):
    return output_of("dpkg-deb", "--field", deb, name).strip()


def made():
    """{name without the library's version: file}, newly made."""
    files = [ROOT / line for line in output_of(ROOT / "run", "package").splitlines() if line.endswith(".deb")]
    return {re.sub(r"[\d.]+$", "", field(file, "Package")): file for file in files}


def dependencies(debs):
    """What of Debian they depend on: the first of alternatives, without versions."""
    words = ",".join(field(deb, "Depends") for deb in debs)
    names = {re.match(r"\s*([\w.+-]+)", part)[1] for part in words.split(",")}
    return sorted(names - {field(deb, "Package") for deb in debs})


class PackagesTest(unittest.TestCase):

    @classmethod
    def prepare(cls):
        cls.debs = made()
        if set(cls.debs) != set(NAMES):
            raise AssertionError(f"these were made: {sorted(cls.debs)}")
        cls.to_run = [cls.debs[name] for name in ("lockstepd", "liblockstep", "lockstep-tools")]
        cls.base = bare_root.with_archives("base", dependencies(cls.to_run), images_test.IMAGE_PACKAGES)
        ImagesTest.base = cls.base
        ImagesTest.parts = images_test.parts_of(cls.debs.values(), sys.argv[1])

    @classmethod
    def setUpClass(cls):
        cls.installed = cls.enterClassContext(bare_root.copied(cls.base))
        cls.installed.install(*cls.to_run)

    def setUp(self):
        self.root = self.enterContext(bare_root.copied(self.installed))

    def test_each_has_the_project_s_version_a_licence_and_a_place_in_the_manual(self):
        manual = (ROOT / "docs/operations.md").read_text()
        for deb in self.debs.values():
            with self.subTest(deb.name):
                package = field(deb, "Package")
                self.assertIn(f"| `{package}` |", manual)
                self.assertEqual(field(deb, "Version"), VERSION)
                contents = output_of("dpkg-deb", "--contents", deb)
                for name in ("copyright", "changelog.Debian.gz", "changelog.gz"):
                    self.assertIn(f"./usr/share/doc/{package}/{name}\n", contents)

    def test_the_changes_are_in_debian_s_format(self):
        packed = gzip.decompress((self.root / "usr/share/doc/lockstepd/changelog.Debian.gz").read_bytes())
        said = output_of("dpkg-parsechangelog", "-l", "-", input=packed.decode())
        self.assertIn(f"\nVersion: {VERSION}\n", said)
        self.assertNotIn("warning", said)

    def test_each_program_has_a_manual_with_all_its_commands_and_options(self):
        for program in ("lockstepd", "lockstepctl", "lockstep-perf"):
            page = gzip.decompress((self.root / f"usr/share/man/man1/{program}.1.gz").read_bytes()).decode()
            for words in ([], ["doctor"], ["plan", "simulate"])[:3 if program == "lockstepctl" else 1]:
                said = self.root.do(program, *words, "--help")
                for name in re.findall(r"^  (?:-\w,)?(--[\w-]+|[a-z]\w+)", said, re.MULTILINE):
                    self.assertIn(name.replace("-", r"\-"), page, program)
            self.assertRegex(page, rf"^\.TH {program} 1 .*Lockstep {VERSION}")

    def test_the_daemon_s_unit_starts_what_is_packaged(self):
        unit = self.root / "usr/lib/systemd/system/lockstepd.service"
        self.assertEqual(unit.read_text(), unit_text().replace("/usr/local/bin/lockstepd", "/usr/bin/lockstepd"))
        self.assertEqual(self.root.do("systemd-analyze", "verify", "lockstepd.service"), "")
        owners = self.root.do("stat", "--format=%U:%G %a %n", "/etc/lockstep/tls", "/etc/lockstep/tokens",
                              "/var/lib/lockstepd")
        self.assertEqual(owners.splitlines(), ["root:lockstepd 750 /etc/lockstep/tls",
                                               "root:lockstepd 750 /etc/lockstep/tokens",
                                               "lockstepd:lockstepd 700 /var/lib/lockstepd"])

    def test_what_is_not_the_package_s_outlives_it(self):
        kept = [self.root / "var/lib/lockstepd/mark", self.root / "etc/lockstep/tls/tls.key"]
        for file in kept:
            file.write_text("kept")
        self.root.apt("install", "--reinstall", f"/tmp/{self.debs['lockstepd'].name}")
        self.root.apt("purge", "lockstepd")
        self.assertEqual([file.read_text() for file in kept], ["kept", "kept"])
        self.assertFalse((self.root / "usr/bin/lockstepd").exists())
        self.assertFalse((self.root / "usr/lib/systemd/system/lockstepd.service").exists())

    def test_a_purge_leaves_neither_empty_folders_nor_an_enabled_unit(self):
        self.root.do("systemctl", "enable", "lockstepd")
        link = self.root / "etc/systemd/system/multi-user.target.wants/lockstepd.service"
        self.assertTrue(link.is_symlink())
        self.root.apt("purge", "lockstepd")
        for gone in (link, self.root / "etc/lockstep", self.root / "var/lib/lockstepd"):
            self.assertFalse(gone.is_symlink() or gone.exists(), gone)

    def test_a_policy_of_the_host_keeps_the_daemon_as_it_is(self):
        """With a systemctl that writes down what it is told, and a policy that forbids all."""
        asked = self.root / "asked"
        for there, script in (("usr/bin/systemctl", 'echo "$*" >>/asked'), ("usr/sbin/policy-rc.d", "exit 101")):
            file = self.root / there
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
        (self.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        deb = f"/tmp/{self.debs['lockstepd'].name}"
        for words in (("install", "--reinstall", deb), ("purge", "lockstepd")):
            self.root.apt(*words)
            for action in ("restart", "stop"):
                self.assertNotIn(action, asked.read_text())
        self.root.apt("install", deb)
        asked.unlink()
        (self.root / "usr/sbin/policy-rc.d").unlink()
        self.root.apt("install", "--reinstall", deb)
        self.assertIn("try-restart lockstepd.service", asked.read_text())

    def test_a_consumer_s_program_trains_on_the_daemon_of_the_package(self):
        program = self.built_program()
        shutil.copy(program, self.root / "usr/local/bin")
        self.make_secrets()
        with Host() as host:
            host.mount(self.root)
            words = Unit((self.root / "usr/lib/systemd/system/lockstepd.service").read_text()).command()
            daemon = host.start(self.root, *(word.replace("%S", "/var/lib") for word in words),
                                user="lockstepd:lockstepd")
            wait_for_line(daemon, r"listening on")
            said = host.do(self.root, "lockstepctl", "--address", "localhost:7070", "--tls", "/srv/certs/operator",
                           "--token-file", "/srv/operator", "run", "--worker-token-file", "/srv/worker",
                           "--worker-tls", "/srv/certs/worker", "-n", "2", "--", program.name, user="root:root")
            self.assertEqual(sorted(said.splitlines()), ["worker 0: w = 3.000", "worker 1: w = 3.000"])
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=30)
            self.assertEqual(daemon.returncode, 0)

    def built_program(self):
        """The example minimal, built as a consumer in a Debian with the -dev package."""
        debs = [self.debs["liblockstep"], self.debs["liblockstep-dev"]]
        compiler = bare_root.with_installed(self.base, sorted({*COMPILER, *dependencies(debs)}))
        root = self.enterContext(bare_root.copied(compiler))
        root.install(*debs)
        shutil.copytree(ROOT / "tests/install/consumer", root / "src/consumer")
        root.do("cmake", "-S", "/src/consumer", "-B", "/src/build", "-DCMAKE_BUILD_TYPE=Release")
        root.do("cmake", "--build", "/src/build")
        self.assertEqual(root.do("/src/build/consumer_of_client"), "no coordinator, as expected\n")
        return self.built_minimal(root)

    def built_minimal(self, root):
        shutil.copytree(ROOT / "examples/minimal", root / "src/minimal", ignore=shutil.ignore_patterns("CMakeLists.txt"))
        (root / "src/minimal/CMakeLists.txt").write_text("""
            cmake_minimum_required(VERSION 3.25)
            project(minimal LANGUAGES CXX)
            find_package(lockstep REQUIRED)
            add_executable(minimal minimal.cc)
            target_link_libraries(minimal PRIVATE lockstep::client)
            """)
        root.do("cmake", "-S", "/src/minimal", "-B", "/src/build-minimal")
        root.do("cmake", "--build", "/src/build-minimal")
        return root / "src/build-minimal/minimal"

    def make_secrets(self):
        """As docs/operations.md does."""
        self.root.do("lockstepctl", "certs", "init", "/srv/certs", "--host", "localhost")
        for file in ("ca.crt", "tls.crt", "tls.key"):
            self.give_to_the_daemon(self.root / "srv/certs/coordinator" / file, f"/etc/lockstep/tls/{file}")
        for who in ("operator", "worker"):
            token = self.root / "srv" / who
            token.touch(mode=0o600)
            token.write_text(secrets.token_hex(32) + "\n")
            self.give_to_the_daemon(token, f"/etc/lockstep/tokens/{who}")

    def give_to_the_daemon(self, file, there):
        inside = "/" + str(file.relative_to(self.root.path))
        self.root.do("install", "-m", "0640", "-o", "root", "-g", "lockstepd", inside, there)


if __name__ == "__main__":
    try:
        bare_root.require()
        PackagesTest.prepare()
    except bare_root.Unavailable as why:
        print(f"skipped: no bare Debian 12 can be made here: {why}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
