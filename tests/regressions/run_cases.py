"""Runs the cases of a GoogleTest program that match a filter; none is a failure.

    run_cases.py PROGRAM FILTER

For GoogleTest a filter without a match is a success, so after renaming a case its
regression would silently not be tested.
"""

import subprocess
import sys


def main():
    program, cases = sys.argv[1:]
    selection = f"--gtest_filter={cases}"
    for part in cases.split("-")[0].split(":"):
        listed = subprocess.run([program, f"--gtest_filter={part}", "--gtest_list_tests"],
                                capture_output=True, text=True, check=True).stdout
        if not any(line.startswith("  ") for line in listed.splitlines()):
            print(f"run_cases: no case of {program} matches '{part}'", file=sys.stderr)
            return 1
    return subprocess.run([program, selection], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
