"""One case: an operation on a mesh, the tensors of every rank, and how both become JSON."""

import math
import re
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "cases"))
from tensors import (  # noqa: E402, F401
    COMPLEX, DTYPES, FLOATS, FP8, INTEGERS, NAMES, flat)


@dataclass
class Case:
    """A case before and after its outputs are known. `inputs` and `outputs` are lists of arrays,
    one list per world rank. `primal` holds, for a transpose, inputs of the forward operation."""

    operation: str
    mesh: list
    axes: list
    inputs: list
    name: str = ""
    index_groups: list = None
    attributes: dict = field(default_factory=dict)
    transpose: str = ""
    tolerance: float = 0
    primal: list = None
    cotangents_equal: bool = False  # on all members of a group
    error: str = ""
    oracle: str = "jax"
    reason: str = ""
    outputs: list = None

    @property
    def ranks(self):
        return math.prod(size for _, size in self.mesh)

    @property
    def file(self):
        return self.operation + (".transpose" if self.transpose else "") + ".json"

    def groups(self):
        """World ranks of each group, each list in the order of the positions."""
        names = [name for name, _ in self.mesh]
        sizes = [size for _, size in self.mesh]
        named = [names.index(axis) for axis in self.axes]
        others = [dim for dim in range(len(sizes)) if dim not in named]
        rows = np.arange(self.ranks).reshape(sizes).transpose(others + named)
        rows = rows.reshape(-1, math.prod(sizes[dim] for dim in named))
        positions = self.index_groups or [range(rows.shape[1])]
        return [[int(row[p]) for p in group] for row in rows for group in positions]

    def to_json(self):
        record = {"name": self.name, "oracle": self.oracle}
        if self.reason:
            record["reason"] = self.reason
        record |= {"mesh": self.mesh, "axes": self.axes}
        if self.index_groups is not None:
            record["index_groups"] = self.index_groups
        record |= self.attributes
        if self.transpose:
            record["transpose"] = self.transpose
        record["tolerance"] = self.tolerance
        record["inputs"] = [[encode(tensor) for tensor in rank] for rank in self.inputs]
        if self.error:
            return record | {"error": self.error}
        return record | {"outputs": [[encode(tensor) for tensor in rank] for rank in self.outputs]}


def parse_mesh(text):
    """"x2y4" -> [["x", 2], ["y", 4]]"""
    return [[axis, int(size)] for axis, size in re.findall(r"([a-z])(\d)", text)]


def describe(case, mesh, dtype, shape, label=""):
    """A name that says what the case is about, with letters, digits, _ and - only."""
    parts = [label] if label else []
    parts += [dtype, "x".join(map(str, shape)) or "scalar"] if dtype else []
    parts += [mesh, "over", "".join(case.axes) or "none"]
    if case.index_groups is not None:
        parts.append("groups_" + "_".join("".join(map(str, group)) for group in case.index_groups))
    for key, value in case.attributes.items():
        if key == "perm":
            value = "-".join("".join(map(str, np.ravel(pair))) for pair in value) or "none"
        parts.append(("" if value else "un") + key if key == "tiled" else f"{key}_{value}")
    if case.transpose not in ("", "linear"):
        parts.append(case.transpose)
    return "_".join(parts)


def generator(case):
    """The random numbers of a case depend on its name only."""
    return np.random.default_rng(zlib.crc32(f"{case.file} {case.name}".encode()))


def encode(tensor):
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data": flat(tensor)}


def epsilon(dtype):
    """The gap between 1 and the next number."""
    wide = {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
    return float(ml_dtypes.finfo(DTYPES[wide]).eps)
