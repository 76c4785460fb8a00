"""Checks deploy/systemd: systemd understands the unit, and no line of it can go.

    systemd_test.py

The hardening is judged by `systemd-analyze security`, offline. What it does not weigh is in
WANTED. Each line of the unit is removed once, and then a complaint must follow.
"""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from systemd_unit import SYSTEMD, Unit, unit_text

# Ten times the exposure that systemd 252 computes. What is left of it is the network, which
# the service is for, and the root folder and clock device of the host.
EXPOSURE_MAX = 11

# What systemd-analyze does not weigh, or too little for a threshold in tenths.
WANTED = {
    ("Unit", "Description"): r".+",
    ("Unit", "After"): r"network-online\.target",
    ("Unit", "Wants"): r"network-online\.target",
    ("Unit", "StartLimitIntervalSec"): r"\d+",
    ("Unit", "StartLimitBurst"): r"\d+",
    ("Service", "Type"): r"notify",
    ("Service", "WatchdogSec"): r"60",
    ("Service", "Restart"): r"on-failure",
    ("Service", "RestartSec"): r"1",
    ("Service", "RestartPreventExitStatus"): r"2",
    ("Service", "TimeoutStopSec"): r"\d\d",
    ("Service", "User"): r"lockstepd",
    ("Service", "UMask"): r"0077",
    ("Service", "StateDirectory"): r"lockstepd",
    ("Service", "StateDirectoryMode"): r"0700",
    ("Service", "LimitNOFILE"): r"\d{5}",
    ("Service", "LimitCORE"): r"0",
    ("Service", "MemoryMax"): r"\d+G",
    ("Service", "TasksMax"): r"\d+",
    ("Service", "ProcSubset"): r"pid",
    ("Service", "ProtectHostname"): r"yes",
    ("Service", "RemoveIPC"): r"yes",
    ("Service", "LockPersonality"): r"yes",
    ("Service", "MemoryDenyWriteExecute"): r"yes",
    ("Service", "SystemCallErrorNumber"): r"EPERM",
    ("Install", "WantedBy"): r"multi-user\.target",
}


def complaints(text):
    """Everything that is wrong with a unit of that text."""
    return [*unmet(text), *complaints_of_systemd(text)]


def unmet(text):
    unit = Unit(text)
    return [f"{section}: {key} is {unit.get(section, key)}, not {pattern}"
            for (section, key), pattern in WANTED.items()
            if not re.fullmatch(pattern, unit.get(section, key) or "")]


def complaints_of_systemd(text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lockstepd.service"
        # The program need not be installed here.
        file.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.M))
        verify = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True,
                                check=False)
        security = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager",
             f"--threshold={EXPOSURE_MAX}", file], capture_output=True, text=True, check=False)
    found = verify.stderr.splitlines()
    if verify.returncode != 0:
        found.append(f"systemd-analyze verify: exit {verify.returncode}")
    if security.returncode != 0:
        found.append("systemd-analyze security: " + (security.stdout.strip().splitlines() or [security.stderr])[-1])
    return found


needs_systemd = unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")


class UnitTest(unittest.TestCase):

    @needs_systemd
    def test_nothing_is_wrong(self):
        self.assertEqual(complaints(unit_text()), [])

    @needs_systemd
    def test_no_line_can_go(self):
        unit = Unit(unit_text())
        for entry in unit.entries:
            with self.subTest(entry.key):
                self.assertNotEqual(complaints(unit.without(entry)), [])

    @needs_systemd
    def test_a_weaker_line_is_noticed(self):
        for key in ("NoNewPrivileges", "PrivateTmp", "ProtectKernelTunables", "RestrictSUIDSGID"):
            with self.subTest(key):
                self.assertNotEqual(complaints(unit_text().replace(f"{key}=yes", f"{key}=no")), [])

    @needs_systemd
    def test_a_misspelt_line_is_noticed(self):
        self.assertNotEqual(complaints(unit_text() + "[Service]\nProtectHomes=yes\n"), [])


class CommandTest(unittest.TestCase):

    def setUp(self):
        self.unit = Unit(unit_text())
        words = self.unit.command()[1:]
        self.flags = dict(zip(words[::2], words[1::2]))

    def test_it_is_in_plaintext_on_loopback_only(self):
        self.assertNotIn("--insecure", self.unit.command())
        self.assertEqual(self.flags["--tls"], "/etc/lockstep/tls")
        self.assertTrue(self.flags["--health_address"].startswith("127.0.0.1:"))

    def test_it_asks_for_tokens(self):
        self.assertEqual({self.flags["--token_file"], self.flags["--worker_token_file"]},
                         {"/etc/lockstep/tokens/operator", "/etc/lockstep/tokens/worker"})

    def test_its_journal_is_in_its_state_directory(self):
        self.assertEqual(self.flags["--journal"], f"%S/{self.unit.get('Service', 'StateDirectory')}")

    def test_its_files_are_named_in_the_head_and_in_the_manual(self):
        manual = (SYSTEMD.parents[1] / "docs/operations.md").read_text()
        for text in (unit_text().partition("[Unit]")[0], manual):
            for path in ("/etc/lockstep/tls", "/etc/lockstep/tokens", "/usr/lib/sysusers.d/lockstepd.conf"):
                self.assertIn(path, text)

    def test_its_files_suffice_for_its_connections(self):
        self.assertGreater(int(self.unit.get("Service", "LimitNOFILE")), 20000)


class StartLimitTest(unittest.TestCase):
    """What fails at each start stays down; what loses its leadership is started each time."""

    LEADS = 1.9  # seconds, without renewing its lease: kLeadsFor in server/etcd/leadership.cc

    def setUp(self):
        unit = Unit(unit_text())
        self.seconds = int(unit.get("Unit", "StartLimitIntervalSec"))
        self.burst = int(unit.get("Unit", "StartLimitBurst"))
        self.pause = int(unit.get("Service", "RestartSec"))

    def test_the_time_is_that_of_the_coordinator(self):
        code = (SYSTEMD.parents[1] / "server/etcd/leadership.cc").read_text()
        self.assertIn(f"kLeadsFor = absl::Milliseconds({self.LEADS * 1000:.0f});", code)

    def test_a_coordinator_that_loses_its_leadership_is_started_again(self):
        self.assertLess(self.seconds / (self.pause + self.LEADS), self.burst)

    def test_one_that_fails_at_once_is_not(self):
        self.assertGreater(self.seconds / (self.pause + 0.1), self.burst)


class SysusersTest(unittest.TestCase):

    @unittest.skipUnless(shutil.which("systemd-sysusers"), "systemd-sysusers is not installed")
    def test_it_makes_the_user_of_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "etc").mkdir()
            subprocess.run(["systemd-sysusers", f"--root={root}", SYSTEMD / "lockstepd.sysusers.conf"],
                           check=True, capture_output=True)
            users = (root / "etc/passwd").read_text().splitlines()
        (user,) = [line.split(":") for line in users if line.startswith("lockstepd:")]
        unit = Unit(unit_text())
        self.assertEqual(user[0], unit.get("Service", "User"))
        self.assertEqual(user[5], f"/var/lib/{unit.get('Service', 'StateDirectory')}")
        self.assertTrue(user[6].endswith("/nologin"), user)
        self.assertNotEqual(user[2], "0")


if __name__ == "__main__":
    unittest.main()
