"""Generates the conformance cases of named-axis collectives: cases/*.json.

    generate.py [--check]

JAX computes the outputs, and a NumPy model of the definitions must agree with each. Where JAX
cannot be the oracle, the outputs are the model's and the case says why. README.md has the format.
With --check nothing is written: the program fails if a file would change.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import model
import oracle
from error_cases import add_error_cases
from golden_cases import add_golden_cases
from list_cases import add_lists
from move_cases import add_moves
from ragged_cases import add_ragged
from reduction_cases import add_reductions
from table import Table
from transpose_cases import add_transposes

FOLDER = Path(__file__).resolve().parent / "cases"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    table = Table()
    add_golden_cases(table)
    add_reductions(table)
    add_moves(table)
    add_lists(table)
    add_ragged(table)
    add_transposes(table)
    add_error_cases(table)
    faults = evaluate(table.cases)
    print_counts(table.cases)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    return (compare if arguments else write)(texts(table.cases))


def evaluate(cases):
    """Sets the outputs of all cases. Returns the disagreements of JAX and the model."""
    values = [case for case in cases if not case.error]
    oracle.run([case for case in values if case.oracle == "jax"])
    faults = []
    for case in values:
        expected = (model.transpose(case) if case.transpose
                    else model.forward(case, case.inputs))
        if case.oracle == "numpy":
            case.outputs = expected
        elif fault := difference(case, expected):
            faults.append(f"{case.file}: {case.name}: {fault}")
    for case in cases:
        if case.error and case.oracle == "jax" and not oracle.refuses(case):
            faults.append(f"{case.file}: {case.name}: JAX does not refuse it")
    return faults


def difference(case, expected):
    """How JAX's outputs differ from the model's, or None."""
    for rank, (got, want) in enumerate(zip(case.outputs, expected, strict=True)):
        if [(a.dtype, a.shape) for a in got] != [(a.dtype, a.shape) for a in want]:
            return (f"rank {rank}: JAX gives {[(a.dtype, a.shape) for a in got]}, "
                    f"the model {[(a.dtype, a.shape) for a in want]}")
        if not all(is_close(a, b, case.tolerance) for a, b in zip(got, want)):
            return f"rank {rank}: JAX gives {got}, the model {want}"
    return None


def is_close(got, want, tolerance):
    if tolerance == 0:
        return np.array_equal(canonical(got), canonical(want))
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    close = np.abs(got - want) <= tolerance * np.maximum(1, np.abs(want))
    return bool(np.all(close | (np.isnan(got) & np.isnan(want))))


def canonical(tensor):
    """The bytes, with one NaN for all."""
    if tensor.dtype.kind == "c":
        tensor = np.stack([tensor.real, tensor.imag])
    tensor = tensor.copy()
    if tensor.dtype.kind not in "biu":
        tensor[np.isnan(tensor)] = np.nan
    return np.frombuffer(tensor.tobytes(), np.uint8)


def texts(cases):
    """The text of each file: one case a line."""
    files = {}
    for case in cases:
        files.setdefault(case.file, []).append(case)
    return {name: '{"operation":"%s","cases":[\n%s\n]}\n' % (
        members[0].operation,
        ",\n".join(json.dumps(case.to_json(), separators=(",", ":"), allow_nan=False)
                   for case in members))
        for name, members in files.items()}


def write(files):
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def compare(files):
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    changed = sorted(name for name in files.keys() | found.keys()
                     if files.get(name) != found.get(name))
    for name in changed:
        print(f"cases/{name} is not what generate.py writes", file=sys.stderr)
    return 1 if changed else 0


def print_counts(cases):
    counts = Counter((case.file.removesuffix(".json"),
                      "error" if case.error else case.oracle) for case in cases)
    print(f"{'operation':<32}{'jax':>6}{'numpy':>6}{'error':>6}")
    for name in sorted({name for name, _ in counts}):
        row = "".join(f"{counts[name, kind]:>6}" for kind in ("jax", "numpy", "error"))
        print(f"{name:<32}{row}")
    totals = [sum(n for (_, k), n in counts.items() if k == kind)
              for kind in ("jax", "numpy", "error")]
    print(f"{'total ' + str(len(cases)):<32}" + "".join(f"{n:>6}" for n in totals))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
