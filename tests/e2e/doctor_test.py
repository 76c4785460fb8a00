"""lockstepctl doctor, and the launcher, on machines that lack something.

    doctor_test.py BIN_FOLDER

A machine is this one, with other limits, or with another /dev in a mount namespace.
"""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BIN = Path(sys.argv.pop(1)).resolve()
PATIENCE = 60
NOBODY = "127.0.0.1:1"  # a port on which nobody listens
NO_NCCL = {"LOCKSTEP_NCCL_LIBRARY": "/nonexistent/libnccl.so.2"}
# A GPU node whose pod has as much shared memory as Docker gives it.
SMALL_DEV = """
set -e
dev=$1; shift
mount -t tmpfs -o size=1m tmpfs "$dev"
for file in null urandom zero; do touch "$dev/$file"; mount --bind "/dev/$file" "$dev/$file"; done
touch "$dev/nvidia0"
mkdir "$dev/shm"
mount -t tmpfs -o size=64m tmpfs "$dev/shm"
mount --rbind "$dev" /dev
exec "$@"
"""


def can_make_namespaces():
    return shutil.which("unshare") and subprocess.run(
        ["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0


def run(*words, limits=(), **environment):
    """The outcome of a program, under limits: (resource, value) of each."""
    def limit():
        for what, value in limits:
            resource.setrlimit(what, (value, value))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(words, preexec_fn=limit, env={**kept, **environment}, capture_output=True,
                          text=True, timeout=PATIENCE, check=False)


def doctor(*words, **more):
    """The exit code, and the findings by check: those that are worst."""
    done = run(BIN / "lockstepctl", "doctor", "--json", *words, **more)
    report = json.loads(done.stdout)
    rank = ["skipped", "ok", "warning", "error"].index
    found = {}
    for finding in sorted(report["findings"], key=lambda one: rank(one["severity"])):
        found[finding["check"]] = finding
    return done.returncode, found


class DoctorTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.log = Path(self.folder) / "log"  # of daemons

    def serve(self, *flags):
        with self.log.open("a", encoding="utf-8") as log:
            daemon = subprocess.Popen([BIN / "lockstepd", "--listen", "127.0.0.1:0", *flags],
                                      stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(daemon.communicate)
        self.addCleanup(daemon.kill)
        return daemon, daemon.stdout.readline().split()[-1]

    def expect(self, finding, severity, *parts):
        self.assertEqual(finding["severity"], severity, finding)
        if severity != "ok":
            self.assertTrue(finding["why"] and finding["fix"], finding)
        for part in parts:
            self.assertIn(part, finding["what"] + finding["fix"])

    def test_a_healthy_machine_is_well(self):
        journal = f"{self.folder}/journal"
        _, address = self.serve("--journal", journal)
        code, found = doctor("--address", address, "--journal", journal)
        self.assertEqual(code, 0, found)
        for check in ("memory", "open files", "coordinator", "clock", "journal"):
            self.expect(found[check], "ok")
        text = run(BIN / "lockstepctl", "--address", address, "doctor")
        self.assertEqual(text.returncode, 0)
        self.assertRegex(text.stdout, rf"(?m)^ok +coordinator +{address} answers: lockstepd ")
        self.assertRegex(text.stdout.splitlines()[-1], r"^0 errors, \d+ warnings?$")

    def test_an_address_at_which_nobody_answers(self):
        code, found = doctor("--address", NOBODY)
        self.assertEqual(code, 1)
        self.expect(found["coordinator"], "error", f"nobody answers at {NOBODY}: Connection refused",
                    "systemctl start lockstepd")

    def test_a_name_that_nobody_has(self):
        code, found = doctor("--address", "lockstep.invalid:7070")
        self.assertEqual(code, 1)
        self.expect(found["coordinator"], "error", "lockstep.invalid", "getent hosts lockstep.invalid")

    def test_one_of_two_coordinators_is_enough(self):
        _, address = self.serve()
        code, found = doctor("--address", f"{NOBODY},{address}")
        self.assertEqual(code, 0)
        self.expect(found["coordinator"], "ok")

    def test_what_listens_is_no_coordinator(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.1)
            code, found = doctor("--address", f"127.0.0.1:{server.getsockname()[1]}")
        self.assertEqual(code, 1)
        self.expect(found["coordinator"], "error", "is no coordinator")

    def test_a_listener_of_health_is_no_coordinator(self):
        self.serve("--health_address", "127.0.0.1:0")
        health = re.search(r"health is told on (\S+)", self.log.read_text(encoding="utf-8"))[1]
        code, found = doctor("--address", health)
        self.assertEqual(code, 1)
        self.expect(found["coordinator"], "error", health, "is no coordinator", "--health_address")

    def test_a_fault_of_tls_is_said_once_with_its_fix(self):
        certs = f"{self.folder}/certs"
        run(BIN / "lockstepctl", "certs", "init", certs)
        _, plain = self.serve()
        _, secure = self.serve("--tls", f"{certs}/coordinator")
        for words, tls, coordinator, fix in (
                (["--address", plain, "--tls", f"{certs}/worker"], "ok", "error", "start lockstepd with --tls"),
                (["--address", secure], None, "error", "give it a folder"),
                (["--address", secure, "--tls", "/nonexistent"], "error", "skipped", ""),
                (["--address", secure, "--tls", f"{certs}/coordinator"], "error", "skipped", "")):
            with self.subTest(words):
                code, found = doctor(*words)
                self.assertEqual(code, 1)
                self.assertEqual(found.get("tls", {}).get("severity"), tls, found)
                self.assertEqual(found["coordinator"]["severity"], coordinator, found)
                self.assertTrue(found["coordinator"]["fix"].startswith(fix), found)
                self.assertNotIn(fix or "none", found["coordinator"]["what"])

    def test_a_coordinator_that_is_stopped_is_an_error_unless_another_one_answers(self):
        daemon, address = self.serve()
        _, other = self.serve()
        daemon.send_signal(signal.SIGSTOP)
        for addresses, severity in ((address, "error"), (f"{address},{other}", "warning")):
            code, found = doctor("--address", addresses)
            self.assertEqual(code, int(severity == "error"), found)
            self.expect(found["coordinator"], severity, address)

    def test_a_token_that_others_can_read(self):
        token = Path(self.folder) / "token"
        token.write_text("secret\n")
        token.chmod(0o644)
        code, found = doctor("--token-file", token)
        self.assertEqual(code, 1)
        self.expect(found["token"], "error", "0644", f"chmod 600 {token}")

    def write_tokens(self):
        """The operators' file, the workers', and a wrong one."""
        return [self.write_token(name, name * 20) for name in ("operator", "workers", "wrong")]

    def write_token(self, name, text):
        path = Path(self.folder) / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def test_a_token_of_workers_is_checked(self):
        operator, workers, wrong = self.write_tokens()
        certs = f"{self.folder}/certs"
        run(BIN / "lockstepctl", "certs", "init", certs)
        tokens = ["--token_file", operator, "--worker_token_file", workers]
        join = self.write_token("join", run(BIN / "lockstepctl", "token", "j", "--worker-token-file",
                                            workers).stdout)
        for tls in ([], ["--tls", f"{certs}/worker"]):
            _, address = self.serve(*tokens, *(["--tls", f"{certs}/coordinator"] if tls else []))
            for words, severity, says in (
                    (["--token-file", workers], "ok", "this is a worker"),
                    (["--token-file", join, "--job", "j"], "ok", "this is a worker"),
                    ([], "error", "needs a token"),
                    (["--job", "j"], "error", "needs a token"),
                    (["--token-file", wrong], "error", "wrong, or was revoked"),
                    (["--token-file", wrong, "--job", "j"], "error", "wrong, or was revoked"),
                    (["--token-file", join, "--job", "k"], "error", "another job's"),
                    (["--token-file", workers, "--worker-token-file", workers], "ok", ""),
                    (["--token-file", workers, "--worker-token-file", wrong], "error", "refuses workers")):
                with self.subTest(words, tls=tls):
                    code, found = doctor("--address", address, *tls, *words)
                    self.expect(found["coordinator"], severity, says)
                    self.assertEqual(code, int(severity == "error"), found)

    def test_a_journal_that_others_can_write(self):
        os.mkdir(f"{self.folder}/journal")
        os.chmod(f"{self.folder}/journal", 0o777)
        code, found = doctor("--journal", f"{self.folder}/journal")
        self.assertEqual(code, 1)
        self.expect(found["journal"], "error", "0777", f"chmod 700 {self.folder}/journal")

    def test_etcd_that_nobody_reaches(self):
        code, found = doctor("--journal", f"etcd://{NOBODY}/test")
        self.assertEqual(code, 1)
        self.expect(found["etcd"], "error", NOBODY, "etcdctl")

    def test_a_journal_in_etcd_that_lockstepd_refuses(self):
        run(BIN / "lockstepctl", "certs", "init", f"{self.folder}/certs")
        _, other = self.serve("--tls", f"{self.folder}/certs/coordinator")
        for journal, says in ((f"etcd://{NOBODY}", "/PREFIX"), ("etcd://127.0.0.1/x", "HOST:PORT"),
                              ("etcd://192.0.2.1:2379/x", "plaintext"), (f"etcd://{other}/x", "serves TLS")):
            with self.subTest(journal):
                code, found = doctor("--journal", journal)
                self.assertEqual(code, 1)
                self.expect(found["etcd"], "error", says)

    def test_a_port_in_use(self):
        _, address = self.serve()
        code, found = doctor("--listen", address)
        self.assertEqual(code, 1)
        self.expect(found["listen"], "error", "another process", "ss -ltnp")

    def test_what_lockstepd_would_refuse(self):
        operator, workers, _ = self.write_tokens()
        same = self.write_token("same", workers.read_text())
        run(BIN / "lockstepctl", "certs", "init", f"{self.folder}/certs")
        _, taken = self.serve()
        # Bound and not listening: nobody else gets the port, and others may listen.
        with socket.socket() as keeper:
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            keeper.bind(("127.0.0.1", 0))
            self.refuse_as_lockstepd(operator, workers, same, taken, f"127.0.0.1:{keeper.getsockname()[1]}")

    def refuse_as_lockstepd(self, operator, workers, same, taken, free):
        for words, check, says in (
                (["--listen", "0.0.0.0:0"], "listen", "can be reached from other machines"),
                (["--listen", "127.0.0.1:99999"], "listen", "127.0.0.1:99999"),
                (["--listen", "127.0.0.1:0", "--health-address", "127.0.0.1"], "listen", "--health-address"),
                (["--listen", "127.0.0.1:0", "--metrics-address", "127.0.0.1:x"], "listen", "--metrics-address"),
                (["--listen", "127.0.0.1:0", "--health-address", taken], "listen", "another process"),
                (["--listen", free, "--metrics-address", free], "listen", "has the port of --listen"),
                (["--listen", "127.0.0.1:0", "--tls", f"{self.folder}/certs/coordinator", "--insecure"], "listen",
                 "without --insecure"),
                (["--listen", "127.0.0.1:0", "--journal", "folder"], "journal", "--journal ./folder"),
                (["--listen", "127.0.0.1:0", "--etcd-tls", f"{self.folder}/certs/worker"], "journal",
                 "without --etcd-tls"),
                (["--listen", "127.0.0.1:0", "--worker-token-file", workers], "token", "needs --token_file"),
                (["--listen", "127.0.0.1:0", "--token-file", same, "--worker-token-file", workers], "token",
                 "hold the same token")):
            with self.subTest(words):
                code, found = doctor(*words)
                self.assertEqual(code, 1)
                self.expect(found[check], "error", says)
                flags = [re.sub("(?<=[a-z])-", "_", str(word)) if str(word).startswith("--") else word for word in words]
                self.assertIn(run(BIN / "lockstepd", *flags).returncode, (1, 2))
        for words in (["0.0.0.0:0", "--insecure"],
                      ["127.0.0.1:0", "--token-file", operator, "--worker-token-file", workers]):
            self.assertEqual(doctor("--listen", *words)[0], 0, words)

    def test_a_workers_token_too_short_for_join_tokens_is_a_warning_of_both(self):
        operator, _, _ = self.write_tokens()
        short = self.write_token("short", "w" * 24)
        says = "a token of workers has 24 bytes, and the join tokens"
        code, found = doctor("--listen", "127.0.0.1:0", "--token-file", operator, "--worker-token-file", short)
        self.assertEqual(code, 0)
        self.expect(found["token"], "warning", says)
        self.serve("--token_file", operator, "--worker_token_file", short)
        self.assertIn(says, self.log.read_text(encoding="utf-8"))
        code, found = doctor("--worker-token-file", short)  # of a launcher
        self.assertEqual(code, 1)
        self.expect(found["token"], "error", "24 bytes")

    def test_what_run_would_refuse(self):
        spec = Path(self.folder) / "job.yaml"
        spec.write_text("name: j\nmesh: {data: 4}\n")
        for words, says in ((["-n", "3"], "has 4 ranks"), (["-n", "8"], "has 4 ranks"),
                            (["-n", "2", "--nodes", "3"], "starts 6 workers"),
                            (["-n", "4", "--job", "k"], "--job j, or without --job")):
            with self.subTest(words):
                code, found = doctor("--spec", spec, *words)
                self.assertEqual(code, 1)
                self.expect(found["spec"], "error", says)
                done = run(BIN / "lockstepctl", "--address", NOBODY, "run", "--spec", spec, *words, "--", "true")
                self.assertEqual(done.returncode, 2)
        self.expect(doctor("--spec", spec, "--job", "k")[1]["spec"], "error", "--job j, or without --job")
        for words in ([], ["-n", "4"], ["-n", "2"], ["--nodes", "2"], ["--job", "j"], ["-n", "2", "--nodes", "2"]):
            self.expect(doctor("--spec", spec, *words)[1]["spec"], "ok")
        for address in ("0.0.0.0", "::"):
            self.expect(doctor("--host-address", address)[1]["host address"], "error", address)

    def test_few_files(self):
        code, found = doctor("-n", "8", limits=[(resource.RLIMIT_NOFILE, 40)])
        self.assertEqual(code, 1)
        self.expect(found["open files"], "error", "at most 40", "nofile=48")
        # Not even those that gRPC needs: it is not asked, and nothing aborts.
        code, found = doctor("--address", self.serve()[1], limits=[(resource.RLIMIT_NOFILE, 9)])
        self.assertEqual(code, 1)
        self.expect(found["coordinator"], "error", "ulimit -n")

    def test_warnings_fail_if_they_are_to(self):
        core = [(resource.RLIMIT_CORE, 1 << 20)]
        code, found = doctor("--listen", "127.0.0.1:0", limits=core)
        self.assertEqual(code, 0, found)
        self.expect(found["core dumps"], "warning", "ulimit -c 0")
        self.assertEqual(doctor("--listen", "127.0.0.1:0", "--strict", limits=core)[0], 1)

    def test_a_spec_that_cannot_be_read(self):
        spec = Path(self.folder) / "job.yaml"
        spec.write_text("name: j\nretries: 3\n")
        code, found = doctor("--spec", spec)
        self.assertEqual(code, 1)
        self.expect(found["spec"], "error", "retries")

    def test_no_address_and_a_bad_one_are_usage_errors(self):
        for words in (["--address", "nowhere"], ["--worker-memory", "much"], ["-n", "0"]):
            self.assertEqual(run(BIN / "lockstepctl", "doctor", *words).returncode, 2, words)

    # --- A pod without what it needs ---

    def spec(self, transport):
        spec = Path(self.folder) / "job.yaml"
        spec.write_text(f"name: j\nmesh: {{data: 1}}\ntransport: {transport}\n")
        return spec

    def in_small_pod(self):
        if not can_make_namespaces():
            self.skipTest("namespaces cannot be made here")
        dev = Path(self.folder) / "dev"
        dev.mkdir()
        return ["unshare", "-Urm", "sh", "-c", SMALL_DEV, "sh", dev]

    def test_a_gpu_node_without_nccl_and_without_shared_memory(self):
        done = run(*self.in_small_pod(), BIN / "lockstepctl", "doctor", "--json", **NO_NCCL)
        self.assertEqual(done.returncode, 1, done.stderr)
        found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
        self.expect(found["/dev/shm"], "error", "not enough shared memory: 64.0 MiB is free", "emptyDir", "--shm-size")
        self.expect(found["nccl"], "error", "1 GPU", NO_NCCL["LOCKSTEP_NCCL_LIBRARY"], "LOCKSTEP_NCCL_LIBRARY=")

    def test_the_launcher_says_so_in_its_log(self):
        done = run(*self.in_small_pod(), BIN / "lockstepctl", "run", "-n", "1", "-f", self.spec("nccl"), "--", "true",
                   **NO_NCCL)
        self.assertRegex(done.stderr, "lockstepctl: error: /dev/shm: not enough shared memory: 64.0 MiB is free .*; fix: ")
        self.assertRegex(done.stderr, "lockstepctl: error: nccl: .*/nonexistent/libnccl.so.2.*; fix: ")
        done = run(*self.in_pod_again(), BIN / "lockstepctl", "run", "-n", "1", "-f", self.spec("gloo"), "--", "true")
        self.assertNotIn("error: ", done.stderr)

    def in_pod_again(self):
        (Path(self.folder) / "dev").rmdir()
        return self.in_small_pod()

    def test_the_launcher_says_that_memory_is_short(self):
        words = (BIN / "lockstepctl", "run", "-n", "1", "--", "true")
        done = run(*words, limits=[(resource.RLIMIT_FSIZE, 1 << 20)])
        self.assertRegex(done.stderr, "error: memory: not enough shared memory: 1.0 MiB .*fix: ulimit -f unlimited")
        done = run(*words)
        self.assertNotIn("error: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
