"""Reads deploy/systemd/lockstepd.service."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SYSTEMD = Path(__file__).resolve().parents[2] / "deploy/systemd"


def unit_text():
    return (SYSTEMD / "lockstepd.service").read_text()


@dataclass(frozen=True)
class Entry:
    section: str
    key: str
    value: str
    text: str  # as it is in the file, with continued lines


class Unit:
    def __init__(self, text):
        self._text = text
        self.entries = []
        section = None
        for lines in re.findall(r"^(?:[^\n]*\\\n)*[^\n]*\n", text, re.MULTILINE):
            if lines.startswith("["):
                section = lines.strip().strip("[]")
            elif "=" in lines and not lines.startswith("#"):
                key, _, value = lines.replace("\\\n", "").strip().partition("=")
                self.entries.append(Entry(section, key, value, lines))

    def get(self, section, key):
        """The value of the last such line; None if there is none."""
        values = [e.value for e in self.entries if (e.section, e.key) == (section, key)]
        return values[-1] if values else None

    def without(self, entry):
        """The text of the unit without that entry."""
        return self._text.replace(entry.text, "", 1)

    def command(self):
        """The words of ExecStart."""
        return shlex.split(self.get("Service", "ExecStart"))
