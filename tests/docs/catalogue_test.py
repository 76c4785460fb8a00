"""docs/fault-catalogue.md has every complaint that is registered as a test, and no other.

    catalogue_test.py SOURCE_FOLDER BUILD_FOLDER

BUILD_FOLDER has the configured presets, as after `./run test`. A name that begins with a project and a
number is in a row that cites that issue. Each row is complete, also of complaints that are not solved.
"""

import pathlib
import re
import sys

ROWS_MIN = 30
PRESETS = ("release", "asan")
NOT_SOLVED = "## Not solved, or not shown"


def rows(text, columns):
    """The cells of each table row, without headers; a row of another length is a fault."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("| ") or cells[0] in ("test", "complaint"):
            continue
        yield line, cells if len(cells) == columns and all(cells) else None


def cites(name, complaint):
    """The row's complaint has the issue of a name like `torchft329_recovery`."""
    match = re.match(r"([a-z]+?)(\d+)_", name)
    if not match:
        return True
    return bool(re.search(rf"\b{match[1]}#{match[2]}\b", complaint.lower().replace("-", "")))


def faults(document, registered):
    solved, _, unsolved = document.partition(NOT_SOLVED)
    named = []
    for line, cells in rows(solved, 4):
        if cells is None or not re.fullmatch(r"`[a-z0-9_]+`", cells[0]):
            yield f"not a row of test, complaint, there, here: {line}"
            continue
        name = cells[0].strip("`")
        named.append(name)
        if not cites(name, cells[1]):
            yield f"{name}: its row does not cite that issue: {cells[1]}"
    for name in sorted(set(named) - set(registered)):
        yield f"{name} is in the document, and no test is registered under this name"
    for name in sorted(set(registered) - set(named)):
        yield f"the test {name} is registered, and not in the document"
    for name in sorted({name for name in named if named.count(name) > 1}):
        yield f"{name} is in several rows"
    if len(named) < ROWS_MIN:
        yield f"only {len(named)} rows were found"
    others = list(rows(unsolved, 3))
    for line, cells in others:
        if cells is None or cells[1] not in ("not solved", "not shown", "partly", "shown over fakes only"):
            yield f"not a row of complaint, state, reason: {line}"
    if not others:
        yield f"no row below '{NOT_SOLVED}'"


def registered_in(build):
    """The names of the tests PRESET.catalogue.NAME (lockstep_list_test_targets)."""
    names = []
    for preset in PRESETS:
        for line in (build / preset / "test_targets.txt").read_text(encoding="utf-8").splitlines():
            entry = line.split()[0]
            if entry.startswith(f"{preset}.catalogue."):
                names.append(entry.split(".", 2)[2])
    return names


def main():
    source, build = map(pathlib.Path, sys.argv[1:])
    document = (source / "docs/fault-catalogue.md").read_text(encoding="utf-8")
    registered = registered_in(build)
    found = list(faults(document, registered))
    for fault in found:
        print(f"docs/fault-catalogue.md: {fault}")
    print(f"{len(registered)} registered complaints, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
