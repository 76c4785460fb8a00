"""Coordinators with one journal in a real etcd on loopback, and a job of two workers.

Ports that clients must know before anything listens there are fixed, on an address of 127.0.0.0/8 that
is this process's alone.
"""

import argparse
import base64
import json
import os
import re
import subprocess
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

PARSER = argparse.ArgumentParser()
PARSER.add_argument("bin", type=lambda text: Path(text).resolve())
PARSER.add_argument("etcd", type=lambda text: Path(text).resolve())
OPTIONS, REST = PARSER.parse_known_args()
PATIENCE = 60
HOST = "127.{}.{}.{}".format(64 + (os.getpid() >> 16) % 64, os.getpid() >> 8 & 255,
                             max(1, os.getpid() & 255))


class Etcd:
    """Of one member, or several. `tls`: a folder with its certificates; it admits clients of the same
    authority."""

    def __init__(self, folder, members=1, tls=None, flags=(), name="etcd", port=2379):
        self.folder, self.members, self.tls, self.flags = folder, members, tls, flags
        self.name, self.port = name, port
        self.scheme = "https" if tls else "http"
        self.processes = [None] * members
        for member in range(members):
            self.start(member)

    def address(self, member=0):
        return f"{HOST}:{self.port + 10 * member}"

    def addresses(self):
        return ",".join(self.address(member) for member in range(self.members))

    def peer(self, member):
        return f"http://{HOST}:{self.port + 1 + 10 * member}"

    def start(self, member=0):
        client = f"{self.scheme}://{self.address(member)}"
        peers = ",".join(f"m{number}={self.peer(number)}" for number in range(self.members))
        tls = [f"--cert-file={self.tls}/tls.crt", f"--key-file={self.tls}/tls.key",
               f"--trusted-ca-file={self.tls}/ca.crt", "--client-cert-auth",
               "--enable-grpc-gateway=false"] if self.tls else []
        with open(self.folder / f"{self.name}-{member}.log", "a", encoding="utf-8") as log:
            self.processes[member] = subprocess.Popen(
                [OPTIONS.etcd, f"--name=m{member}", f"--data-dir={self.folder}/{self.name}-{member}",
                 f"--initial-cluster={peers}", f"--listen-peer-urls={self.peer(member)}",
                 f"--initial-advertise-peer-urls={self.peer(member)}",
                 f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                 "--heartbeat-interval=10", "--election-timeout=100", *tls, *self.flags],
                stdout=log, stderr=log)

    def kill(self, member=0):
        self.processes[member].kill()
        self.processes[member].wait()

    def signal(self, number, member):
        self.processes[member].send_signal(number)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    # --- Its JSON gateway: plaintext only ---

    def ask(self, path, member=0, **fields):
        request = urllib.request.Request(f"http://{self.address(member)}/v3/{path}",
                                         json.dumps(fields).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def await_up(self):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.ask("maintenance/status")
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def put(self, key, value, **fields):
        return self.ask("kv/put", key=base64.b64encode(key.encode()).decode(),
                        value=base64.b64encode(value.encode()).decode(), **fields)

    def delete(self, key):
        return self.ask("kv/deleterange", key=base64.b64encode(key.encode()).decode())

    def leader(self):
        """The number of the member that leads etcd."""
        statuses = [self.ask("maintenance/status", member) for member in range(self.members)]
        ids = [status["header"]["member_id"] for status in statuses]
        return ids.index(statuses[0]["leader"])


class Daemon:
    """A coordinator, with the lines of its log."""

    def __init__(self, folder, port, name, journal, flags=(), host=HOST):
        self.port = port
        self.path = folder / f"{name}.log"
        with open(self.path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [OPTIONS.bin / "lockstepd", "--listen", f"{host}:{port}", "--journal", journal,
                 *flags], stdout=subprocess.DEVNULL, stderr=log)

    def log(self):
        return self.path.read_text(encoding="utf-8")

    def leads(self):
        return "listening on" in self.log()

    def waits(self):
        return "waits: lockstepd on" in self.log()

    def term(self):
        return int(re.search(r"with term (\d+)", self.log())[1])

    def complaints(self):
        return [line for line in self.log().splitlines()
                if " error " in line or line.startswith("lockstepd: ")]


class FailoverCase(unittest.TestCase):
    """With an etcd; what it starts ends with the test."""

    members = 1
    etcd_flags = ()

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.daemons = []
        self.run = None
        self.asked = self.addresses()  # by lockstepctl
        self.inside = ()  # what starts lockstepctl and workers
        self.addCleanup(self.end_all)
        self.etcd = self.start_etcd()
        self.addCleanup(self.etcd.end)

    def start_etcd(self):
        return Etcd(self.folder, self.members, flags=self.etcd_flags)

    def end_all(self):
        if self.run is not None and self.run.poll() is None:
            self.run.terminate()
            self.run.wait()
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()

    def await_that(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(daemon.log() for daemon in self.daemons)
                self.fail(f"{what}: not within {PATIENCE} s\n{logs}")
            time.sleep(0.01)

    def start_daemon(self, port=None, etcd=None, flags=(), host=HOST):
        """On one of two ports, in turn, unless `port` says another one: the one before on it is dead."""
        number = len(self.daemons)
        daemon = Daemon(self.folder, port or 7001 + number % 2, f"daemon-{number}",
                        f"etcd://{etcd or self.etcd.addresses()}/lockstep/test", flags, host)
        self.daemons.append(daemon)
        return daemon

    def start_pair(self, *etcds, flags=()):
        """`etcds`: the addresses of etcd for the first one, and for the second one."""
        first, second = etcds or (None, None)
        leader = self.start_daemon(etcd=first, flags=flags)
        self.await_that(leader.leads, "the first one leads")
        standby = self.start_daemon(etcd=second, flags=flags)
        self.await_that(standby.waits, "the second one waits")
        return leader, standby

    def addresses(self):
        return f"{HOST}:7001,{HOST}:7002,{HOST}:7003"

    def start_job(self):
        self.output = open(self.folder / "output", "w+", encoding="utf-8")
        self.addCleanup(self.output.close)
        self.run = subprocess.Popen(
            [*self.inside, OPTIONS.bin / "lockstepctl", "run", "--address", self.asked, "-n", "2",
             "--job", "trained", "--", OPTIONS.bin / "recovering", "100000000"],
            stdout=self.output, stderr=subprocess.STDOUT)
        self.await_that(lambda: self.step() > 0, "the job trains")

    def ctl(self, *words):
        return subprocess.run([*self.inside, OPTIONS.bin / "lockstepctl", "--address", self.asked, *words],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    def step(self):
        found = re.search(r"^job trained +running +epoch (\d+) +step (\d+)",
                          self.ctl("describe", "trained").stdout, re.MULTILINE)
        if found is None:
            return 0
        self.assertEqual(found[1], "1", "an epoch ended")
        return int(found[2])

    def await_progress(self):
        step = self.step()
        self.await_that(lambda: self.step() > step, "the job goes on")

    def stop_job(self):
        """No worker failed, and no step."""
        stopped = self.ctl("stop", "trained")
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.run.wait(timeout=PATIENCE)
        output = (self.folder / "output").read_text(encoding="utf-8")
        self.assertEqual(self.run.returncode, 0, output[-3000:])
        self.assertNotIn("killed", output)

    def change_something(self):
        """Waits until a change of the job is durable."""
        for command in ("pause", "resume"):
            done = self.ctl(command, "trained")
            self.assertEqual(done.returncode, 0, done.stderr)
