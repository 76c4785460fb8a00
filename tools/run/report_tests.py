"""What follows the tests of `./run test`: the cases that failed, and a table of
label, seconds and budget.

    ctest --show-only=json-v1 | report_tests.py RESULTS.xml BUDGETS BUILD WALL PROCESSOR

A label's seconds are the sum over its tests; a test with two labels counts in
both. `build` is the wall time before the first test, `wall` the time of all,
`processor` the processor time of build and tests. What is beyond its budget is
reported; a label without one, or processor time beyond its own, is a failure
(exit 1). Wall time is none: on a shared machine others decide it.
"""

import re
import sys
import xml.etree.ElementTree as xml
from collections import defaultdict

from ctest_json import read_tests

EXCERPT_LINES = 30


def read_budgets(path):
    budgets = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or not words[1].isdigit() or words[0] in budgets:
                raise SystemExit(f"run: {path}:{number}: want a new 'label seconds', got: {line.strip()}")
            budgets[words[0]] = int(words[1])
    return budgets


def read_seconds(path):
    """Seconds by name of the test, for those that ran."""
    return {case.get("name"): float(case.get("time")) for case in xml.parse(path).iter("testcase")}


def failed_tests(path):
    """[(name, what it printed)] of those that failed."""
    return [(case.get("name"), case.findtext("system-out") or "")
            for case in xml.parse(path).iter("testcase") if case.get("status") == "fail"]


def excerpt(printed):
    """What GoogleTest printed of the cases that failed, or else the end of it all."""
    cases = re.findall(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN      \]).*\n)*?)\[  FAILED  \] \1\b",
                       printed, re.MULTILINE)
    if not cases:
        return printed.splitlines()[-EXCERPT_LINES:]
    return [line for name, said in cases for line in [f"{name}:", *said.splitlines()[:EXCERPT_LINES]]]


def rows(tests, seconds):
    """[(label, seconds)], by name."""
    by_label = defaultdict(float)
    for test in tests:
        for label in test.labels:
            if test.name in seconds:
                by_label[label] += seconds[test.name]
    return sorted(by_label.items())


def remark(label, took, budgets):
    if label not in budgets:
        return "no budget in tests/budgets.txt: FAILED"
    if took <= budgets[label]:
        return ""
    return "over budget" if label != "processor" else "over budget: FAILED"


def main():
    results, budgets_path, *whole = sys.argv[1:]
    budgets = read_budgets(budgets_path)
    failed = False
    for name, printed in failed_tests(results):
        print("\n".join(["", f"failed: {name}", *(f"  {line}" for line in excerpt(printed))]))
    print(f"\n{'label':<12} {'seconds':>8} {'budget':>7}")
    table = rows(read_tests(sys.stdin), read_seconds(results))
    table += zip(("build", "wall", "processor"), map(float, whole), strict=True)
    for label, took in table:
        said = remark(label, took, budgets)
        failed = failed or said.endswith("FAILED")
        print(f"{label:<12} {took:>8.1f} {budgets.get(label, '-'):>7}  {said}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
