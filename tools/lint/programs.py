"""Rules that an external program checks: the format of C++, shell scripts."""

import re
import shutil
import subprocess

from tree import Finding


def cpp_format(tree):
    """C++ is formatted by clang-format 14"""
    paths = tree.cpp()
    if not paths:
        return
    complaints = _run(tree, [_clang_format(), "--dry-run", "-Werror", *paths]).stderr
    seen = set()
    for match in re.finditer(r"^(.+?):(\d+):\d+: error: (.*)$", complaints, re.M):
        if match[1] not in seen:
            seen.add(match[1])
            yield Finding(match[1], int(match[2]), "not formatted: clang-format -i this file")


def _clang_format():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if "version 14." in said:
                return name
    raise SystemExit("lint: clang-format 14 is not there (Debian: clang-format-14)")


def shell(tree):
    """Shell scripts pass shellcheck"""
    paths = [path for path, text in tree.files.items()
             if path.endswith(".sh") or re.match(r"#!.*\b(ba)?sh\b", text)]
    if not paths:
        return
    if not shutil.which("shellcheck"):
        raise SystemExit("lint: shellcheck is not there (Debian: shellcheck)")
    said = _run(tree, ["shellcheck", "--external-sources", "--format=gcc", *paths]).stdout
    for match in re.finditer(r"^(.+?):(\d+):\d+: (.*)$", said, re.M):
        yield Finding(match[1], int(match[2]), match[3])


def _run(tree, command):
    return subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
