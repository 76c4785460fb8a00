"""Two coordinators with one journal in etcd: one leads, and the other one follows when it dies.

    failover_test.py BIN_FOLDER ETCD [--kills N]

With --kills it kills the leader N times while a job trains, and prints how long
it took until a worker was told something by the next one.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PARSER = argparse.ArgumentParser()
PARSER.add_argument("bin", type=lambda text: Path(text).resolve())
PARSER.add_argument("etcd", type=lambda text: Path(text).resolve())
PARSER.add_argument("--kills", type=int, default=0)
OPTIONS, REST = PARSER.parse_known_args()
PATIENCE = 60
# Ports that clients must know before: on an address of this process alone.
HOST = "127.{}.{}.{}".format(64 + (os.getpid() >> 16) % 64, os.getpid() >> 8 & 255,
                             max(1, os.getpid() & 255))


class Etcd:
    def __init__(self, folder):
        self.folder = folder
        self.start()

    def start(self):
        urls = {"listen-client-urls": 2379, "advertise-client-urls": 2379,
                "listen-peer-urls": 2380, "initial-advertise-peer-urls": 2380}
        self.log = open(self.folder / "etcd.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [OPTIONS.etcd, "--name=a", f"--data-dir={self.folder}/etcd",
             f"--initial-cluster=a=http://{HOST}:2380", "--heartbeat-interval=10",
             "--election-timeout=100",
             *(f"--{flag}=http://{HOST}:{port}" for flag, port in urls.items())],
            stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Daemon:
    """A coordinator, with the lines of its log."""

    def __init__(self, folder, port, name):
        self.port = port
        self.path = folder / f"{name}.log"
        with open(self.path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [OPTIONS.bin / "lockstepd", "--listen", f"{HOST}:{port}",
                 "--journal", f"etcd://{HOST}:2379/lockstep/test"],
                stdout=subprocess.DEVNULL, stderr=log)

    def log(self):
        return self.path.read_text(encoding="utf-8")

    def leads(self):
        return "listening on" in self.log()

    def term(self):
        return int(re.search(r"with term (\d+)", self.log())[1])


class FailoverTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.daemons = []
        self.run = None
        self.addCleanup(self.end_all)
        self.etcd = Etcd(self.folder)

    def end_all(self):
        if self.run is not None and self.run.poll() is None:
            self.run.terminate()
            self.run.wait()
        for process in [*(d.process for d in self.daemons), self.etcd.process]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.etcd.log.close()

    def await_that(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(daemon.log() for daemon in self.daemons)
                self.fail(f"{what}: not within {PATIENCE} s\n{logs}")
            time.sleep(0.01)

    def start_daemon(self):
        """On one of two ports, in turn: the one before on it is dead."""
        number = len(self.daemons)
        daemon = Daemon(self.folder, 7001 + number % 2, f"daemon-{number}")
        self.daemons.append(daemon)
        return daemon

    def start_pair(self):
        leader = self.start_daemon()
        self.await_that(leader.leads, "the first one leads")
        standby = self.start_daemon()
        self.await_that(lambda: "waits: " in standby.log(), "the second one waits")
        return leader, standby

    def addresses(self):
        return f"{HOST}:7001,{HOST}:7002"

    def start_job(self):
        self.output = open(self.folder / "output", "w+", encoding="utf-8")
        self.addCleanup(self.output.close)
        self.run = subprocess.Popen(
            [OPTIONS.bin / "lockstepctl", "run", "--address", self.addresses(), "-n", "2",
             "--job", "trained", "--", OPTIONS.bin / "recovering", "100000000"],
            stdout=self.output, stderr=subprocess.STDOUT)
        self.await_that(lambda: self.step() > 0, "the job trains")

    def ctl(self, *words):
        return subprocess.run([OPTIONS.bin / "lockstepctl", "--address", self.addresses(), *words],
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

    def test_the_next_one_leads_when_the_leader_is_killed(self):
        leader, standby = self.start_pair()
        self.start_job()
        term = leader.term()
        leader.process.kill()
        leader.process.wait()
        self.await_that(standby.leads, "the standby leads")
        self.assertGreater(standby.term(), term)
        self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
        self.await_progress()
        self.stop_job()

    def test_a_leader_that_goes_down_in_order_hands_over_at_once(self):
        leader, standby = self.start_pair()
        self.start_job()
        begin = time.monotonic()
        leader.process.terminate()
        self.assertEqual(leader.process.wait(PATIENCE), 0)
        ended = time.monotonic()
        self.await_that(standby.leads, "the standby leads")
        print(f"the standby leads {time.monotonic() - ended:.2f} s after the leader ended, which "
              f"took {ended - begin:.2f} s")
        self.await_progress()
        self.stop_job()

    def test_a_leader_that_was_stopped_changes_nothing_afterwards(self):
        leader, standby = self.start_pair()
        self.start_job()
        leader.process.send_signal(signal.SIGSTOP)
        self.await_that(standby.leads, "the standby leads")
        self.await_progress()
        leader.process.send_signal(signal.SIGCONT)
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        self.assertIn("this coordinator leads no more", leader.log())
        self.await_progress()
        self.stop_job()
        self.assertNotIn("error", standby.log())

    def test_etcd_may_be_away(self):
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.kill()
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        self.await_that(lambda: "no member of etcd answers" in standby.log(), "an error is logged")
        self.etcd.start()
        self.await_that(standby.leads, "the standby leads")
        self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
        self.await_progress()
        self.stop_job()

    def test_a_leader_ends_though_a_request_waits_for_etcd(self):
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.kill()
        asked = subprocess.Popen(
            [OPTIONS.bin / "lockstepctl", "--address", self.addresses(), "pause", "trained"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(asked.wait)
        self.addCleanup(asked.kill)
        begin = time.monotonic()
        self.assertEqual(leader.process.wait(PATIENCE), 1, "etcd is still away")
        print(f"the leader ended {time.monotonic() - begin:.2f} s after etcd was killed")
        self.etcd.start()
        self.await_that(standby.leads, "the standby leads")
        self.await_progress()

    def test_a_standby_ends_when_it_is_told_to(self):
        _, standby = self.start_pair()
        standby.process.terminate()
        self.assertEqual(standby.process.wait(PATIENCE), 0)

    def test_other_machines_are_not_asked_in_plaintext(self):
        for where, words in (("etcd://10.0.0.1:2379/a", "--etcd_tls"),
                             ("etcd://10.0.0.1/a", "is no HOST:PORT"),
                             ("etcd://127.0.0.1:2379", "PREFIX"),
                             ("etcd://127.0.0.1:2379/a b", "PREFIX")):
            done = subprocess.run([OPTIONS.bin / "lockstepd", "--journal", where],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


class FailoverTimes(FailoverTest):
    """Each leader is killed; the next one was waiting."""

    def test_times(self):
        leader, standby = self.start_pair()
        self.start_job()
        times = []
        for _ in range(OPTIONS.kills):
            begin = time.time()
            leader.process.kill()
            leader.process.wait()
            self.await_that(lambda: " resumes" in standby.log(), "a worker resumes")
            lines = standby.log().splitlines()
            at = {word: next(line for line in lines if word in line)
                  for word in (" info leads the coordinators", " resumes")}
            seconds = {word: time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")) +
                       float(line[19:23]) - begin for word, line in at.items()}
            times.append((seconds[" info leads the coordinators"], seconds[" resumes"]))
            self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
            leader, standby = standby, self.start_daemon()
            self.await_that(lambda: "waits: " in standby.log(), "the next one waits")
            self.await_progress()
        self.stop_job()
        for name, values in (("until the next one leads (etcd's lease)", [t[0] for t in times]),
                             ("until a worker resumed", [t[1] for t in times])):
            values.sort()
            print(f"{name}: median {statistics.median(values):.2f} s, p99 "
                  f"{values[min(len(values) - 1, int(0.99 * len(values)))]:.2f} s, most "
                  f"{values[-1]:.2f} s, of {len(values)} kills")


if __name__ == "__main__":
    chosen = "FailoverTimes.test_times" if OPTIONS.kills else "FailoverTest"
    unittest.main(argv=[sys.argv[0], chosen, *REST])
