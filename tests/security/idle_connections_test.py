"""A thousand idle connections to a real coordinator: a running job goes on, and workers join.

    idle_connections_test.py BIN_FOLDER
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
CONNECTIONS = 1000
PATIENCE = 60  # seconds


def eventually(holds):
    """What holds() returned once it was true; the last one after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def is_closed(connection):
    """Whether the peer has; skips the bytes that it sent before."""
    try:
        while connection.recv(4096, socket.MSG_DONTWAIT):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


class IdleConnections(unittest.TestCase):
    def start(self, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        port_file = Path(folder.name) / "port"
        daemon = subprocess.Popen(
            [BIN / "lockstepd", "--listen", "127.0.0.1:0", "--port_file", port_file, *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        self.assertTrue(eventually(port_file.exists))
        self.address = port_file.read_text().strip()

    def ctl(self, *words):
        done = subprocess.run([BIN / "lockstepctl", "--address", self.address, *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def limit(self, name):
        limits = json.loads(self.ctl("limits", "--json"))["limits"]
        return next(limit for limit in limits if limit["name"] == name)

    def step(self, job):
        return json.loads(self.ctl("describe", job, "--json"))["workers"][0]["step"]

    def train(self, job):
        """A job of one worker that trains until the end of the test."""
        run = subprocess.Popen(
            [BIN / "lockstepctl", "--address", self.address, "run", "-n", "1", "--job", job, "--",
             BIN / "trouble_worker", "1000000000", "quiet=0", "compute=1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        self.assertTrue(eventually(lambda: self.job_steps(job)), f"{job} does not train")

    def job_steps(self, job):
        jobs = json.loads(self.ctl("jobs", "--json"))["jobs"]
        return any(entry["name"] == job and entry["step"] > 0 for entry in jobs)

    def expect_goes_on(self, job):
        before = self.step(job)
        self.assertTrue(eventually(lambda: self.step(job) > before), f"{job} stands still")

    def connect(self):
        host, port = self.address.rsplit(":", 1)
        opened = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
        self.addCleanup(lambda: [connection.close() for connection in opened])
        return opened

    def test_idle_ones_are_closed_after_a_time(self):
        self.start()
        self.train("before")
        idle = self.connect()
        self.assertTrue(eventually(lambda: self.limit("connections")["now"] > CONNECTIONS))
        self.train("meanwhile")
        self.expect_goes_on("before")
        self.assertFalse(all(map(is_closed, idle)), "closed before they were idle for long")
        self.assertTrue(eventually(lambda: all(map(is_closed, idle))), "idle ones stay open")
        self.assertEqual(self.limit("connections")["refused"], 0)
        self.expect_goes_on("before")
        self.expect_goes_on("meanwhile")

    def test_those_beyond_the_limit_are_refused(self):
        self.start("--connections_max", "100")
        self.train("before")
        idle = self.connect()
        self.assertTrue(eventually(lambda: sum(map(is_closed, idle)) >= CONNECTIONS - 100))
        self.assertTrue(eventually(lambda: all(map(is_closed, idle))), "idle ones stay open")
        self.assertGreaterEqual(self.limit("connections")["refused"], CONNECTIONS - 100)
        self.assertLessEqual(self.limit("connections")["highest"], 100)
        self.train("afterwards")
        self.expect_goes_on("before")


if __name__ == "__main__":
    unittest.main()
