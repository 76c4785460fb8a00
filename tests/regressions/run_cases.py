"""Runs the cases of a GoogleTest program that match a filter; none is a failure.

    run_cases.py PROGRAM FILTER
    run_cases.py --check LIST     only whether there are such; LIST has a line for each

For GoogleTest a filter without a match is a success, so after renaming a case its
regression would silently not be tested.
"""

import subprocess
import sys
from pathlib import Path


def parts_without_cases(program, cases):
    """Those parts of a filter that match no case."""
    empty = []
    for part in cases.split("-")[0].split(":"):
        listed = subprocess.run([program, f"--gtest_filter={part}", "--gtest_list_tests"],
                                capture_output=True, text=True, check=True).stdout
        if not any(line.startswith("  ") for line in listed.splitlines()):
            empty.append(part)
            print(f"run_cases: no case of {program} matches '{part}'", file=sys.stderr)
    return empty


def main():
    if sys.argv[1] == "--check":
        lines = Path(sys.argv[2]).read_text(encoding="utf-8").splitlines()
        broken = [line for line in lines if parts_without_cases(*line.split(" ", 1))]
        print(f"{len(lines)} filters, {len(broken)} without cases")
        return 1 if broken or not lines else 0
    program, cases = sys.argv[1:]
    if parts_without_cases(program, cases):
        return 1
    return subprocess.run([program, f"--gtest_filter={cases}"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
