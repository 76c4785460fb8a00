"""Rules of the source tree: ./run lint [RULE ...].

Prints one finding per line, path:line: message [rule]. Exits with 1 if there are
findings, with 2 for an unknown rule. --list prints the rules.
"""

import sys
from pathlib import Path

import includes
import programs
import text_rules
import type_names
from tree import Tree

RULES = {
    "format": programs.cpp_format,
    "shell": programs.shell,
    "arrows": includes.arrows,
    "pure": includes.pure,
    "wire-edge": includes.wire_edge,
    "locks": text_rules.locks,
    "nccl-names": text_rules.nccl_names,
    "launches": text_rules.launches,
    "disabled-tests": text_rules.disabled_tests,
    "comment-openers": text_rules.comment_openers,
    "replaced-names": text_rules.replaced_names,
    "unique-types": type_names.unique_types,
    "machine-paths": text_rules.machine_paths,
    "budgets": text_rules.budgets,
    "environment": text_rules.environment,
}


def main(arguments):
    if arguments == ["--list"]:
        for name, rule in RULES.items():
            print(f"{name:<15} {rule.__doc__}")
        return 0
    unknown = [name for name in arguments if name not in RULES]
    if unknown:
        print(f"run: lint: unknown rule '{unknown[0]}'; there are: {' '.join(RULES)}",
              file=sys.stderr)
        return 2
    tree = Tree.of_repository(Path(__file__).resolve().parents[2])
    found = [f"{finding} [{name}]" for name in arguments or RULES for finding in RULES[name](tree)]
    print("\n".join(found + [f"lint: {len(tree.files)} files, {len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
