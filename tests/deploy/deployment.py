"""Reads deploy/: the rendered manifests and the Dockerfile."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BASE = DEPLOY / "kubernetes/base"


def by_name(documents):
    return {(doc["kind"], doc["metadata"]["name"]): doc for doc in documents}


def render_plainly(folder):
    """Renders a kustomization that has only resources, without kubectl."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    extra = set(kustomization) - {"apiVersion", "kind", "resources"}
    if extra:
        raise ValueError(f"{folder}: this renderer knows resources only, not {sorted(extra)}")
    return by_name(doc for name in kustomization["resources"]
                   for doc in yaml.safe_load_all((folder / name).read_text()))


def render_with_kubectl(folder):
    """None if there is no kubectl."""
    if not shutil.which("kubectl"):
        return None
    said = subprocess.run(["kubectl", "kustomize", folder], check=True, capture_output=True)
    return by_name(yaml.safe_load_all(said.stdout))


def container_of(workload):
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return container


def flags_of(words):
    """{"--listen": "0.0.0.0:7070", "--insecure": None} of an argument list."""
    flags = {}
    for word, following in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            flags[flag] = value if equals else None if following.startswith("--") else following
    return flags


def port_of(address):
    return int(address.rpartition(":")[2])


class Dockerfile:
    def __init__(self, path=DEPLOY / "Dockerfile"):
        text = re.sub(r"\\\n", " ", path.read_text())
        self.stages = {}
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "FROM":
                stage = self.stages[rest.split()[-1]] = []
            elif word and not word.startswith("#"):
                stage.append((word, rest))

    def all(self, stage, word):
        return [rest for given, rest in self.stages[stage] if given == word]

    def runtime_packages(self):
        (script,) = self.all("runtime", "RUN")
        words = shlex.split(re.search(r"apt-get install (.*?) &&", script)[1])
        return {word for word in words if not word.startswith("-")}
