"""The metrics of a real coordinator, while jobs train and while clients of the listener misbehave.

    metrics_test.py BIN_FOLDER

Prometheus' own parser reads each page, and Page checks what the parser lets pass.
"""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

BIN = Path(sys.argv.pop(1)).resolve()
PATIENCE = 60  # seconds
PROMTOOL = (shutil.which("promtool", path=f"{Path(__file__).resolve().parents[2]}/build/tools/usr/bin")
            or shutil.which("promtool"))
CONNECTIONS_MAX = 16  # MetricsListener::kConnectionsMax
LINE = re.compile(r"# (HELP|TYPE) \S+ .+|[a-z_:]+(\{([a-z_]+=\"([^\"\\\n]|\\[\\\"n])*\",?)*\})? [-+.\deInfNa]+")


def eventually(holds):
    """What holds() returned once it was true; the last one after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


class Page:
    """The families of a text, by name. Raises ValueError if it breaks a rule of the format."""

    def __init__(self, text):
        if not text.endswith("\n"):
            raise ValueError("the last line does not end")
        for line in text.splitlines():
            if not LINE.fullmatch(line):
                raise ValueError(f"no line of the format: {line}")
        self.samples = {}
        self.types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
        if len(self.types) != text.count("# TYPE"):
            raise ValueError("a metric has two types")
        for family in text_string_to_metric_families(text):
            if family.type not in ("counter", "gauge", "histogram") or not family.documentation:
                raise ValueError(f"{family.name} has no type or no help")
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                if key in self.samples:
                    raise ValueError(f"{key} is there twice")
                self.samples[key] = sample.value
            if family.type == "histogram":
                self._check(family)

    @staticmethod
    def _check(family):
        buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
        bounds = [float(sample.labels["le"]) for sample in buckets]
        counts = [sample.value for sample in buckets]
        (count,) = [sample.value for sample in family.samples if sample.name.endswith("_count")]
        if bounds != sorted(set(bounds)) or bounds[-1] != float("inf"):
            raise ValueError(f"the buckets of {family.name} are {bounds}")
        if counts != sorted(counts) or counts[-1] != count:
            raise ValueError(f"the counts of {family.name} are {counts}, of {count}")

    def get(self, name, **labels):
        """None if there is none."""
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def jobs(self):
        """The names of jobs in labels."""
        return {dict(labels)["job_name"] for _, labels in self.samples if "job_name" in dict(labels)}


class MetricsTest(unittest.TestCase):

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *flags, serves=True):
        port_file, self.log = self.folder / "port", self.folder / "log"
        port_file.unlink(missing_ok=True)
        with open(self.log, "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [BIN / "lockstepd", "--listen", "127.0.0.1:0", "--metrics_address", "127.0.0.1:0",
                 "--port_file", port_file, *flags], stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        told = eventually(lambda: re.search(r"metrics are told on 127\.0\.0\.1:(\d+)", self.log.read_text())
                          or self.daemon.poll() is not None)
        self.assertNotIn(told, (True, False), self.log.read_text())
        self.port = int(told[1])
        if serves:
            self.assertTrue(eventually(port_file.exists), self.log.read_text())
            self.address = port_file.read_text().strip()

    def ctl(self, *words):
        return subprocess.run([BIN / "lockstepctl", "--address", self.address, *words], capture_output=True,
                              text=True, timeout=PATIENCE, check=True).stdout

    def train(self, job, *run, workers=2, steps="1000000000"):
        launcher = subprocess.Popen(
            [BIN / "lockstepctl", "--address", self.address, "run", "-n", str(workers), "--job", job, *run, "--",
             BIN / "trouble_worker", steps, "quiet=0", "compute=1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(launcher.wait)
        self.addCleanup(launcher.terminate)
        return launcher

    def answer(self, request="GET", path="/metrics"):
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(request, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        self.assertEqual(int(answer.headers["Content-Length"]), len(body.encode()))
        connection.close()
        return answer.status, body

    def text(self):
        status, text = self.answer()
        self.assertEqual(status, 200, text)
        return text

    def scrape(self):
        return Page(self.text())

    def await_page(self, holds):
        """The first page of which holds() is true."""
        page = eventually(lambda: next((page for page in [self.scrape()] if holds(page)), None))
        self.assertIsNotNone(page, self.text())
        return page

    def expect_steps_go_on(self, job):
        before = self.scrape().get("lockstep_job_step", job_name=job)
        self.await_page(lambda page: page.get("lockstep_job_step", job_name=job) > before)


class ContentTest(MetricsTest):

    def test_a_job_is_followed_until_it_is_over(self):
        self.start()
        page = self.scrape()
        self.assertEqual(page.get("lockstep_leader"), 1)
        self.assertEqual(page.get("lockstep_jobs", state="running"), 0)
        self.assertEqual(page.jobs(), set())

        self.train("digits")
        page = self.await_page(lambda page: page.get("lockstep_job_step", job_name="digits"))
        self.assertEqual(page.get("lockstep_job_state", job_name="digits", state="running"), 1)
        self.assertEqual(page.get("lockstep_job_workers", job_name="digits"), 2)
        self.assertEqual(page.get("lockstep_job_workers_wanted", job_name="digits"), 2)
        self.assertEqual(page.get("lockstep_job_epoch", job_name="digits"), 1)
        self.assertEqual(page.get("lockstep_jobs", state="running"), 1)
        self.assertEqual(page.get("lockstep_sessions"), 2)
        self.assertEqual(page.get("lockstep_epochs_begun_total"), 1)
        self.assertGreater(page.get("lockstep_journal_commit_seconds_count"), 0)
        self.expect_steps_go_on("digits")
        page = self.scrape()
        self.assertAlmostEqual(page.get("lockstep_job_last_step_timestamp_seconds", job_name="digits"),
                               time.time(), delta=PATIENCE)

        self.ctl("pause", "digits")
        self.await_page(lambda page: page.get("lockstep_job_paused", job_name="digits") == 1)
        self.ctl("stop", "digits")
        page = self.await_page(lambda page: page.get("lockstep_jobs", state="stopped") == 1)
        self.assertEqual(page.get("lockstep_jobs_ended_total", outcome="stopped"), 1)
        self.assertEqual(page.jobs(), set(), "a job that is over leaves its label behind")

    @unittest.skipUnless(PROMTOOL, "needs promtool")
    def test_promtool_finds_nothing_to_say_about_the_page(self):
        self.start()
        self.train("digits")
        self.await_page(lambda page: page.get("lockstep_job_step", job_name="digits"))
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text(), capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_death_is_counted_by_its_cause(self):
        self.start()
        self.train("digits")
        self.await_page(lambda page: page.get("lockstep_job_step", job_name="digits"))
        self.assertEqual(self.scrape().get("lockstep_epochs_ended_total", cause="process_died"), 0)
        worker = json.loads(self.ctl("describe", "digits", "--json"))["workers"][1]
        os.kill(worker["pid"], signal.SIGKILL)
        page = self.await_page(lambda page: page.get("lockstep_jobs_ended_total", outcome="failed") == 1)
        self.assertEqual(page.get("lockstep_epochs_ended_total", cause="process_died"), 1)
        self.assertEqual(page.get("lockstep_jobs", state="failed"), 1)

    def test_refusals_are_those_of_lockstepctl_limits(self):
        self.start("--jobs_max", "1")
        spec = self.folder / "job.yaml"
        for name, code in (("one", 0), ("two", 1)):
            spec.write_text(f"name: {name}\nmesh: data=1\n")
            done = subprocess.run([BIN / "lockstepctl", "--address", self.address, "create", "-f", spec],
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode != 0, bool(code), done.stderr)
        page = self.await_page(lambda page: page.get("lockstep_limit_refused_total", limit="jobs") == 1)
        self.assertEqual(page.get("lockstep_jobs_created_total"), 1)
        for limit in json.loads(self.ctl("limits", "--json"))["limits"]:
            name = limit["name"]
            self.assertEqual(page.get("lockstep_limit", limit=name), limit["value"], name)
            self.assertEqual(page.get("lockstep_limit_refused_total", limit=name), limit["refused"], name)
            self.assertEqual(page.get("lockstep_limit_used", limit=name) is None, limit["now"] is None, name)

    def test_certificates_show_when_they_expire_and_nothing_secret(self):
        certs, token = self.folder / "certs", self.folder / "token"
        subprocess.run([BIN / "lockstepctl", "certs", "init", certs], check=True, capture_output=True)
        token.touch(mode=0o600)
        token.write_text("0123456789abcdef" * 4)
        self.start("--tls", certs / "coordinator", "--token_file", token)
        text = self.text()
        page = Page(text)
        for file in ("ca.crt", "tls.crt"):
            said = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", certs / "coordinator" / file],
                                  check=True, capture_output=True, text=True).stdout
            end = subprocess.run(["date", "+%s", "-d", said.strip().partition("=")[2]], check=True,
                                 capture_output=True, text=True).stdout
            self.assertEqual(page.get("lockstep_certificate_expiry_timestamp_seconds", file=file), float(end))
        self.assertNotIn(token.read_text(), text)
        self.assertNotIn(str(self.folder), text)

    def test_a_coordinator_that_does_not_lead_says_so(self):
        self.start("--journal", "etcd://127.0.0.1:1/lockstep", serves=False)
        page = self.scrape()
        self.assertEqual(page.get("lockstep_leader"), 0)
        self.assertIsNone(page.get("lockstep_term"))
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(timeout=PATIENCE), 0, self.log.read_text())

    def test_without_the_flag_nobody_listens(self):
        daemon = subprocess.Popen([BIN / "lockstepd", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(daemon.communicate)
        self.addCleanup(daemon.kill)
        self.assertIn("listening", daemon.stdout.readline())
        self.assertNotIn("ls-metrics", threads_of(daemon.pid))

    def test_an_address_that_cannot_be_is_refused(self):
        for address, code in (("nonsense", 2), ("127.0.0.1:99999", 2), ("192.0.2.1:7072", 1)):
            done = subprocess.run([BIN / "lockstepd", "--listen", "127.0.0.1:0", "--metrics_address", address],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(address, done.stderr)


def threads_of(pid):
    return [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]


class HostileClientsTest(MetricsTest):

    def setUp(self):
        super().setUp()
        self.start()
        self.train("digits")
        self.await_page(lambda page: page.get("lockstep_job_step", job_name="digits"))

    def connect(self, sent=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.sendall(sent)
        return connection

    def test_only_one_page_is_served(self):
        for request, path, status in (("GET", "/", 404), ("GET", "/metrics/x", 404), ("POST", "/metrics", 405),
                                      ("PUT", "/metrics", 405), ("DELETE", "/jobs", 404)):
            self.assertEqual(self.answer(request, path)[0], status, (request, path))
        self.expect_steps_go_on("digits")

    def test_stuck_scrapers_hold_nobody(self):
        """Some send half of a request, some read nothing of the answer."""
        before = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        for _ in range(250):
            self.connect(b"GET /met")
            self.connect(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        self.expect_steps_go_on("digits")
        self.assertEqual(self.scrape().get("lockstep_leader"), 1)
        self.assertLessEqual(len(os.listdir(f"/proc/{self.daemon.pid}/fd")), before + CONNECTIONS_MAX + 1)

    def test_garbage_is_answered_or_ended(self):
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed:", seed)
        draw = random.Random(seed)
        for size in (1, 10, 100, 1000, 8191, 8192, 8193, 200_000):
            garbage = draw.choice([draw.randbytes(size), b"GET " + b"/" * size, b"GET /metrics HTTP/1.1\r\n"
                                   + b"X: y\r\n" * size])
            connection = self.connect()
            try:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
            self.assertRegex(answer[:12], rb"\AHTTP/1\.1 4\d\d|\A\Z")
            connection.close()
        self.expect_steps_go_on("digits")

    def test_memory_does_not_grow_with_a_request(self):
        before = resident_kib(self.daemon.pid)
        for _ in range(4):
            connection = self.connect(b"GET /")
            try:
                for _ in range(64):
                    connection.sendall(b"a" * (1 << 20))
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                pass
            connection.close()
        self.expect_steps_go_on("digits")
        self.assertLess(resident_kib(self.daemon.pid), before + (16 << 10))

    def test_many_scrapes_are_made_once_a_second(self):
        begun = time.monotonic()
        texts = {self.text() for _ in range(300)}
        self.assertLessEqual(len(texts), time.monotonic() - begun + 1)
        self.expect_steps_go_on("digits")

    def test_a_stuck_scraper_does_not_delay_the_end(self):
        self.connect(b"GET /metrics HTTP/1.1\r\n\r\n")
        self.connect(b"GET")
        begun = time.monotonic()
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(timeout=PATIENCE), 0)
        # MetricsListener::kConnectionTime is 10 s; the drain of the workers' streams takes 5 s at most.
        self.assertLess(time.monotonic() - begun, 8)
        with self.assertRaises(ConnectionRefusedError):
            self.connect()


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


class PageTest(unittest.TestCase):
    """The checks themselves."""

    GOOD = ("# HELP a_seconds x\n# TYPE a_seconds histogram\na_seconds_count 2\na_seconds_sum 3\n"
            'a_seconds_bucket{le="1"} 1\na_seconds_bucket{le="+Inf"} 2\n')

    def test_a_good_page_is_read(self):
        self.assertEqual(Page(self.GOOD).get("a_seconds_bucket", le="1"), 1)

    def test_what_breaks_the_format_is_noticed(self):
        for old, new in (("} 2\n", "} 2"), ("} 2\n", "} 1\n"), ('le="1"', 'le="2'), ("# HELP a_seconds x\n", ""),
                         ('"1"} 1', '"1"} 3'), ("histogram", "summary"), ('a_seconds_bucket{le="1"} 1\n',
                                                                         'a_seconds_bucket{le="1"} 1\n' * 2)):
            with self.subTest(new), self.assertRaises(ValueError):
                Page(self.GOOD.replace(old, new, 1))


if __name__ == "__main__":
    unittest.main()
