"""lockstepd as a service of systemd, played by this test: what it is told, and how its log looks.

    notify_test.py lockstepd
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(sys.argv[1]).resolve()
PATIENCE = 60
NOBODY = "127.0.0.1:1"  # a port on which nobody listens


class ServiceTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = self.enterContext((Path(self.folder) / "log").open("w+"))

    def listen_at(self, address):
        manager = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        manager.bind(address)
        manager.settimeout(PATIENCE)
        return manager

    def manager(self):
        self.address = f"{self.folder}/notify"
        return self.listen_at(self.address)

    def start(self, *flags, listen="127.0.0.1:0", **environment):
        daemon = subprocess.Popen([PROGRAM, "--listen", listen, *flags], env=environment,
                                  stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.addCleanup(daemon.communicate)
        self.addCleanup(daemon.kill)
        return daemon

    def told(self, manager):
        """The next notification, as a dict."""
        return dict(line.split("=", 1) for line in manager.recv(65536).decode().splitlines())

    def end(self, daemon, sign=signal.SIGTERM):
        daemon.send_signal(sign)
        self.assertEqual(daemon.wait(PATIENCE), 0, self.said())

    def said(self):
        return Path(self.log.name).read_text()

    def test_it_is_ready_when_it_listens_and_says_that_it_stops(self):
        manager = self.manager()
        daemon = self.start(NOTIFY_SOCKET=self.address)
        ready = self.told(manager)
        self.assertEqual(ready["READY"], "1")
        host, port = re.fullmatch(r"listening on (.*):(\d+)", ready["STATUS"]).groups()
        socket.create_connection((host, int(port)), PATIENCE).close()
        self.end(daemon)
        self.assertEqual(self.told(manager), {"STOPPING": "1", "STATUS": "going down: Terminated"})
        manager.settimeout(0)
        self.assertRaises(BlockingIOError, manager.recv, 1)

    def test_a_name_in_the_abstract_namespace(self):
        manager = self.listen_at("")  # the kernel chooses
        name = manager.getsockname().decode().replace("\0", "@")
        self.assertTrue(name.startswith("@"))
        self.start(NOTIFY_SOCKET=name)
        self.assertEqual(self.told(manager)["READY"], "1")

    def test_one_that_waits_until_it_leads_is_up(self):
        """Else systemd would end it after TimeoutStartSec."""
        manager = self.manager()
        daemon = self.start("--journal", f"etcd://{NOBODY}/test", NOTIFY_SOCKET=self.address)
        told = self.told(manager)
        self.assertEqual(told["READY"], "1")
        self.assertRegex(told["STATUS"], rf"waits: .*{NOBODY}")
        self.end(daemon)
        self.assertEqual(self.told(manager)["STOPPING"], "1")

    def test_it_says_again_and_again_that_it_is_alive(self):
        for journal in ("memory", f"etcd://{NOBODY}/test"):
            with self.subTest(journal):
                self.address = f"{self.folder}/notify-{journal[:4]}"
                manager = self.listen_at(self.address)
                daemon = self.start("--journal", journal, NOTIFY_SOCKET=self.address, WATCHDOG_USEC="200000")
                for _ in range(4):
                    while "WATCHDOG" not in (told := self.told(manager)):
                        self.assertIn("READY", told)
                # One that is stuck does not.
                daemon.send_signal(signal.SIGSTOP)
                manager.settimeout(0.5)
                with self.assertRaises(TimeoutError):
                    while True:
                        self.told(manager)
                daemon.send_signal(signal.SIGCONT)
                self.end(daemon)

    def test_the_watchdog_of_another_process_is_not_fed(self):
        manager = self.manager()
        self.start(NOTIFY_SOCKET=self.address, WATCHDOG_USEC="4000", WATCHDOG_PID="1")
        self.assertEqual(self.told(manager)["READY"], "1")
        manager.settimeout(0.2)
        self.assertRaises(TimeoutError, manager.recv, 1)

    def test_one_that_cannot_serve_is_never_ready(self):
        manager = self.manager()
        taken = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        daemon = self.start(listen=f"127.0.0.1:{taken.getsockname()[1]}", NOTIFY_SOCKET=self.address)
        self.assertEqual(daemon.wait(PATIENCE), 1)
        manager.settimeout(0)
        self.assertRaises(BlockingIOError, manager.recv, 1)

    def test_without_a_manager_it_serves_and_warns(self):
        for address in (f"{self.folder}/nobody", "vsock:2:1234", "/" + 200 * "x"):
            with self.subTest(address):
                daemon = self.start(NOTIFY_SOCKET=address)
                self.assertIn("listening", daemon.stdout.readline())
                self.end(daemon)
                self.assertIn(f"systemd is not told: NOTIFY_SOCKET {address}", self.said())

    def journal_stream(self):
        log = os.fstat(self.log.fileno())
        return f"{log.st_dev}:{log.st_ino}"

    def test_the_journal_gets_priorities(self):
        daemon = self.start(JOURNAL_STREAM=self.journal_stream(), NOTIFY_SOCKET=f"{self.folder}/nobody")
        daemon.stdout.readline()
        self.end(daemon)
        lines = self.said().splitlines()
        self.assertRegex("\n".join(lines), "<6>info listening on ")
        self.assertRegex("\n".join(lines), "<4>warning systemd is not told")
        for line in lines:
            self.assertRegex(line, r"^<[3467]>(error|warning|info|debug) ")

    def test_each_of_its_last_words_is_an_error(self):
        daemon = self.start(listen="0.0.0.0:0", JOURNAL_STREAM=self.journal_stream())
        self.assertEqual(daemon.wait(PATIENCE), 1)
        lines = self.said().splitlines()
        self.assertGreater(len(lines), 1)
        for line in lines:
            self.assertTrue(line.startswith("<3>"), line)

    def test_other_streams_get_times(self):
        for environment in ({}, {"JOURNAL_STREAM": "1:2"}):
            daemon = self.start(**environment)
            daemon.stdout.readline()
            self.end(daemon)
        for line in self.said().splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
