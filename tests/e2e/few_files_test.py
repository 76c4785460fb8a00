"""Programs with few open files report it: none is killed by a signal, none prints nothing.

    few_files_test.py BIN_FOLDER
"""

import resource
import subprocess
import sys
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
# With more files than this a worker waits for a coordinator that does not
# answer.
WORKER_FILES_MAX = 10


def run(files, *words):
    """Runs a program with at most `files` descriptors, including the standard ones."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    environment = {"LOCKSTEP_ADDRESS": "127.0.0.1:1", "LOCKSTEP_JOB": "j",
                   "LOCKSTEP_WORLD_SIZE": "2", "PATH": "/usr/bin:/bin"}
    if words[1:2] == ("run",):
        del environment["LOCKSTEP_ADDRESS"]
    return subprocess.run([BIN / words[0], *words[1:]], preexec_fn=limit, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)


class FdLimit(unittest.TestCase):
    def expect_refusals(self, words, limits):
        """Every run exits with an error and a line on stderr."""
        for files in limits:
            done = run(files, *words)
            told = f"{words} with {files} files: {done.returncode}: {done.stderr}"
            self.assertGreater(done.returncode, 0, told)
            self.assertLess(done.returncode, 128, told)
            self.assertNotEqual(done.stderr.strip(), "", told)

    def expect_limit_named(self, words, files, code):
        done = run(files, *words)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, rf"needs at least \d+ open files \(ulimit -n\), "
                                      rf"its limit is {files}\n")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_the_daemon(self):
        words = ("lockstepd", "--listen", "127.0.0.1:0")
        self.expect_refusals(words, range(3, 25))
        self.expect_limit_named(words, 24, 1)

    def test_the_tool(self):
        words = ("lockstepctl", "jobs")
        self.expect_refusals(words, range(3, 25))
        self.expect_limit_named(words, 9, 1)

    def test_the_launcher(self):
        words = ("lockstepctl", "run", "-n", "2", "--", "/bin/true")
        self.expect_refusals(words, range(3, 25))
        self.expect_limit_named(words, 20, 2)

    def test_the_demo(self):
        words = ("lockstep-demo", "--workers", "6", "--steps", "2")
        self.expect_refusals(words, range(3, 25))
        self.expect_limit_named(words, 24, 1)

    def test_a_worker(self):
        self.expect_refusals(("digits",), range(3, WORKER_FILES_MAX + 1))
        done = run(WORKER_FILES_MAX, "digits")
        self.assertRegex(done.stderr, r"needs at least \d+ open files")

    def test_what_needs_no_coordinator_needs_few(self):
        self.assertEqual(run(8, "lockstepctl", "--version").returncode, 0)
        self.assertEqual(run(8, "lockstepd", "--version").returncode, 0)


if __name__ == "__main__":
    unittest.main()
