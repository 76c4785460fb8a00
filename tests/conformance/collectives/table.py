"""The table of cases while it is made: adds cases one by one, and their transposes."""

import itertools

import numpy as np

import model
from case import COMPLEX, FLOATS, FP8, NAMES, Case, describe, epsilon, generator, parse_mesh
from limits import why_not_jax
from values import moved, small, special

SHAPES = [(), (1,), (0,), (3, 0, 2), (2, 3, 4)]
REPEATED_MESHES = [("x2", "x"), ("x3", "x"), ("x4", "x"), ("x2y4", "y"), ("x2y2", "yx"),
                   ("x6", "x"), ("x8", "x"), ("x2y4", "xy"), ("x1", "x"), ("x2y2z2", "zx")]
# What most operations are tried with: one axis of several, several in both orders, none.
AXES = [("x1", "x"), ("x2y4", "x"), ("x2y4", "y"), ("x2y4", "xy"), ("x2y4", "yx"), ("x2y3", "yx"),
        ("x2y2z2", "y"), ("x2y2z2", "zx"), ("x2y2z2", "xyz"), ("x1y4", "xy"), ("x8", "x")]
EQUAL_GROUPS = [("x4", "x", [[0, 1], [2, 3]]), ("x4", "x", [[0, 2], [3, 1]]),
                ("x4", "x", [[3, 1, 0, 2]]), ("x3", "x", [[2], [0], [1]]),
                ("x6", "x", [[5, 0], [1, 4], [3, 2]]), ("x8", "x", [[7, 0, 3, 4], [1, 6, 5, 2]]),
                ("x2y4", "y", [[2, 0], [1, 3]]), ("x2y4", "xy", [[0, 5], [4, 1], [7, 2], [3, 6]]),
                ("x2y4", "yx", [[6, 0, 2, 4], [1, 3, 7, 5]])]
UNEVEN_GROUPS = [("x3", "x", [[2, 0], [1]]), ("x4", "x", [[0], [1, 2, 3]]),
                 ("x8", "x", [[0, 1], [2, 3, 4, 5, 6, 7]]), ("x6", "x", [[4], [0, 5], [3, 1, 2]]),
                 ("x2y4", "yx", [[0, 3, 5], [1], [2, 4, 6, 7]])]


class Table:
    def __init__(self):
        self.cases = []

    def add(self, operation, mesh, axes, dtype=None, shape=(), label="", groups=None,
            draw=small, tensors=None, inputs=None, tolerance=0, **attributes):
        """`tensors` lists (dtype, shape) of several tensors; `inputs` gives them outright. Without
        both, each rank has one tensor of `dtype` and `shape`, or none if there is no dtype."""
        case = Case(operation=operation, mesh=parse_mesh(mesh), axes=list(axes), inputs=[],
                    index_groups=groups, attributes=attributes, tolerance=tolerance)
        case.name = describe(case, mesh, dtype, shape, label)
        if tensors is None:
            tensors = [(dtype, shape)] if dtype else []
        rng = generator(case)
        case.inputs = inputs or [[draw(*tensor, rng) for tensor in tensors]
                                 for _ in range(case.ranks)]
        return self.append(case)

    def append(self, case):
        if any(case.name == other.name and case.file == other.file for other in self.cases):
            raise SystemExit(f"two cases of {case.file} have the name {case.name}")
        if not case.error:
            case.reason = why_not_jax(case)
            case.oracle = "numpy" if case.reason else "jax"
        self.cases.append(case)
        return case

    def tolerance(self, dtype, mesh, axes):
        """n * eps for the reduction of n ranks."""
        return size_of(mesh, axes) * epsilon(dtype)

    def add_transpose(self, forward, kind="linear", draw=small, tolerance=0, equal=False):
        """The transpose of `forward`, with cotangents drawn in the shapes of its outputs."""
        case = Case(operation=forward.operation, mesh=forward.mesh, axes=forward.axes, inputs=[],
                    index_groups=forward.index_groups, attributes=forward.attributes,
                    transpose=kind, tolerance=tolerance, primal=forward.inputs,
                    cotangents_equal=equal)
        parts = [forward.name] + ([kind] if kind != "linear" else []) + (["equal"] if equal else [])
        case.name = "_".join(parts)
        rng = generator(case)
        outputs = model.forward(forward, forward.inputs)
        names = [NAMES[tensor.dtype] for tensor in max(forward.inputs, key=len)]
        case.inputs = [[draw(name, tensor.shape, rng) for name, tensor in zip(names, rank)]
                       for rank in outputs]
        if equal:
            for group in case.groups():
                for rank in group:
                    case.inputs[rank] = case.inputs[group[0]]
        if forward.operation == "ragged_all_to_all":
            case.inputs = [ct + rank[2:] + [np.zeros_like(rank[0])]
                           for ct, rank in zip(case.inputs, forward.inputs)]
        if forward.operation == "pgather":
            case.inputs = [ct + rank[1:] for ct, rank in zip(case.inputs, forward.inputs)]
        return self.append(case)


def with_meshes(items):
    """(item, mesh, axes): the meshes by turns."""
    return [(item, *mesh) for item, mesh in zip(items, itertools.cycle(REPEATED_MESHES))]


def size_of(mesh, axes):
    sizes = dict(parse_mesh(mesh))
    return int(np.prod([sizes[axis] for axis in axes]))


def in_order(mesh, axes):
    """JAX permutes only over axes in the order of the mesh."""
    return "".join(name for name, _ in parse_mesh(mesh) if name in axes)


def ring(size, step=1):
    return [[i, (i + step) % size] for i in range(size)]


def moved_cases(dtypes):
    """The dtypes with plain values, then with those at the edges of the dtype."""
    for dtype, mesh, axes in with_meshes(dtypes):
        yield mesh, axes, dtype, "", moved
    for dtype, mesh, axes in with_meshes((*FLOATS, *FP8, *COMPLEX, "i8", "u64")):
        yield mesh, axes, dtype, "special", special
