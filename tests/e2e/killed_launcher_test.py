"""The token file of a launcher that was killed: a later coordinator at its address is not taken for the old one.

    killed_launcher_test.py BIN_FOLDER
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()


def wait_for(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within 60 s: {what}")
        time.sleep(0.01)


def is_free(address):
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return False
    return True


class KilledLauncher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")
        } | {"XDG_RUNTIME_DIR": folder.name}

    def start(self, *words):
        process = subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def token_files(self):
        return sorted((self.folder / "lockstep").glob("*.token"))

    def launch(self):
        launcher = self.start(BIN / "lockstepctl", "run", "-n", "1", "--", "sleep", "1000")
        wait_for(self.token_files, "a token file")
        return launcher, self.token_files()[0].name.removesuffix(".token")

    def jobs(self, address):
        return subprocess.run([BIN / "lockstepctl", "--address", address, "jobs"], env=self.environment,
                              capture_output=True, text=True, check=False)

    def serve(self, address, *options):
        port_file = self.folder / "port"
        self.start(BIN / "lockstepd", "--listen", address, "--port_file", port_file, *options)
        wait_for(port_file.exists, "lockstepd listens")

    def kill(self, launcher, address):
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
        wait_for(lambda: is_free(address), "the private coordinator has ended, too")
        self.assertEqual(len(self.token_files()), 1, "the file is left")

    def test_a_later_coordinator_at_the_address(self):
        launcher, address = self.launch()
        self.assertEqual(self.jobs(address).returncode, 0, "the launcher's token is found")
        self.assertEqual(len(self.token_files()), 1)
        self.kill(launcher, address)
        token_file = self.folder / "token"
        token_file.write_text("another token\n")
        token_file.chmod(0o600)
        self.serve(address, "--token_file", token_file)
        refused = self.jobs(address)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("needs a token", refused.stderr, "no old one was sent")
        self.assertEqual(self.token_files(), [])
        self.environment["LOCKSTEP_TOKEN"] = "another token"
        self.assertEqual(self.jobs(address).returncode, 0)

    def test_a_later_coordinator_without_tokens(self):
        launcher, address = self.launch()
        self.kill(launcher, address)
        self.serve(address, "--insecure")
        listed = self.jobs(address)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertEqual(self.token_files(), [])

    # A file of another mode made lockstepctl refuse.
    def test_a_file_that_cannot_be_read_is_none_either(self):
        launcher, address = self.launch()
        self.kill(launcher, address)
        self.token_files()[0].chmod(0o644)
        self.serve(address, "--insecure")
        self.assertEqual(self.jobs(address).returncode, 0)

    def test_a_later_launcher_is_operated(self):
        self.kill(*self.launch())
        old = self.token_files()
        self.start(BIN / "lockstepctl", "run", "-n", "1", "--job", "later", "--", "sleep", "1000")
        wait_for(lambda: len(self.token_files()) == 2, "another token file")
        (new,) = set(self.token_files()) - set(old)
        listed = self.jobs(new.name.removesuffix(".token"))
        self.assertEqual(listed.returncode, 0, listed.stderr)
        unreachable = self.jobs("127.0.0.1:1")
        self.assertEqual(unreachable.returncode, 3)
        self.assertEqual(self.token_files(), [new], "listing the private coordinators removes old files")


if __name__ == "__main__":
    unittest.main()
