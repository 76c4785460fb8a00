"""Which tests a FILTER of `./run test` names: reads ctest's JSON on stdin.

    ctest --show-only=json-v1 | select_tests.py [--list] [FILTER]

Without a FILTER these are all but those with the label `again`, whose cases others run.
With --list prints their names, one per line. Otherwise prints how ctest selects them (all, label,
name), then a line for each preset that has such tests: its name, and the targets to build for
them (no targets: all; "-": none). Exits with 2, and lists the labels, if no test matches.
"""

import re
import sys
from pathlib import Path

from ctest_json import read_tests

AGAIN = "again"


def matching(tests, name_filter):
    """(how, the tests): `how` is all, label or name."""
    if not name_filter:
        return "all", [test for test in tests if AGAIN not in test.labels]
    if any(name_filter in test.labels for test in tests):
        return "label", [test for test in tests if name_filter in test.labels]
    return "name", [test for test in tests if re.search(name_filter, test.name)]


def targets_of(preset):
    """The targets of each test of a preset that needs no others (lockstep_targets.cmake)."""
    file = Path("build") / preset / "test_targets.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return {name: targets for name, *targets in map(str.split, lines)}


def to_build(preset, tests):
    """The targets that `tests` of a preset need; empty: all."""
    targets = targets_of(preset)
    if any(test.name not in targets for test in tests):
        return []
    return sorted({target for test in tests for target in targets[test.name]}) or ["-"]


def main():
    words = sys.argv[1:]
    only_names = words[:1] == ["--list"]
    name_filter = "".join(words[only_names:])
    tests = read_tests(sys.stdin)
    try:
        how, chosen = matching(tests, name_filter)
    except re.error as error:
        print(f"run: test: '{name_filter}' is no regular expression: {error}", file=sys.stderr)
        how, chosen = "name", []
    if not chosen:
        labels = sorted({label for test in tests for label in test.labels})
        print(f"run: test: no test has the label or matches the name '{name_filter}'; "
              f"labels: {' '.join(labels)}", file=sys.stderr)
        return 2
    if only_names:
        print(*(test.name for test in chosen), sep="\n")
        return 0
    print(how)
    for preset in dict.fromkeys(test.preset for test in chosen):
        of_preset = [test for test in chosen if test.preset == preset]
        print(preset, *([] if how == "all" else to_build(preset, of_preset)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
