"""The tests of a ctest tree, from `ctest --show-only=json-v1`."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Test:
    name: str  # PRESET.TEST
    labels: tuple

    @property
    def preset(self):
        return self.name.partition(".")[0]


def read_tests(stream):
    return [Test(entry["name"], _labels(entry)) for entry in json.load(stream)["tests"]]


def _labels(entry):
    for prop in entry.get("properties", []):
        if prop["name"] == "LABELS":
            return tuple(prop["value"])
    return ()
