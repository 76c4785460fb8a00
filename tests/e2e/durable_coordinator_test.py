"""A daemon with a journal is killed while jobs train, and started again.

    durable_coordinator_test.py BIN_FOLDER
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
PATIENCE = 60
SPEC = """name: trouble
mesh: data=2
{mode}
timeouts: {{join: 60s, lease: 20s, resume: 20s}}
"""


class DurableTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.journal = self.folder / "journal"
        self.spec = self.folder / "spec.yaml"
        self.daemon = None
        self.address = None
        self.workers = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in [self.daemon, *self.workers]:
            if process is not None and process.poll() is None:
                process.kill()
                process.communicate()

    # --- Processes ---

    def start_daemon(self, prefix=(), flags=()):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        self.daemon = subprocess.Popen(
            [*prefix, BIN / "lockstepd", "--listen", self.address or "127.0.0.1:0",
             "--port_file", port_file, "--journal", self.journal, *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.await_that(lambda: port_file.exists() or self.daemon.poll() is not None, "the port")
        if self.daemon.poll() is not None:
            self.fail(self.daemon.communicate()[1])
        self.address = port_file.read_text().strip()

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.communicate()

    def start_workers(self, steps, mode="", program="trouble_worker", more=("quiet=0",)):
        self.spec.write_text(SPEC.format(mode=mode))
        for name in ("worker-0", "worker-1"):
            environment = {"LOCKSTEP_ADDRESS": self.address, "LOCKSTEP_JOB": "trouble",
                           "LOCKSTEP_WORKER_NAME": name, "LOCKSTEP_WORLD_SIZE": "2",
                           "LOCKSTEP_SPEC": str(self.spec), "PATH": os.environ["PATH"]}
            self.workers.append(subprocess.Popen(
                [BIN / program, str(steps), *more], env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT))

    def expect_that_workers_succeed(self):
        for worker in self.workers:
            said = worker.communicate(timeout=PATIENCE)[0]
            self.assertEqual(worker.returncode, 0, said)
            self.assertEqual(said.split()[-1], "done", said)

    # --- Queries ---

    def ctl(self, *words):
        return subprocess.run([BIN / "lockstepctl", "--address", self.address, *words],
                              capture_output=True, text=True, check=False)

    def job(self):
        said = self.ctl("describe", "trouble", "--json")
        return json.loads(said.stdout) if said.returncode == 0 else {}

    def step(self):
        return max((worker["step"] for worker in self.job().get("workers", [])), default=0)

    def await_that(self, holds, what):
        deadline = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"{what}: {self.address and self.ctl('describe', 'trouble').stdout}")
            time.sleep(0.02)

    def await_steps(self, more=1):
        begun = self.step()
        self.await_that(lambda: self.step() >= begun + more, "steps")

    def expect_the_same_epoch(self):
        """Both workers resume in epoch 1 as they were, and steps go on."""
        self.await_that(lambda: [w["state"] for w in self.job().get("workers", [])] == ["ready"] * 2,
                        "the workers resume")
        job = self.job()
        self.assertEqual(job["epoch"], 1)
        self.assertEqual([w["generation"] for w in job["workers"]], [1, 1])
        self.assertEqual([w["rank"] for w in job["workers"]], [0, 1])


class RestartTest(DurableTest):
    def train_through_a_restart(self, mode):
        self.start_daemon()
        self.start_workers(100_000_000, mode)
        self.await_steps()
        parameters = self.job()["parameters"]
        for _ in range(3):
            self.kill_daemon()
            self.start_daemon()
            self.expect_the_same_epoch()
            self.await_that(lambda: self.job().get("parameters") == parameters, "the plan")
            events = [event["text"] for event in self.job()["events"]]
            self.assertTrue(any("has sent the plan again" in text for text in events), events)
            self.assertFalse(any("register again" in text for text in events), events)
            self.await_steps()
        self.assertEqual(self.ctl("stop", "trouble").returncode, 0)
        self.expect_that_workers_succeed()
        self.assertEqual(self.job()["state"], "stopped")

    def test_steps_go_on(self):
        self.train_through_a_restart("")

    def test_negotiated_steps_go_on(self):
        self.train_through_a_restart("sync: negotiated")

    def test_a_paused_job_stays_paused_and_resumes(self):
        self.start_daemon()
        self.start_workers(100_000_000)
        self.await_steps()
        self.assertEqual(self.ctl("pause", "trouble").returncode, 0)
        paused = lambda: [w.get("paused") for w in self.job().get("workers", [])] == [True, True]
        self.await_that(paused, "paused")
        self.kill_daemon()
        self.start_daemon()
        self.expect_the_same_epoch()
        self.await_that(paused, "still paused")
        self.assertEqual(self.ctl("resume", "trouble").returncode, 0)
        self.await_steps()
        self.assertEqual(self.ctl("stop", "trouble").returncode, 0)
        self.expect_that_workers_succeed()

    def test_leave_waits_for_the_daemon(self):
        self.start_daemon()
        self.start_workers(100_000_000)
        self.await_steps()
        self.assertEqual(self.ctl("drain", "trouble").returncode, 0)
        # The last step may be over before the daemon is: then the answer is lost.
        self.kill_daemon()
        time.sleep(3)  # longer than a worker waits for a daemon that is there
        self.start_daemon()
        self.expect_that_workers_succeed()

    def test_steps_of_an_outage_are_no_failure(self):
        self.start_daemon()
        self.start_workers(400_000)
        self.await_steps()
        self.kill_daemon()
        # The workers finish, and wait in Leave.
        self.await_that(lambda: all(asleep(worker.pid) for worker in self.workers), "in Leave")
        self.start_daemon()
        self.expect_that_workers_succeed()
        job = self.job()
        self.assertEqual((job["state"], job["epoch"]), ("completed", 1))
        (summary,) = json.loads(self.ctl("jobs", "--json").stdout)["jobs"]
        self.assertEqual(summary["step"], 400_000)

    def test_many_kills(self):
        seed = 5
        picks = random.Random(seed)
        self.start_daemon()
        self.start_workers(300_000)
        for _ in range(10):
            time.sleep(picks.random() * 0.25)
            self.kill_daemon()
            self.start_daemon()
        self.expect_that_workers_succeed()
        self.assertEqual(self.job()["state"], "completed", f"seed {seed}")
        self.assertEqual(self.job()["epoch"], 1, f"seed {seed}")


def asleep(pid):
    """The process uses no processor for a while."""
    def ticks():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    before = ticks()
    time.sleep(1)
    return ticks() - before < 20


class JournalTest(DurableTest):
    def expect_refusal(self, *words):
        daemon = subprocess.run(
            [BIN / "lockstepd", "--listen", "127.0.0.1:0", "--journal", self.journal],
            capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.assertEqual(daemon.returncode, 1, daemon.stderr)
        for word in words:
            self.assertIn(word, daemon.stderr)

    def create_jobs(self, count):
        for number in range(count):
            self.spec.write_text(SPEC.format(mode="").replace("trouble", f"job-{number}"))
            self.assertEqual(self.ctl("create", "-f", self.spec).returncode, 0)

    def names(self):
        return [job["name"] for job in json.loads(self.ctl("jobs", "--json").stdout)["jobs"]]

    def test_a_second_daemon_names_the_first(self):
        self.start_daemon()
        self.expect_refusal(f"process {self.daemon.pid}")

    def test_a_torn_end_is_dropped_unless_it_was_promised(self):
        self.start_daemon()
        self.create_jobs(2)
        mark = (self.journal / "mark").read_bytes()
        self.create_jobs(3)
        self.kill_daemon()
        log = self.journal / "journal.db-wal"
        os.truncate(log, log.stat().st_size - 100)
        self.expect_refusal("record 3", "1 of 3 records that were durable are gone",
                            "journal.db-wal", f"lockstepctl journal repair {self.journal}")
        said = self.journal_ctl("verify", code=1)
        self.assertNotIn("intact,", said)
        self.assertIn("lockstepctl journal repair", said)
        # As the crash would have left it before the third job was promised.
        (self.journal / "mark").write_bytes(mark)
        self.start_daemon()
        self.assertEqual(self.names(), ["job-0", "job-1"])

    def test_a_flipped_bit_is_named(self):
        self.start_daemon()
        self.create_jobs(3)
        self.kill_daemon()
        log = self.journal / "journal.db-wal"
        content = bytearray(log.read_bytes())
        content[content.index(b"job-1") + 2] ^= 4
        log.write_bytes(content)
        self.expect_refusal("record 2 of the journal is damaged")
        self.expect_refusal("record 2 of the journal is damaged")

    def journal_ctl(self, *words, code=0):
        said = subprocess.run([BIN / "lockstepctl", "journal", *words, self.journal],
                              capture_output=True, text=True, check=False)
        self.assertEqual(said.returncode, code, said.stdout + said.stderr)
        return said.stdout + said.stderr

    def test_verify_and_dump(self):
        self.start_daemon()
        self.create_jobs(3)
        self.assertIn(f"process {self.daemon.pid}", self.journal_ctl("verify", code=1))
        self.assertIn("is in use", self.journal_ctl("repair", code=1))
        self.kill_daemon()
        self.assertIn("intact, 3 records, 3 jobs", self.journal_ctl("verify"))
        self.assertIn("nothing was changed", self.journal_ctl("repair"))
        self.assertIn('job: "job-2"', self.journal_ctl("dump"))
        records = [json.loads(line)["record"] for line in self.journal_ctl("dump", "--json").splitlines()]
        self.assertEqual([r["header"]["job"] for r in records], ["job-0", "job-1", "job-2"])
        (self.journal / "journal.db").unlink()
        for command in ("verify", "dump", "repair"):
            self.assertIn("journal.db is missing", self.journal_ctl(command, code=1))
        self.expect_refusal("journal.db is missing", "mark")
        self.journal = self.folder / "elsewhere"
        self.assertIn("elsewhere", self.journal_ctl("verify", code=1))
        self.journal.mkdir()
        self.assertIn("there is no journal in", self.journal_ctl("verify", code=1))

    def test_a_running_job_outlives_a_damaged_journal(self):
        self.start_daemon()
        self.create_jobs(1)
        self.start_workers(100_000_000)
        self.await_steps()
        self.kill_daemon()
        log = self.journal / "journal.db-wal"
        content = bytearray(log.read_bytes())
        content[content.rindex(b"worker-1") + 2] ^= 4
        log.write_bytes(content)
        self.expect_refusal("of the journal is damaged")
        said = self.journal_ctl("verify", code=1)
        self.assertIn("damaged after record", said)
        said = self.journal_ctl("repair")
        self.assertIn("new ones begin at", said)
        self.assertEqual((self.journal / "damaged-1" / "journal.db-wal").read_bytes(), bytes(content))
        self.assertIn("intact", self.journal_ctl("verify"))
        self.start_daemon()
        self.expect_the_same_epoch()
        self.await_steps()
        self.assertEqual(sorted(self.names()), ["job-0", "trouble"])
        self.assertEqual(self.ctl("stop", "trouble").returncode, 0)
        self.expect_that_workers_succeed()

    def test_another_token_opens_the_jobs_of_before(self):
        for token in ("first", "second"):
            file = self.folder / token
            file.write_text(token)
            file.chmod(0o600)
            self.start_daemon(flags=("--token_file", file))
            if token == "first":
                self.spec.write_text(SPEC.format(mode=""))
                self.assertEqual(self.ctl("create", "--token", token, "-f", self.spec).returncode, 0)
            jobs = json.loads(self.ctl("jobs", "--token", token, "--json").stdout)["jobs"]
            self.assertEqual([job["name"] for job in jobs], ["trouble"])
            self.kill_daemon()

    def test_a_launcher_keeps_its_jobs_too(self):
        for number in (1, 2):
            said = subprocess.run(
                [BIN / "lockstepctl", "run", "-n", "2", "--job", "trouble", "--journal", self.journal,
                 "--", BIN / "trouble_worker", "3", "quiet=0"],
                capture_output=True, text=True, check=False)
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
            self.assertIn(f", {number} job", self.journal_ctl("verify"))

    def test_an_exit_without_a_daemon_is_reported_later(self):
        self.start_daemon()
        self.spec.write_text("name: trouble\nmesh: data=2\nelastic: {axis: data, min_workers: 1}\n"
                             "limits: {max_restarts: 9}\ntimeouts: {lease: 1h, resume: 1h}\n")
        launcher = subprocess.Popen(
            [BIN / "lockstepctl", "run", "-n", "2", "--address", self.address, "-f", self.spec,
             "--", BIN / "recovering_worker", "100000000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.workers.append(launcher)
        self.await_steps()
        pids = {worker["name"]: worker["pid"] for worker in self.job()["workers"]}
        self.kill_daemon()
        os.kill(pids["worker-0"], signal.SIGSTOP)  # it cannot report the other's death
        os.kill(pids["worker-1"], signal.SIGKILL)
        while "goes on without worker-1" not in launcher.stderr.readline():
            self.assertIsNone(launcher.poll())
        self.start_daemon()
        os.kill(pids["worker-0"], signal.SIGKILL)
        lost = lambda: [w["state"] for w in self.job().get("workers", [])] == ["lost"] * 2
        self.await_that(lost, "both reports")

    def test_a_full_disk_is_an_alarm_and_steps_go_on(self):
        mount = ["unshare", "-Urm", "sh", "-c",
                 'mount -t tmpfs -o size=400k none "$0" && exec "$@"', str(self.folder / "disk")]
        (self.folder / "disk").mkdir()
        if not shutil.which("unshare") or subprocess.run([*mount, "true"], check=False,
                                                         capture_output=True).returncode != 0:
            self.skipTest("no namespaces here")
        self.journal = self.folder / "disk" / "journal"
        self.start_daemon(mount)
        self.start_workers(100_000_000)
        self.await_steps()
        seen = Path(f"/proc/{self.daemon.pid}/root{self.folder}/disk/fill")
        fill(seen)
        for _ in range(2):
            said = self.ctl("pause", "trouble")
            self.assertEqual(said.returncode, 1, said.stderr)
            self.assertIn("cannot make this durable, because its journal has no room", said.stderr)
        self.assertIn("other", self.ctl("pause", "other").stderr)  # refused, as always
        warned = lambda: any("journal has no room" in w for w in self.job().get("warnings", []))
        self.await_that(warned, "the alarm")
        self.await_steps()
        seen.unlink()
        self.await_that(lambda: not warned(), "the end of the alarm")
        paused = lambda: [w.get("paused") for w in self.job().get("workers", [])] == [True, True]
        self.await_that(paused, "the pause that waited")
        self.assertEqual(self.ctl("resume", "trouble").returncode, 0)
        self.assertEqual(self.ctl("stop", "trouble").returncode, 0)
        self.expect_that_workers_succeed()
        self.daemon.send_signal(signal.SIGTERM)
        said = self.daemon.communicate()[1]
        self.assertIn("the journal has no room", said)
        self.assertIn("has room again", said)


class EmptyJournalTest(DurableTest):
    """The next daemon has an empty journal, while a survivor waits."""

    def train(self):
        self.start_daemon()
        self.start_workers(100_000_000, "limits: {max_restarts: 3}", "recovering_worker", ())
        self.await_steps()
        self.survivor, self.victim = self.workers

    def start_daemon_without_journal(self):
        self.journal = self.folder / "another"
        self.start_daemon()

    def expect_that_the_survivor_ends(self, *words):
        begun = time.monotonic()
        said = self.survivor.communicate(timeout=PATIENCE)[0]
        self.assertLess(time.monotonic() - begun, 15, said)  # timeouts.join is 60 s
        self.assertEqual(self.survivor.returncode, 1, said)
        self.assertIn("error NOT_FOUND", said)
        self.assertIn("this coordinator does not know", said)
        self.assertIn("Start the workers of the job again", said)
        for word in words:
            self.assertIn(word, said)

    def test_a_survivor_that_recovers_ends(self):
        self.train()
        self.kill_daemon()
        self.victim.kill()
        self.victim.communicate()
        self.await_that(lambda: asleep(self.survivor.pid), "in Recover")
        self.start_daemon_without_journal()
        self.expect_that_the_survivor_ends("epoch 1 of job trouble", "has ended")

    def test_a_survivor_that_joins_ends(self):
        self.train()
        self.victim.kill()
        self.victim.communicate()
        self.await_that(lambda: [w["generation"] for w in self.job().get("workers", [])
                                 if w["name"] == "worker-0"] == [2], "in Join")
        self.kill_daemon()
        self.start_daemon_without_journal()
        self.expect_that_the_survivor_ends("does not know job trouble", "worker-0 has")
        self.assertEqual(self.job(), {}, "it created a job")


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()
