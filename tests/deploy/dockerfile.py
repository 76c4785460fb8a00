"""Reads deploy/Dockerfile."""

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What each image runs; images_test.py finds them there.
PROGRAMS = {"coordinator": ("lockstepd",), "worker": ("lockstepctl", "digits")}


class Dockerfile:
    def __init__(self, path=ROOT / "deploy/Dockerfile"):
        text = re.sub(r"\\\n", " ", path.read_text())
        self.stages = {}
        self.bases = {}  # of each stage
        self.arguments = {}
        for line in text.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "ARG" and not self.stages:
                name, _, value = rest.partition("=")
                self.arguments[name] = value
            elif word == "FROM":
                base, _, name = rest.split()
                stage = self.stages[name] = []
                self.bases[name] = re.sub(r"\$\{(\w+)\}", lambda found: self.arguments[found[1]], base)
            elif word and not word.startswith("#"):
                stage.append((word, rest))

    def all(self, stage, word):
        return [rest for given, rest in self.stages[stage] if given == word]

    def one(self, stage, word):
        (rest,) = self.all(stage, word)
        return rest

    def command(self, stage):
        """The words that a container of it starts with."""
        return json.loads(self.one(stage, "ENTRYPOINT")) + [
            word for words in self.all(stage, "CMD") for word in json.loads(words)]

    def install(self, stage):
        """The words of the script that makes the stage, and where it expects what was built."""
        mount, *words = shlex.split(self.one(stage, "RUN"))
        options = dict(option.split("=") for option in mount.removeprefix("--mount=").split(","))
        if (options["type"], options["from"], options["source"]) != ("bind", "build", self.out()):
            raise AssertionError(f"{stage} is not made of the build: {mount}")
        return words, options["target"]

    def out(self):
        """The folder into which the stage build puts the parts of the others."""
        return shlex.split(self.all("build", "RUN")[-1])[-1]
