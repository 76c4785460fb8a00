"""The programs under bad conditions: full disks, closed streams, no folder for temporary files.

    rough_treatment_test.py BIN_FOLDER

None may kill itself by a signal, hang, or succeed without having done its work.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLANNED = Path(__file__).resolve().parents[2] / "examples/specs/gpt-pipe4.yaml"
BIN = Path(sys.argv.pop(1)).resolve()


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    return {**kept, **changes}


def run(*words, stdout=subprocess.PIPE, shell_end="", **changes):
    """A program's outcome; `shell_end` redirects as a shell does."""
    script = f'exec "$@" {shell_end}'
    return subprocess.run(["/bin/sh", "-c", script, "sh", BIN / words[0], *words[1:]],
                          env=environment(**changes), stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)


class Daemon:
    """A daemon on a free port, started by a shell."""

    def __init__(self, test, shell_end="", log=subprocess.DEVNULL):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        port_file = Path(folder.name) / "port"
        script = f'exec "$0" --listen 127.0.0.1:0 --port_file "$1" {shell_end}'
        self.process = subprocess.Popen(["/bin/sh", "-c", script, BIN / "lockstepd", port_file],
                                        env=environment(), stdout=subprocess.DEVNULL, stderr=log,
                                        text=True)
        test.addCleanup(self.end)
        while not port_file.exists() and self.process.poll() is None:
            os.sched_yield()
        self.address = port_file.read_text().strip()

    def end(self):
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()

    def ctl(self, *words, **options):
        return run("lockstepctl", "--address", self.address, *words, **options)


class RoughTreatment(unittest.TestCase):
    def spec(self, name):
        file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.addCleanup(file.close)
        file.write(f"name: {name}\nmesh: data=2\n")
        file.flush()
        return file.name

    def test_output_that_is_lost_is_an_error(self):
        daemon = Daemon(self)
        self.assertEqual(daemon.ctl("create", "-f", self.spec("full")).returncode, 0)
        for words in (("jobs",), ("jobs", "--json"), ("describe",), ("watch", "full"),
                      ("create", "-f", self.spec("other")), ("--help",), ("--version",),
                      ("plan", "compile", "-f", PLANNED, "-o", "/dev/null"), ("stop", "--now", "full")):
            done = daemon.ctl(*words, shell_end=">/dev/full")
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("standard output", done.stderr, words)

    def test_closed_streams_are_no_files_of_the_program(self):
        daemon = Daemon(self, shell_end="<&- >&- 2>&-")
        for stream in range(3):
            self.assertEqual(os.readlink(f"/proc/{daemon.process.pid}/fd/{stream}"), "/dev/null")
        for end in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            self.assertEqual(daemon.ctl("jobs", shell_end=end).returncode, 0, end)

    def test_the_daemon_outlives_the_reader_of_its_log(self):
        daemon = Daemon(self, log=subprocess.PIPE)
        daemon.process.stderr.close()
        for name in ("a", "b"):
            self.assertEqual(daemon.ctl("create", "-f", self.spec(name)).returncode, 0)
        self.assertEqual(len(re.findall("forming", daemon.ctl("jobs").stdout)), 2)
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(60), 0)

    def test_watch_tries_every_address(self):
        daemon = Daemon(self)
        self.assertEqual(daemon.ctl("create", "-f", self.spec("w")).returncode, 0)
        self.assertEqual(daemon.ctl("stop", "w").returncode, 0)
        done = run("lockstepctl", "--address", f"127.0.0.1:1,{daemon.address}", "watch", "w")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("stopped", done.stdout)
        done = run("lockstepctl", "--address", "127.0.0.1:1", "watch", "w")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no coordinator answers at 127.0.0.1:1", done.stderr)

    def test_without_a_folder_for_temporary_files(self):
        for words in (("lockstepctl", "run", "-n", "1", "--", "/bin/true"),
                      ("lockstep-demo", "--workers", "1", "--steps", "1")):
            for folder in ("/no/such/folder", "/proc"):
                done = run(*words, TMPDIR=folder)
                self.assertGreater(done.returncode, 0, done.stderr)
                self.assertLess(done.returncode, 128, done.stderr)
                self.assertIn("TMPDIR", done.stderr)

    def test_addresses_are_checked_before_they_are_tried(self):
        for wrong in ("nonsense", "host:", "host:99999", "127.0.0.1:x", "::1:70", "127.0.0.1:0",
                      ":7070", "127.0.0.1:1,nonsense", ","):
            for words in (("jobs",), ("run", "-n", "1", "--", "/bin/true")):
                done = run("lockstepctl", "--address", wrong, *words)
                self.assertEqual(done.returncode, 2, f"{wrong}: {done.stderr}")
                self.assertIn("--address", done.stderr)
        for unreachable in ("127.0.0.1:1", "[::1]:1", "localhost:1, 127.0.0.1:1", "dns:///[::1]:1"):
            done = run("lockstepctl", "--address", unreachable, "jobs")
            self.assertEqual(done.returncode, 3, f"{unreachable}: {done.stderr}")

    def test_a_grace_is_a_number_of_seconds(self):
        for grace in ("nan", "inf", "-1", "1e300", "soon"):
            done = run("lockstepctl", "run", "-n", "1", "--grace", grace, "--", "/bin/true")
            self.assertEqual(done.returncode, 2, grace)
            self.assertIn("seconds", done.stderr)


if __name__ == "__main__":
    unittest.main()
