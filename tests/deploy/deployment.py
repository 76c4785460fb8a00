"""Reads deploy/kubernetes: the rendered overlays."""

import copy
import functools
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
GOLDEN = ROOT / "tests/golden/kubernetes"
OVERLAYS = ("ha", "jobset", "kueue", "local", "production")
KUBECTL_MIN = (1, 27)  # the first whose kustomize renders components as here


class Cluster:
    """The objects of one rendered overlay. They are plain dicts, and tests change them."""

    def __init__(self, objects):
        self.objects = objects

    def all(self, kind):
        return [found for found in self.objects if found["kind"] == kind]

    def get(self, kind, name):
        """None if there is none. A name ends at the hash that kustomize appends."""
        for found in self.all(kind):
            if found["metadata"]["name"] == name:
                return found
        return None

    def of(self, kind, component):
        """The object of that kind for "coordinator" or "worker"; None if there is not one."""
        found = [one for one in self.all(kind)
                 if one["metadata"].get("labels", {}).get("app.kubernetes.io/component") == component]
        return found[0] if len(found) == 1 else None

    @property
    def coordinator(self):
        return self.of("StatefulSet", "coordinator")

    @property
    def jobset(self):
        """None if the workers are a Job."""
        return self.of("JobSet", "worker")

    @property
    def workers(self):
        """The Job. That inside a JobSet has the metadata of the set."""
        if self.jobset is None:
            return self.of("Job", "worker")
        inside = self.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
        return {"kind": "Job", "metadata": self.jobset["metadata"], "spec": inside}

    @property
    def workloads(self):
        return [self.coordinator, self.workers]

    @property
    def spec_text(self):
        return self.of("ConfigMap", "worker")["data"]["job.yaml"]


@functools.cache
def golden_objects(overlay):
    return list(yaml.safe_load_all((GOLDEN / f"{overlay}.yaml").read_text()))


def golden(overlay):
    return Cluster(copy.deepcopy(golden_objects(overlay)))


def kubectl_version():
    """(major, minor); None if there is no kubectl."""
    if not shutil.which("kubectl"):
        return None
    said = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, check=False)
    found = re.search(r"v(\d+)\.(\d+)", said.stdout)
    return (int(found[1]), int(found[2])) if found else None


def render(overlay):
    return subprocess.run(["kubectl", "kustomize", KUBERNETES / "overlays" / overlay], check=True,
                          capture_output=True, text=True).stdout


def sources():
    """A line for each file that the golden ones are rendered from: its SHA-256, and its path."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(KUBERNETES)}\n"
                   for path in sorted(KUBERNETES.rglob("*.yaml")))


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def container_of(workload):
    (container,) = pod_of(workload)["containers"]
    return container


def flags_of(words):
    """{"--listen": "0.0.0.0:7070", "--insecure": None} of an argument list."""
    flags = {}
    for word, following in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            flags[flag] = value if equals else None if following.startswith("--") else following
    return flags


def launcher_and_program(words):
    """What is before and behind the -- of lockstepctl run."""
    end = words.index("--")
    return words[:end], words[end + 1:]


def environment_of(container):
    """{name: value}; of a field, its path; of a ConfigMap, its name and key."""
    found = {}
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {})
        config = source.get("configMapKeyRef", {})
        found[entry["name"]] = (entry.get("value") or source.get("fieldRef", {}).get("fieldPath") or
                                f"{config.get('name')}/{config.get('key')}")
    return found


def port_of(address):
    return int(address.rpartition(":")[2])


def bytes_of(quantity):
    """Of "512Mi", as Kubernetes writes sizes, or of "64MiB", as Lockstep does."""
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)B?", str(quantity)).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]
