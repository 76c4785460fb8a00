"""deploy/ is true: its manifests are valid, its parts agree with each other, and
with the programs that are given.

    deploy_test.py [lockstepd] [lockstepctl] [digits]
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import kubernetes_validate

import deployment
from deployment import BASE, Dockerfile, container_of, flags_of, port_of

# The oldest version whose Jobs label pods with their index, and the newest known.
KUBERNETES = ("1.28.0", kubernetes_validate.latest_version())
PROGRAMS = {Path(path).name: Path(path) for path in sys.argv[1:]}


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


class UnitTest(unittest.TestCase):

    def test_systemd_understands_it(self):
        self.assertEqual(deployment.complaints_of_systemd(deployment.unit_text()), "")


@unittest.skipUnless("lockstepd" in PROGRAMS, "needs lockstepd")
class DaemonTest(unittest.TestCase):
    """What deploy/ says to lockstepd is what lockstepd understands."""

    def commands(self):
        (docker,) = Dockerfile().all("coordinator", "CMD")
        documents = deployment.render_plainly(BASE)
        return {
            "Dockerfile": json.loads(docker),
            "coordinator.yaml": container_of(documents["Deployment", "lockstep-coordinator"])["args"],
            "lockstepd.service": deployment.unit_command()[1:],
        }

    def test_it_starts_with_these_flags_and_drains(self):
        for source, words in self.commands().items():
            with self.subTest(source), tempfile.TemporaryDirectory() as folder:
                port_file = Path(folder) / "port"
                any_port = [re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+$", r"\1:0", word) for word in words]
                daemon = subprocess.Popen(
                    [PROGRAMS["lockstepd"], *any_port, "--port_file", port_file],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    while not port_file.exists() and daemon.poll() is None:
                        time.sleep(0.01)
                    daemon.send_signal(signal.SIGTERM)
                    said = daemon.communicate(timeout=30)[1]
                finally:
                    daemon.kill()
                self.assertTrue(port_file.exists(), said)
                self.assertEqual(daemon.returncode, 0, said)

    def test_it_refuses_a_flag_it_does_not_know(self):
        done = subprocess.run([PROGRAMS["lockstepd"], "--no_such_flag"], capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)


@unittest.skipUnless("digits" in PROGRAMS, "needs digits")
class WorkerTest(unittest.TestCase):

    def setUp(self):
        self.worker = container_of(deployment.render_plainly(BASE)["Job", "lockstep-digits"])

    def test_its_flags_exist(self):
        said = subprocess.run([PROGRAMS["digits"], "--help"], capture_output=True, text=True,
                              check=True).stdout
        for flag in flags_of(self.worker["args"]):
            self.assertRegex(said, rf"{flag}\b")

    def test_its_environment_is_read(self):
        program = PROGRAMS["digits"].read_bytes()
        for entry in self.worker["env"]:
            if entry["name"].startswith("LOCKSTEP_"):
                self.assertIn(entry["name"].encode(), program)


@unittest.skipUnless(len(PROGRAMS) == 3, "needs all programs")
class RuntimePackagesTest(unittest.TestCase):

    def test_the_image_has_what_the_programs_link(self):
        libraries = set().union(*map(linked_libraries, PROGRAMS.values()))
        always_there = {"libc6", "libgcc-s1", "libstdc++6"}
        self.assertEqual({owner_of(path) for path in libraries} - always_there,
                         Dockerfile().runtime_packages())


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked_libraries(program):
    """Paths of what the program itself names, not of what that needs in turn."""
    named = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", program))
    found = dict(re.findall(r"(\S+) => (\S+)", output_of("ldd", program)))
    return {found[name] for name in named if name in found}


def owner_of(path):
    """The Debian package; a file may be listed with or without the /usr of its path."""
    for candidate in (path, path.removeprefix("/usr"), "/usr" + path):
        said = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True, check=False)
        if said.returncode == 0:
            return said.stdout.partition(":")[0]
    raise AssertionError(f"{path} belongs to no package")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
