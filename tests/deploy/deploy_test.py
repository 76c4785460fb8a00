"""Checks deploy/: its manifests are valid, and its parts agree with each other and
with the given programs.

    deploy_test.py [lockstepd] [lockstepctl] [digits]
"""

import contextlib
import json
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import kubernetes_validate
import yaml

import deployment
from deployment import BASE, Dockerfile, container_of, flags_of, port_of
from systemd_unit import Unit, unit_text

# The oldest version whose Jobs label pods with their index, and the newest known.
KUBERNETES = ("1.28.0", kubernetes_validate.latest_version())
# Where the manifests mount secrets.
SECRETS = "/etc/lockstep"
PROGRAMS = {Path(path).name: Path(path) for path in sys.argv[1:]}


class Daemon:
    """lockstepd with the given flags, as rehearsed; stopped at the end of its `with` block."""

    def __init__(self, words, folder):
        self._port_file = Path(folder) / "port"
        self.process = subprocess.Popen(
            [PROGRAMS["lockstepd"], *rehearsed(words, folder), "--port_file", self._port_file],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def address(self):
        """HOST:PORT on this host, once it serves."""
        while not self._port_file.exists():
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate()[1])
            time.sleep(0.01)
        return f"127.0.0.1:{port_of(self._port_file.read_text())}"


def rehearsed(words, folder):
    """The flags with free ports, and journal, certificates and tokens in `folder`."""
    line = re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+", r"\1:0", " ".join(words))
    line = re.sub(r"(--journal[ =])\S+", rf"\1{folder}/journal", line)
    if "--tls" in line:
        make_secrets(folder)
    line = line.replace(f"{SECRETS}/tls", f"{folder}/certs/coordinator")
    return line.replace(f"{SECRETS}/tokens/", f"{folder}/").split()


def make_secrets(folder):
    """As the first lines of deploy/kubernetes/base/kustomization.yaml say."""
    subprocess.run([PROGRAMS["lockstepctl"], "certs", "init", f"{folder}/certs", "--host", "127.0.0.1"],
                   check=True, capture_output=True)
    for who in ("operator", "worker"):
        path = Path(folder) / who
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32) + "\n")


@contextlib.contextmanager
def running_daemon(words, folder):
    daemon = Daemon(words, folder)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.communicate()


class ManifestTest(unittest.TestCase):

    def setUp(self):
        self.documents = deployment.render_plainly(BASE)
        self.coordinator = container_of(self.documents["Deployment", "lockstep-coordinator"])
        self.service = self.documents["Service", "lockstep-coordinator"]
        self.job = self.documents["Job", "lockstep-digits"]
        self.worker = container_of(self.job)
        self.flags = flags_of(self.coordinator["args"])
        self.env = {entry["name"]: entry.get("value") for entry in self.worker["env"]}

    def test_kubectl_renders_the_same(self):
        rendered = deployment.render_with_kubectl(BASE)
        self.assertIn(rendered, (None, self.documents))

    def test_schemas(self):
        for version in KUBERNETES:
            for document in self.documents.values():
                kubernetes_validate.validate(document, version, strict=True)

    def test_the_validator_notices_a_wrong_word(self):
        self.job["spec"]["completion_mode"] = "Indexed"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(self.job, KUBERNETES[-1], strict=True)

    def test_ports_agree(self):
        ports = {port["name"]: port["containerPort"] for port in self.coordinator["ports"]}
        self.assertEqual(ports, {"grpc": port_of(self.flags["--listen"]),
                                 "health": port_of(self.flags["--health_address"])})
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.coordinator[probe]["grpc"]["port"], ports["health"])
        (served,) = self.service["spec"]["ports"]
        self.assertIn(served["targetPort"], ports)
        self.assertEqual(self.env["LOCKSTEP_ADDRESS"],
                         f"{self.service['metadata']['name']}:{served['port']}")

    def test_the_service_selects_the_coordinator(self):
        template = self.documents["Deployment", "lockstep-coordinator"]["spec"]["template"]
        self.assertEqual(self.service["spec"]["selector"], template["metadata"]["labels"])

    def test_every_worker_has_a_pod_and_a_name(self):
        spec = self.job["spec"]
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(spec["completions"], spec["parallelism"])
        self.assertEqual(self.env["LOCKSTEP_WORLD_SIZE"], str(spec["completions"]))
        self.assertIn("$(WORKER_INDEX)", self.env["LOCKSTEP_WORKER_NAME"])

    def test_images_are_those_of_the_dockerfile(self):
        stages = Dockerfile().stages
        for container in (self.coordinator, self.worker):
            name = container["image"].partition(":")[0]
            self.assertIn(name.removeprefix("lockstep/"), stages)

    def test_nothing_runs_as_root(self):
        self.assertEqual(Dockerfile().all("runtime", "USER"), ["65532:65532"])
        for workload in (self.documents["Deployment", "lockstep-coordinator"], self.job):
            context = workload["spec"]["template"]["spec"]["securityContext"]
            self.assertTrue(context["runAsNonRoot"])
            self.assertEqual(context["runAsUser"], 65532)

    def test_the_journal_is_on_the_volume(self):
        template = self.documents["Deployment", "lockstep-coordinator"]["spec"]["template"]["spec"]
        volume = named(template["volumes"], "journal")
        mount = named(self.coordinator["volumeMounts"], "journal")
        claim = volume["persistentVolumeClaim"]["claimName"]
        self.assertIn(("PersistentVolumeClaim", claim), self.documents)
        # Below the mount, whose mode is the volume's: the daemon wants a folder of its own.
        self.assertEqual(Path(self.flags["--journal"]).parent, Path(mount["mountPath"]))
        self.assertEqual(template["securityContext"]["fsGroup"], 65532)


    def test_every_mount_has_its_volume(self):
        for workload in (self.documents["Deployment", "lockstep-coordinator"], self.job):
            volumes = {volume["name"] for volume in workload["spec"]["template"]["spec"]["volumes"]}
            mounts = {mount["name"] for mount in container_of(workload)["volumeMounts"]}
            self.assertEqual(mounts, volumes)

    def test_nothing_is_in_plaintext_but_probes(self):
        for words in (self.coordinator["args"], json.loads(Dockerfile().all("coordinator", "CMD")[0])):
            self.assertNotIn("--insecure", words)
            self.assertEqual(flags_of(words)["--tls"], f"{SECRETS}/tls")

    def test_secrets_are_where_the_programs_look(self):
        template = self.documents["Deployment", "lockstep-coordinator"]["spec"]["template"]["spec"]
        mounts = {mount["mountPath"]: mount for mount in self.coordinator["volumeMounts"]}
        for flag in ("--tls", "--token_file", "--worker_token_file"):
            path = Path(self.flags[flag])
            mount = mounts.get(str(path)) or mounts[str(path.parent)]
            self.assertTrue(mount["readOnly"])
            # Root's: base/secret_file.h.
            self.assertEqual(named(template["volumes"], mount["name"])["secret"]["defaultMode"], 0o440)
        self.assertEqual(self.env["LOCKSTEP_TLS"],
                         named(self.worker["volumeMounts"], "tls")["mountPath"])

    def test_the_secrets_are_those_that_the_first_lines_make(self):
        text = (BASE / "kustomization.yaml").read_text()
        made = set(re.findall(r"create secret generic (\S+)", text))
        used = set()
        for workload in (self.documents["Deployment", "lockstep-coordinator"], self.job):
            spec = workload["spec"]["template"]["spec"]
            used |= {v["secret"]["secretName"] for v in spec["volumes"] if "secret" in v}
            used |= {e["valueFrom"]["secretKeyRef"]["name"] for e in container_of(workload).get("env", [])
                     if "secretKeyRef" in e.get("valueFrom", {})}
        self.assertEqual(made, used)

    def test_the_spec_is_that_of_the_job(self):
        spec = yaml.safe_load(self.documents["ConfigMap", "lockstep-digits"]["data"]["spec.yaml"])
        self.assertEqual(spec["mesh"], f"data={self.job['spec']['completions']}")
        self.assertEqual(spec["data_plane"], "trusted")


class DockerfileTest(unittest.TestCase):

    def test_its_ports_are_those_it_listens_on(self):
        (exposed,) = Dockerfile().all("coordinator", "EXPOSE")
        (command,) = Dockerfile().all("coordinator", "CMD")
        flags = flags_of(json.loads(command))
        self.assertEqual([int(port) for port in exposed.split()],
                         [port_of(flags["--listen"]), port_of(flags["--health_address"])])

    def test_what_it_copies_of_the_tree_exists(self):
        for stage in ("build",):
            for copy in Dockerfile().all(stage, "COPY"):
                for source in copy.split()[:-1]:
                    self.assertTrue((deployment.DEPLOY.parent / source).exists(), source)


@unittest.skipUnless("lockstepd" in PROGRAMS, "needs lockstepd")
class DaemonTest(unittest.TestCase):
    """lockstepd accepts its flags and settings in deploy/."""

    def commands(self):
        (docker,) = Dockerfile().all("coordinator", "CMD")
        documents = deployment.render_plainly(BASE)
        return {
            "Dockerfile": json.loads(docker),
            "coordinator.yaml": container_of(documents["Deployment", "lockstep-coordinator"])["args"],
            "lockstepd.service": Unit(unit_text()).command()[1:],
        }

    def test_it_starts_with_these_flags_and_drains(self):
        for source, words in self.commands().items():
            with self.subTest(source), tempfile.TemporaryDirectory() as folder:
                with running_daemon(words, folder) as daemon:
                    daemon.address()
                    daemon.process.send_signal(signal.SIGTERM)
                    said = daemon.process.communicate(timeout=30)[1]
                    self.assertEqual(daemon.process.returncode, 0, said)

    def test_it_refuses_a_flag_it_does_not_know(self):
        done = subprocess.run([PROGRAMS["lockstepd"], "--no_such_flag"], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)


@unittest.skipUnless(len(PROGRAMS) == 3, "needs all programs")
class RehearsalTest(unittest.TestCase):
    """The manifests' job on this host: their flags, their environment, fewer steps."""

    def setUp(self):
        documents = deployment.render_plainly(BASE)
        self.coordinator = container_of(documents["Deployment", "lockstep-coordinator"])
        self.job = documents["Job", "lockstep-digits"]["spec"]
        self.worker = container_of(documents["Job", "lockstep-digits"])
        self.spec = documents["ConfigMap", "lockstep-digits"]["data"]["spec.yaml"]
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_the_workers_train(self):
        with running_daemon(self.coordinator["args"], self.folder) as daemon:
            self.join_token = output_of(PROGRAMS["lockstepctl"], "token", "digits", "--worker-token-file",
                                        Path(self.folder) / "worker").strip()
            workers = [self.start_worker(index, daemon.address())
                       for index in range(self.job["completions"])]
            for worker in workers:
                said = worker.communicate()[0]
                self.assertEqual(worker.returncode, 0, said)

    def start_worker(self, index, address):
        folder = Path(self.folder)
        known = {"WORKER_INDEX": str(index), "LOCKSTEP_HOST_ADDRESS": "127.0.0.1",
                 "LOCKSTEP_TOKEN": self.join_token}
        for entry in self.worker["env"]:
            value = entry.get("value", known.get(entry["name"]))
            known[entry["name"]] = value.replace("$(WORKER_INDEX)", str(index))
        (folder / "spec.yaml").write_text(self.spec)
        known |= {"LOCKSTEP_ADDRESS": address, "LOCKSTEP_TLS": str(folder / "certs/worker"),
                  "LOCKSTEP_SPEC": str(folder / "spec.yaml")}
        words = [re.sub(r"^--steps=.*", "--steps=3", word) for word in self.worker["args"]]
        worker = subprocess.Popen([PROGRAMS["digits"], *words], env=known, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(worker.kill)
        return worker

    def test_its_environment_is_documented(self):
        document = (deployment.DEPLOY.parent / "docs/environment.md").read_text()
        for entry in self.worker["env"]:
            if entry["name"].startswith("LOCKSTEP_"):
                self.assertIn(f"| `{entry['name']}` |", document)


@unittest.skipUnless(len(PROGRAMS) == 3, "needs all programs")
class RuntimePackagesTest(unittest.TestCase):

    def test_the_image_has_what_the_programs_link(self):
        libraries = set().union(*map(linked_libraries, PROGRAMS.values()))
        always_there = {"libc6", "libgcc-s1", "libstdc++6"}
        self.assertEqual({owner_of(path) for path in libraries} - always_there,
                         Dockerfile().runtime_packages())


def named(entries, name):
    (entry,) = [entry for entry in entries if entry["name"] == name]
    return entry


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked_libraries(program):
    """Paths of the libraries that the program itself names, without their dependencies."""
    named = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", program))
    found = dict(re.findall(r"(\S+) => (\S+)", output_of("ldd", program)))
    return {found[name] for name in named if name in found}


def owner_of(path):
    """The Debian package of a file, which may be listed with or without the /usr of its path."""
    for candidate in (path, path.removeprefix("/usr"), "/usr" + path):
        said = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
        if said.returncode == 0:
            return said.stdout.partition(":")[0]
    raise AssertionError(f"{path} belongs to no package")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
