"""The names of jobs that have ended: taken over by create and run, freed by delete.

    job_names_test.py BIN_FOLDER
"""

import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()


class JobNames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.spec = Path(folder.name) / "spec.yaml"
        self.spec.write_text("name: digits\nmesh: data=2\n")
        port_file = Path(folder.name) / "port"
        daemon = subprocess.Popen(
            [BIN / "lockstepd", "--listen", "127.0.0.1:0", "--port_file", port_file, "--insecure"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        deadline = time.monotonic() + 60
        while not port_file.exists():
            self.assertIsNone(daemon.poll(), "lockstepd ended")
            self.assertLess(time.monotonic(), deadline, "lockstepd does not listen")
            time.sleep(0.01)
        self.address = port_file.read_text().strip()

    def ctl(self, *words, code=0):
        done = subprocess.run([BIN / "lockstepctl", "--address", self.address, *words],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def names(self):
        return [job["name"] for job in json.loads(self.ctl("jobs", "--json"))["jobs"]]

    def test_delete(self):
        self.ctl("create", "-f", self.spec)
        self.assertIn("stop it first", self.ctl("delete", "digits", code=1))
        self.ctl("stop", "--now")
        self.ctl("delete", "digits")
        self.assertEqual(self.names(), [])
        self.assertIn("there is no job digits", self.ctl("delete", "digits", code=1))

    def test_create_takes_the_name(self):
        self.ctl("create", "-f", self.spec)
        self.ctl("stop", "--now", "--reason", "enough")
        self.ctl("create", "-f", self.spec)
        self.assertEqual(self.names(), ["digits", "digits#1"])
        first = json.loads(self.ctl("describe", "digits#1", "--json"))
        self.assertEqual((first["name"], first["state"]), ("digits#1", "stopped"))
        second = json.loads(self.ctl("describe", "digits", "--json"))
        self.assertEqual((second["name"], second["state"]), ("digits", "forming"))

    def test_run_takes_the_name(self):
        self.ctl("create", "-f", self.spec)
        self.ctl("stop", "--now")
        self.ctl("run", "-n", "2", "-f", self.spec, "--", "true")
        self.assertEqual(self.names(), ["digits#1"])


if __name__ == "__main__":
    unittest.main()
