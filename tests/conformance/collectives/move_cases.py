"""Forward cases of the operations that move data without computing, except ragged_all_to_all."""

import itertools

import numpy as np

from case import DTYPES, generator
from table import AXES, EQUAL_GROUPS, SHAPES, in_order, moved_cases, ring, size_of
from values import moved


def add_moves(table):
    add_broadcasts(table)
    add_permutations(table)
    add_shuffles(table)
    add_swaps(table)
    add_all_to_alls(table)
    for operation in ("all_gather", "all_gather_invariant"):
        add_all_gathers(table, operation)
    add_pgathers(table)
    add_axis_queries(table)
    add_rooted_moves(table)


def add_broadcasts(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        table.add("pbroadcast", mesh, axes, dtype, (2, 3), label=label, draw=draw,
                  source=size_of(mesh, axes) - 1)
    for mesh, axes in AXES:
        table.add("pbroadcast", mesh, axes, "f32", (2,), label="axes", draw=moved,
                  source=size_of(mesh, axes) // 2)
    for shape in SHAPES:
        table.add("pbroadcast", "x4", "x", "i32", shape, label="shape", draw=moved, source=2)
    for source in range(3):
        table.add("pbroadcast", "x3", "x", "f32", (2,), label="source", draw=moved, source=source)


def add_permutations(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        axes = in_order(mesh, axes)
        table.add("ppermute", mesh, axes, dtype, (2, 3), label=label, draw=draw,
                  perm=ring(size_of(mesh, axes)))
    for mesh, axes in AXES:
        table.add("ppermute", mesh, axes, "f32", (2,), label="axes", draw=moved,
                  perm=ring(size_of(mesh, axes), -1))
    for shape in SHAPES:
        table.add("ppermute", "x4", "x", "i32", shape, label="shape", draw=moved,
                  perm=[[0, 2], [2, 0], [3, 1]])
    partial = [[], [[0, 0]], [[1, 2]], [[0, 1], [1, 2], [2, 3]], [[3, 2], [2, 1], [1, 0]],
               [[2, 2], [0, 3], [3, 0]], [[3, 3], [2, 2], [1, 1], [0, 0]],
               [[1, 0], [0, 1], [2, 3], [3, 2]]]
    for perm in partial:
        table.add("ppermute", "x4", "x", "f32", (2,), label="perm", draw=moved, perm=perm)
    table.add("ppermute", "x2y4", "xy", "i16", (3,), label="partial", draw=moved,
              perm=[[0, 7], [7, 3], [4, 0]])


def add_shuffles(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        axes = in_order(mesh, axes)
        size = size_of(mesh, axes)
        table.add("pshuffle", mesh, axes, dtype, (2, 3), label=label, draw=draw,
                  perm=[(3 * i + 1) % size if size in (2, 4, 8) else size - 1 - i
                        for i in range(size)])
    for shape in SHAPES:
        table.add("pshuffle", "x4", "x", "i32", shape, label="shape", draw=moved,
                  perm=[2, 0, 3, 1])
    for perm in itertools.permutations(range(3)):
        table.add("pshuffle", "x3", "x", "f32", (2,), label="perm", draw=moved, perm=list(perm))
    table.add("pshuffle", "x2y4", "xy", "f32", (2,), label="axes", draw=moved,
              perm=[5, 2, 7, 0, 1, 6, 3, 4])


def add_swaps(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        table.add("pswapaxes", mesh, axes, dtype, (2, size_of(mesh, axes)), label=label,
                  draw=draw, axis=1)
    for mesh, axes in AXES:
        table.add("pswapaxes", mesh, axes, "f32", (size_of(mesh, axes), 2), label="axes",
                  draw=moved, axis=0)
    for mesh, axes, groups in EQUAL_GROUPS:
        table.add("pswapaxes", mesh, axes, "i32", (len(groups[0]), 2), label="groups", draw=moved,
                  groups=groups, axis=0)
    for axis, shape in ((0, (4,)), (1, (3, 4, 5)), (-1, (3, 4)), (-2, (2, 4, 3)), (2, (2, 2, 4)),
                        (0, (4, 0))):
        table.add("pswapaxes", "x4", "x", "f32", shape, label="shape", draw=moved, axis=axis)


def add_all_to_alls(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        n = size_of(mesh, axes)
        table.add("all_to_all", mesh, axes, dtype, (n, 2), label=label, draw=draw,
                  split_axis=0, concat_axis=1, tiled=False)
        table.add("all_to_all", mesh, axes, dtype, (2, n), label=label, draw=draw,
                  split_axis=1, concat_axis=0, tiled=True)
    for (mesh, axes), tiled in itertools.product(AXES, (False, True)):
        n = size_of(mesh, axes)
        table.add("all_to_all", mesh, axes, "f32", (n, 2), label="axes", draw=moved,
                  split_axis=0, concat_axis=0, tiled=tiled)
    for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
        n = len(groups[0])
        table.add("all_to_all", mesh, axes, "i32", (2, n), label="groups", draw=moved,
                  groups=groups, split_axis=1, concat_axis=0, tiled=tiled)
    for split, concat, tiled in itertools.product((0, 1, 2, -1, -3), (0, 2, -2), (False, True)):
        shape = [2, 3, 2]
        shape[split] = 2 if not tiled else 4
        table.add("all_to_all", "x2", "x", "f32", tuple(shape), label="axis", draw=moved,
                  split_axis=split, concat_axis=concat, tiled=tiled)
    for shape, tiled in itertools.product(((4, 0), (4,)), (False, True)):
        table.add("all_to_all", "x4", "x", "f64", shape, label="shape", draw=moved,
                  split_axis=0, concat_axis=0, tiled=tiled)
    table.add("all_to_all", "x4", "x", "f32", (0, 3), label="shape", draw=moved,
              split_axis=0, concat_axis=1, tiled=True)
    table.add("all_to_all", "x3", "x", "f32", (6, 2), label="shape", draw=moved,
              split_axis=0, concat_axis=1, tiled=True)


def add_all_gathers(table, operation):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        for tiled in (False, True):
            if tiled and label:
                continue
            table.add(operation, mesh, axes, dtype, (2, 2), label=label, draw=draw,
                      axis=1, tiled=tiled)
    for (mesh, axes), tiled in itertools.product([*AXES, ("x2y2", "")], (False, True)):
        table.add(operation, mesh, axes, "f32", (2,), label="axes", draw=moved, axis=0,
                  tiled=tiled)
    if operation == "all_gather":
        for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
            table.add(operation, mesh, axes, "i32", (2,), label="groups", draw=moved,
                      groups=groups, axis=0, tiled=tiled)
    for axis in (0, 1, 2, 3, -1, -2, -4):
        table.add(operation, "x3", "x", "f32", (2, 1, 2), label="axis", draw=moved,
                  axis=axis, tiled=False)
    for axis in (0, 1, 2, -1, -2, -3):
        table.add(operation, "x3", "x", "f32", (2, 1, 2), label="axis", draw=moved,
                  axis=axis, tiled=True)
    table.add(operation, "x4", "x", "f32", (), label="shape", draw=moved, axis=0, tiled=False)
    table.add(operation, "x4", "x", "bool", (), label="shape", draw=moved, axis=-1, tiled=False)
    for shape, tiled in itertools.product(((0,), (2, 0), (0, 3)), (False, True)):
        table.add(operation, "x4", "x", "f32", shape, label="shape", draw=moved, axis=0,
                  tiled=tiled)


def add_pgathers(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        add_pgather_case(table, mesh, axes, dtype, (2,), (3,), label, draw)
    for mesh, axes in AXES:
        add_pgather_case(table, mesh, axes, "f32", (2,), (3,), "axes")
    for shape, index_shape in (((), ()), ((), (2,)), ((2,), ()), ((2, 2), (2, 3)), ((0,), (2,)),
                               ((2,), (0,)), ((3, 1), (1, 1))):
        add_pgather_case(table, "x4", "x", "i32", shape, index_shape, "shape")


def add_pgather_case(table, mesh, axes, dtype, shape, index_shape, label, draw=moved):
    index = "x".join(map(str, index_shape)) or "scalar"
    case = table.add("pgather", mesh, axes, dtype, shape, label="_".join(
        part for part in (label, f"index_{index}") if part), inputs=[[]])
    rng = generator(case)
    n = size_of(mesh, axes)
    case.inputs = [[draw(dtype, shape, rng), rng.integers(0, n, index_shape).astype(np.int32)]
                   for _ in range(case.ranks)]


def add_axis_queries(table):
    for operation in ("axis_index", "axis_size"):
        for mesh, axes in [*AXES, ("x2", "x"), ("x3", "x"), ("x4", "x"), ("x6", "x"),
                           ("x2y4", ""), ("x2y2z2", "zyx"), ("x2y2z2", "yz")]:
            table.add(operation, mesh, axes)


def add_rooted_moves(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        n = size_of(mesh, axes)
        table.add("gather", mesh, axes, dtype, (2, 2), label=label, draw=draw, root=n // 2,
                  axis=1, tiled=bool(label))
        add_scatter_case(table, mesh, axes, dtype, (2, n), label, draw, n // 2, 1, bool(label))
    for (mesh, axes), tiled in itertools.product(AXES, (False, True)):
        n = size_of(mesh, axes)
        table.add("gather", mesh, axes, "f32", (2,), label="axes", draw=moved, root=n - 1,
                  axis=0, tiled=tiled)
        add_scatter_case(table, mesh, axes, "f32", (n * (2 if tiled else 1),), "axes", moved,
                         n - 1, 0, tiled)
    for axis, tiled in itertools.product((0, 1, -1, -2), (False, True)):
        table.add("gather", "x3", "x", "i32", (2, 3), label="axis", draw=moved, root=1,
                  axis=axis, tiled=tiled)
        add_scatter_case(table, "x3", "x", "i32", (3, 3), "axis", moved, 1, axis, tiled)
    for shape, tiled in (((), False), ((0,), True), ((2, 0), False)):
        table.add("gather", "x4", "x", "f32", shape, label="shape", draw=moved, root=0, axis=0,
                  tiled=tiled)
    for shape, tiled in (((4,), False), ((0,), True), ((4, 0), False)):
        add_scatter_case(table, "x4", "x", "f32", shape, "shape", moved, 0, 0, tiled)


def add_scatter_case(table, mesh, axes, dtype, shape, label, draw, root, axis, tiled):
    case = table.add("scatter", mesh, axes, dtype, shape, label=label, draw=draw,
                     root=root, axis=axis, tiled=tiled)
    roots = {group[root] for group in case.groups()}
    case.inputs = [tensors if rank in roots else [] for rank, tensors in enumerate(case.inputs)]
