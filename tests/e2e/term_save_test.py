"""`lockstepctl run --save-on-term`: SIGTERM of a launcher waits for a checkpoint.

    term_save_test.py BIN_FOLDER
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
PATIENCE = 60


class TermSaveTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("operator", "worker"):
            (self.folder / name).write_text(name * 8)
            (self.folder / name).chmod(0o600)
        self.processes = []
        self.addCleanup(self.end_all)
        port_file = self.folder / "port"
        self.daemon = self.start(
            [BIN / "lockstepd", "--listen", "127.0.0.1:0", "--port_file", port_file,
             "--token_file", self.folder / "operator",
             "--worker_token_file", self.folder / "worker"])
        self.await_that(port_file.exists, "the port")
        self.address = port_file.read_text().strip()
        token = self.folder / "join"
        token.write_text(subprocess.run(
            [BIN / "lockstepctl", "token", "digits", "--worker-token-file", self.folder / "worker"],
            capture_output=True, text=True, check=True).stdout)
        token.chmod(0o600)
        self.token = token

    def end_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        self.processes.append(process)
        return process

    def start_launcher(self, *flags, program=("--steps", "100000000")):
        """With the token of the job only, as in a pod."""
        return self.start(
            [BIN / "lockstepctl", "--address", self.address, "--token-file", self.token, "run",
             "-n", "1", *flags, "--job", "digits", "--", BIN / "digits", *program])

    def saving(self):
        return ("--steps", "100000000", "--save-every", "100000000", "--state", self.folder / "state")

    def job(self):
        said = subprocess.run(
            [BIN / "lockstepctl", "--address", self.address, "--token-file",
             self.folder / "operator", "describe", "digits", "--json"],
            capture_output=True, text=True, check=False)
        return json.loads(said.stdout) if said.returncode == 0 else {}

    def await_that(self, holds, what):
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def await_steps(self):
        self.await_that(lambda: any(worker["step"] > 5 for worker in self.job().get("workers", [])),
                        "steps")

    def checkpoints(self):
        return [path.parent.name for path in (self.folder / "state").rglob("MANIFEST.json")]

    def end_of(self, launcher):
        said = launcher.communicate(timeout=PATIENCE)[1]
        self.assertEqual(launcher.returncode, 128 + signal.SIGTERM, said)
        return said

    def test_the_job_saves_before_its_workers_end(self):
        launcher = self.start_launcher("--save-on-term", "60", program=self.saving())
        self.await_steps()
        self.assertEqual(self.checkpoints(), [])
        launcher.terminate()
        said = self.end_of(launcher)
        self.assertRegex(said, "saves before its workers end, for 1m at most\n"
                               "lockstepctl: job digits is saved\n.*killed by signal 15")
        self.assertEqual(len(self.checkpoints()), 1)
        events = [event["text"] for event in self.job()["events"]]
        self.assertTrue(any("are to end" in text and "save" in text for text in events), events)

    def test_launchers_that_end_together_save_once(self):
        nodes = [self.start_launcher("--save-on-term", "60", "--nodes", "2", "--node-rank", str(rank),
                                     "--data-plane", "trusted", "--host-address", "127.0.0.1",
                                     program=self.saving()) for rank in (0, 1)]
        self.await_steps()
        for launcher in nodes:
            launcher.send_signal(signal.SIGSTOP)
            launcher.terminate()
        for launcher in nodes:
            launcher.send_signal(signal.SIGCONT)
        said = [self.end_of(launcher) for launcher in nodes]
        self.assertTrue(any("is saved\n" in text for text in said), said)
        self.assertGreaterEqual(len(self.checkpoints()), 1)

    def test_a_second_signal_ends_the_wait(self):
        launcher = self.start_launcher("--save-on-term", "600")
        self.await_steps()
        launcher.terminate()
        while "saves before" not in launcher.stderr.readline():
            self.assertIsNone(launcher.poll())
        launcher.terminate()
        self.assertNotIn("is saved", self.end_of(launcher))

    def test_without_a_save_it_ends_after_that_time(self):
        launcher = self.start_launcher("--save-on-term", "0.5")
        self.await_steps()
        launcher.terminate()
        self.assertIn("is not saved: it was not committed within 500ms\n", self.end_of(launcher))

    def test_without_a_coordinator_it_ends_after_that_time(self):
        launcher = self.start_launcher("--save-on-term", "1", program=self.saving())
        self.await_steps()
        self.daemon.kill()
        self.daemon.wait()
        launcher.terminate()
        self.assertIn("is not saved: no coordinator answers", self.end_of(launcher))
        self.assertEqual(self.checkpoints(), [])

    def test_an_interrupt_does_not_wait(self):
        launcher = self.start_launcher("--save-on-term", "600", program=self.saving())
        self.await_steps()
        launcher.send_signal(signal.SIGINT)
        said = launcher.communicate(timeout=PATIENCE)[1]
        self.assertEqual(launcher.returncode, 128 + signal.SIGINT, said)
        self.assertNotIn("saves before", said)


if __name__ == "__main__":
    unittest.main()
