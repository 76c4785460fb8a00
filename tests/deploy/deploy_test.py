"""Checks deploy/: its manifests are valid, and its parts agree with each other and
with the given programs.

    deploy_test.py [lockstepd] [lockstepctl] [digits]

The cases of the manifests alone are in kubernetes_test.py.
"""

import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import deployment
from alerts_test import AlertsTest  # unittest finds them here
from deployment import (OVERLAYS, bytes_of, container_of, environment_of, flags_of, golden,
                        launcher_and_program, port_of)
from dockerfile import Dockerfile
from kubernetes_test import GoldenTest, PolicyTest, SchemaTest  # unittest finds them here
from rehearsal import (PATIENCE, SECRETS, Pod, issue, make_secrets, mount_tokens, rehearsed,
                       running_daemon)
from systemd_unit import Unit, unit_text

PROGRAMS = {Path(path).name: Path(path).resolve() for path in sys.argv[1:]}
needs_all_programs = unittest.skipUnless(len(PROGRAMS) == 3, "needs all programs")


class DockerfileTest(unittest.TestCase):

    def test_its_ports_are_those_it_listens_on(self):
        exposed = Dockerfile().one("coordinator", "EXPOSE")
        flags = flags_of(Dockerfile().command("coordinator"))
        self.assertEqual([int(port) for port in exposed.split()],
                         [port_of(flags["--listen"]), port_of(flags["--health_address"])])

    def test_what_it_copies_of_the_tree_exists(self):
        for copy in Dockerfile().all("build", "COPY"):
            for source in copy.split()[:-1]:
                self.assertTrue((deployment.DEPLOY.parent / source).exists(), source)

    def test_its_base_is_pinned(self):
        for stage, base in Dockerfile().bases.items():
            self.assertRegex(base, r"^debian:bookworm-\d{8}-slim@sha256:[0-9a-f]{64}$", stage)


@needs_all_programs
class DaemonTest(unittest.TestCase):
    """lockstepd accepts its flags and settings in deploy/."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        make_secrets(PROGRAMS["lockstepctl"], self.folder)

    def commands(self):
        return {
            "Dockerfile": Dockerfile().command("coordinator")[1:],
            **{overlay: container_of(golden(overlay).coordinator)["args"] for overlay in ("local", "production")},
            "lockstepd.service": Unit(unit_text()).command()[1:],
        }

    def test_it_starts_with_these_flags_and_drains(self):
        for source, words in self.commands().items():
            with self.subTest(source), running_daemon(PROGRAMS["lockstepd"], words, self.folder) as daemon:
                daemon.port()
                daemon.process.send_signal(signal.SIGTERM)
                said = daemon.process.communicate(timeout=PATIENCE)[1]
                self.assertEqual(daemon.process.returncode, 0, said)

    def test_one_of_several_waits_for_etcd_with_these_flags(self):
        words = container_of(golden("ha").coordinator)["args"]
        with running_daemon(PROGRAMS["lockstepd"], words, self.folder) as daemon:
            line = next(line for line in daemon.process.stderr if "health" not in line)
            self.assertIn("no member of etcd answers", line)
            self.assertIn("127.0.0.1:1", line)
            daemon.process.send_signal(signal.SIGTERM)
            said = daemon.process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(daemon.process.returncode, 0, said)

    def test_it_refuses_a_flag_it_does_not_know(self):
        done = subprocess.run([PROGRAMS["lockstepd"], "--no_such_flag"], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)

    def test_it_refuses_a_journal_that_fsgroup_has_opened(self):
        """Why fsGroupChangePolicy is OnRootMismatch."""
        words = rehearsed(container_of(golden("local").coordinator)["args"], self.folder)
        journal = Path(flags_of(words)["--journal"])
        with running_daemon(PROGRAMS["lockstepd"], words, self.folder) as daemon:
            daemon.port()
        journal.chmod(0o2770)
        done = subprocess.run([PROGRAMS["lockstepd"], *words], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(journal), done.stderr)


@needs_all_programs
class FlagsTest(unittest.TestCase):

    def test_the_launcher_has_the_flags_of_the_workers(self):
        known = set(re.findall(r"--[a-z][\w-]*", output_of(PROGRAMS["lockstepctl"], "--help")
                               + output_of(PROGRAMS["lockstepctl"], "run", "--help")))
        for overlay in OVERLAYS:
            launcher, _ = launcher_and_program(container_of(golden(overlay).workers)["args"])
            self.assertEqual(set(flags_of(launcher)) - known, set())

    def test_the_example_has_the_flags_of_the_workers(self):
        known = set(re.findall(r"--[a-z][\w-]*", output_of(PROGRAMS["digits"], "--help")))
        for overlay in OVERLAYS:
            _, program = launcher_and_program(container_of(golden(overlay).workers)["args"])
            self.assertEqual(program[0], "digits")
            self.assertEqual(set(flags_of(program)) - known, set())


class Rehearsal(unittest.TestCase):
    """The Job of an overlay on this host: its flags, its spec, fewer steps."""

    OVERLAY = "local"
    STEPS = 600  # three seconds or more, so that none has done them before its signal arrives

    def setUp(self):
        self.cluster = golden(self.OVERLAY)
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        make_secrets(PROGRAMS["lockstepctl"], self.folder)
        (Path(self.folder) / "job.yaml").write_text(self.cluster.spec_text)
        daemon = self.enterContext(running_daemon(
            PROGRAMS["lockstepd"], container_of(self.cluster.coordinator)["args"], self.folder))
        self.port = daemon.port()

    def start_pod(self, index, limits=()):
        pod = Pod(PROGRAMS, self.cluster.workers, index, self.folder, self.port, self.STEPS, limits)
        self.addCleanup(pod.stop)
        return pod

    def operate(self, *words):
        return output_of(PROGRAMS["lockstepctl"], "--address", f"localhost:{self.port}", "--tls",
                         f"{self.folder}/certs/operator", "--token-file", f"{self.folder}/tokens/operator", *words)


@needs_all_programs
class RehearsalTest(Rehearsal):

    def test_one_pod_is_replaced_without_the_others(self):
        for ending in (signal.SIGTERM, signal.SIGKILL):  # evicted; lost
            with self.subTest(ending.name):
                first, second = self.start_pod(0), self.start_pod(1)
                first.wait_for(rf"\b[1-9]\d*/{self.STEPS}")
                second.process.send_signal(ending)
                second.process.wait(timeout=PATIENCE)
                self.assertNotEqual(second.process.returncode, 0)
                replacement = self.start_pod(1)
                for pod in (first, replacement):
                    self.assertEqual(pod.process.wait(timeout=PATIENCE), 0, pod.said())
                job = json.loads(self.operate("describe", "digits", "--json"))
                self.assertEqual((job["state"], job["epoch"]), ("completed", 2))
                self.operate("delete", "digits")

    def test_a_spec_with_an_unknown_field_is_one_error_and_no_job(self):
        (Path(self.folder) / "job.yaml").write_text(self.cluster.spec_text + "retries: 3\n")
        pod = self.start_pod(0)
        self.assertEqual(pod.process.wait(timeout=PATIENCE), 2)
        self.assertEqual(len(pod.said().splitlines()), 1)
        self.assertIn("retries", pod.said())
        self.assertEqual(json.loads(self.operate("jobs", "--json"))["jobs"], [])

    def test_a_pod_without_enough_shared_memory_says_so_in_its_log(self):
        pod = self.start_pod(0, limits=[(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))])
        pod.wait_for(r"error: memory: not enough shared memory: 1.0 MiB is left .*; fix: ")

    def test_a_pod_has_enough_memory(self):
        pods = [self.start_pod(index) for index in range(2)]
        ends = [pod.end() for pod in pods]
        self.assertEqual([code for code, _ in ends], [0, 0])
        largest = max(memory for _, memory in ends)
        container = container_of(self.cluster.workers)
        processes = 1 + int(environment_of(container)["WORKERS_PER_POD"])
        self.assertLess(processes * largest, bytes_of(container["resources"]["limits"]["memory"]))


@needs_all_programs
class QueueTest(Rehearsal):
    """Kueue suspends a Job when another one gets its place, which ends all pods at once."""

    OVERLAY = "kueue"

    def test_all_pods_end_and_others_go_on(self):
        pods = [self.start_pod(index) for index in range(2)]
        pods[0].wait_for(rf"\b[1-9]\d*/{self.STEPS}")
        # The job trains on while it saves, and loses what it does then.
        reported = max(map(int, re.findall(rf"\b(\d+)/{self.STEPS}", pods[0].said())))
        for pod in pods:
            pod.process.send_signal(signal.SIGTERM)
        for pod in pods:
            # With 0 the index of the pod would count as done.
            self.assertNotEqual(pod.process.wait(timeout=PATIENCE), 0, pod.said())
        for pod in [self.start_pod(index) for index in range(2)]:
            self.assertEqual(pod.process.wait(timeout=PATIENCE), 0, pod.said())
            resumed = re.search(r"resumed join (\d+)", pod.said())
            self.assertGreaterEqual(int(resumed[1]), reported, "steps done before the signal are lost")
        job = json.loads(self.operate("describe", "digits", "--json"))
        self.assertEqual(job["state"], "completed")


@needs_all_programs
class CertManagerTest(unittest.TestCase):
    """The certificates that component tls orders admit whom they should."""

    def setUp(self):
        self.cluster = golden("production")
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        mount_tokens(PROGRAMS["lockstepctl"], self.folder)
        self.made = issue([one["spec"] for one in self.cluster.all("Certificate") if not one["spec"].get("isCA")],
                          self.folder / "made")
        words = [word.replace(f"{SECRETS}/tls", str(self.made / "lockstep-coordinator-tls"))
                 for word in container_of(self.cluster.coordinator)["args"]]
        daemon = self.enterContext(running_daemon(PROGRAMS["lockstepd"], words, self.folder))
        self.address = f"localhost:{daemon.port()}"

    def operate(self, secret, *words):
        return subprocess.run([PROGRAMS["lockstepctl"], "--address", self.address, "--tls", self.made / secret,
                               "--token-file", self.folder / "tokens/operator", *words],
                              capture_output=True, text=True, check=False)

    def test_an_operator_creates_the_job_of_production(self):
        (self.folder / "job.yaml").write_text(self.cluster.spec_text)
        done = self.operate("lockstep-operator-tls", "create", "-f", self.folder / "job.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("digits", self.operate("lockstep-operator-tls", "jobs").stdout)

    def test_a_worker_is_no_operator(self):
        self.assertNotEqual(self.operate("lockstep-worker-tls", "jobs").returncode, 0)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
