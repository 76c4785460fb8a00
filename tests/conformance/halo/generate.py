"""Generates the conformance cases of halo exchanges: cases/*.json.

    generate.py [--check]

README.md has the format. With --check nothing is written: the program fails if a file would
change.
"""

import json
import sys
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cases"))
import oracle  # noqa: E402
from error_cases import add_errors  # noqa: E402
from halo_cases import add_cases  # noqa: E402
from tensors import COMPLEX, DTYPES, FP8, flat  # noqa: E402

FOLDER = HERE / "cases"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    values, errors = Table(), Table()
    add_cases(values)
    add_errors(errors)
    files = {"halo.json": values.text(), "errors.json": errors.text()}
    print(f"{len(values.records)} cases, {len(errors.records)} errors, "
          f"{sum(map(len, files.values()))} bytes")
    return (compare if arguments else write)(files)


class Table:
    """The cases of a file."""

    def __init__(self):
        self.records = []
        self.names = set()

    def add(self, name, mesh, *tensors, values="moved"):
        mesh = parse_mesh(mesh)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        self._append({"name": name, "mesh": mesh,
                      "tensors": [evaluate(mesh, tensor, values, rng) for tensor in tensors]})

    def add_error(self, name, mesh, error, declared, refused, mentions):
        self._append({"name": name, "mesh": parse_mesh(mesh), "error": error,
                      "declared": declared, "refused": refused, "mentions": mentions})

    def _append(self, record):
        if record["name"] in self.names:
            raise ValueError(f"two cases are called {record['name']}")
        self.names.add(record["name"])
        self.records.append(record)

    def text(self):
        """One case a line."""
        return '{"operation":"halo","cases":[\n%s\n]}\n' % ",\n".join(
            json.dumps(record, separators=(",", ":"), allow_nan=False) for record in self.records)


def parse_mesh(text):
    """"y=2,x=4" -> [["y", 2], ["x", 4]]"""
    return [[axis, int(size)] for axis, size in (one.split("=") for one in text.split(","))]


def evaluate(mesh, tensor, values, rng):
    """The tensor's part of a case."""
    partition = oracle.Partition(mesh, tensor)
    ranks = range(partition.ranks)
    blocks = [VALUES[values](tensor["dtype"], partition.shape(rank), rank, rng) for rank in ranks]
    padded = oracle.forward(partition, blocks)
    gradients = [gradient(tensor["dtype"], padded[rank].shape, rng) for rank in ranks]
    adjoint = oracle.adjoint(partition, gradients)
    return {"dtype": tensor["dtype"], "dims": tensor["dims"],
            "shapes": [list(block.shape) for block in blocks],
            "padded_shapes": [list(block.shape) for block in padded],
            "blocks": [flat(block) for block in blocks],
            "padded": [flat(block) for block in padded],
            "padded_gradients": [flat(block) for block in gradients],
            "block_gradients": [flat(block) for block in adjoint]}


def moved(dtype, shape, _rank, rng):
    """Distinct enough to see each element's way."""
    if dtype in COMPLEX:
        return (rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape)).astype(
            DTYPES[dtype])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if np.dtype(DTYPES[dtype]).kind in "iu":
        return whole_range(dtype, shape, rng)
    limit = 8 if dtype in FP8 else 100
    return rng.integers(1 - limit, limit, shape).astype(np.float32).astype(DTYPES[dtype])


def by_rank(dtype, shape, rank, _rng):
    """CREDIT's: all of a rank are its number, from 1."""
    return np.full(shape, rank + 1, DTYPES[dtype])


def special(dtype, shape, rank, _rng):
    """The ends of a dtype: NaN, infinities, -0, the smallest and the largest."""
    if dtype in COMPLEX:
        edges = [complex(np.nan, 1), complex(np.inf, -np.inf), complex(-0.0, 0.0), -2.5j, 0.0]
    else:
        info = ml_dtypes.finfo(DTYPES[dtype])
        edges = [np.nan, -0.0, 0.0, info.max, info.min, info.tiny, info.smallest_subnormal, 1.5]
        edges += [] if dtype == "f8e4m3" else [np.inf, -np.inf]
    edges = np.array(edges, DTYPES[dtype])
    return np.resize(np.roll(edges, -5 * rank), shape)


VALUES = {"moved": moved, "rank": by_rank, "special": special}


def gradient(dtype, shape, rng):
    """Sums of them are exact, or wrap."""
    if dtype in COMPLEX:
        return (rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape)).astype(
            DTYPES[dtype])
    if dtype == "bool":
        return rng.integers(0, 5, shape) == 0
    if np.dtype(DTYPES[dtype]).kind in "iu":
        return whole_range(dtype, shape, rng)
    limit = 1 if dtype in FP8 else 9
    return rng.integers(-limit, limit + 1, shape).astype(np.float32).astype(DTYPES[dtype])


def whole_range(dtype, shape, rng):
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)


def write(files):
    FOLDER.mkdir(exist_ok=True)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
