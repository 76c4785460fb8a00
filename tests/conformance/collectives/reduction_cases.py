"""Forward cases of the operations that compute: sums, means, products, extrema, their positions."""

import itertools

from case import COMPLEX, DTYPES, FLOATS, FP8, INTEGERS
from table import AXES, EQUAL_GROUPS, SHAPES, UNEVEN_GROUPS, size_of, with_meshes
from values import extremes, factors, rotations, small, uniform, wide, with_nan

ALL_REDUCES = ("psum", "pmean", "pmax", "pmin", "pprod")


def add_reductions(table):
    for operation in ALL_REDUCES:
        add_all_reduces(table, operation)
    for operation in ("pargmax", "pargmin"):
        add_arg_reductions(table, operation)
    add_psum_scatters(table)
    add_rooted_reductions(table)


def add_all_reduces(table, operation):
    draw = exact_values(operation)
    for dtype, mesh, axes in with_meshes(dtypes_of(operation)):
        rounded = operation == "pmean" and size_of(mesh, axes) in (3, 6)
        table.add(operation, mesh, axes, dtype, (2, 3), draw=draw,
                  tolerance=table.tolerance("f32" if dtype in ("bool", *INTEGERS) else dtype,
                                            mesh, axes) if rounded else 0)
    for mesh, axes in [*AXES, ("x2y2", ""), ("x2y3", "y")]:
        add_rounded(table, operation, mesh, axes, "f32", (2, 2), "axes", draw)
    for mesh, axes, groups in EQUAL_GROUPS + UNEVEN_GROUPS:
        dtype = "f32" if operation == "pmean" else "i32"
        add_rounded(table, operation, mesh, axes, dtype, (3,), "groups", draw, groups)
    for shape in SHAPES:
        table.add(operation, "x4", "x", "f32", shape, label="shape", draw=draw)
    table.add(operation, "x2", "x", label="list", draw=draw,
              tensors=[("f32", (2,)), ("f32", ()), ("f32", (2, 2))])
    table.add(operation, "x2y2", "yx", label="dtypes", draw=draw,
              tensors=[("f32", (2,)), ("i32", (3,)), ("bf16", (2, 1)), ("f64", ())])
    table.add(operation, "x4", "x", label="list_in_groups", draw=draw, groups=[[1, 2], [3, 0]],
              tensors=[("i32", (2,)), ("f32", (0,)), ("u8", (3,))])
    if operation in ("pmax", "pmin"):
        for dtype, mesh, axes in with_meshes((*FLOATS, *INTEGERS, *FP8)):
            table.add(operation, mesh, axes, dtype, (2, 4), "extremes", draw=extremes)
        for dtype in (*FLOATS, *FP8):
            table.add(operation, "x3", "x", dtype, (8,), label="nan", draw=with_nan)
        return
    add_rounded_sums(table, operation)


def add_rounded(table, operation, mesh, axes, dtype, shape, label, draw, groups=None):
    """Means over 3, 5, 6 or 7 ranks are rounded."""
    sizes = {len(group) for group in groups} if groups else {size_of(mesh, axes)}
    rounded = operation == "pmean" and sizes & {3, 5, 6, 7}
    table.add(operation, mesh, axes, dtype, shape, label=label, groups=groups, draw=draw,
              tolerance=table.tolerance(dtype, mesh, axes) if rounded else 0)


def add_rounded_sums(table, operation):
    for dtype, (mesh, axes) in itertools.product(
            (*FLOATS, *COMPLEX), (("x3", "x"), ("x8", "x"), ("x2y4", "yx"))):
        draw = rotations if operation == "pprod" and dtype in COMPLEX else uniform
        table.add(operation, mesh, axes, dtype, (4,), label="random", draw=draw,
                  tolerance=table.tolerance(dtype, mesh, axes) * (4 if draw == rotations else 1))
    table.add(operation, "x8", "x", "f32", (4,), label="random", draw=uniform,
              groups=[[7, 0, 3], [1, 6, 5, 2, 4]], tolerance=table.tolerance("f32", "x8", "x"))
    if operation != "pmean":
        for dtype in INTEGERS:
            table.add(operation, "x3", "x", dtype, (4,), label="wraps", draw=wide)
    for dtype in FLOATS:
        table.add(operation, "x2", "x", dtype, (8,), label="nan", draw=with_nan)


def dtypes_of(operation):
    is_order = operation in ("pmax", "pmin", "pargmax", "pargmin")
    return [dtype for dtype in DTYPES if not (is_order and dtype in COMPLEX)]


def exact_values(operation):
    return factors if operation == "pprod" else small


def add_arg_reductions(table, operation):
    for dtype, mesh, axes in with_meshes(dtypes_of(operation)):
        table.add(operation, mesh, axes[:1], dtype, (2, 3))
    for mesh, axes in AXES:
        if len(axes) == 1:
            table.add(operation, mesh, axes, "i32", (3,), label="axes")
    for shape in SHAPES:
        table.add(operation, "x4", "x", "f32", shape, label="shape")
    for dtype in (*FLOATS, *FP8):
        table.add(operation, "x3", "x", dtype, (8,), label="nan", draw=with_nan)
    for dtype, mesh, axes in with_meshes((*FLOATS, *INTEGERS)):
        table.add(operation, mesh, axes[:1], dtype, (4,), label="extremes", draw=extremes)


def add_psum_scatters(table):
    for dtype, mesh, axes in with_meshes(DTYPES):
        n = size_of(mesh, axes)
        for tiled in (False, True):
            table.add("psum_scatter", mesh, axes, dtype, (2, n), scatter_dimension=1, tiled=tiled)
    for (mesh, axes), tiled in itertools.product([*AXES, ("x2y3", "y")], (False, True)):
        n = size_of(mesh, axes)
        table.add("psum_scatter", mesh, axes, "f32", (n * (2 if tiled else 1), 2), label="axes",
                  scatter_dimension=0, tiled=tiled)
    for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
        n = len(groups[0])
        table.add("psum_scatter", mesh, axes, "i32", (n * (3 if tiled else 1),), label="groups",
                  groups=groups, scatter_dimension=0, tiled=tiled)
    for dimension, tiled in itertools.product((0, 1, 2, -1, -2, -3), (False, True)):
        shape = [2, 1, 3]
        shape[dimension] = 4 if tiled else 2
        table.add("psum_scatter", "x2", "x", "f32", tuple(shape), label="axis",
                  scatter_dimension=dimension, tiled=tiled)
    for shape, tiled in (((4, 0), False), ((4, 0), True), ((0, 2), True), ((4,), False)):
        table.add("psum_scatter", "x4", "x", "f64", shape, label="shape", scatter_dimension=0,
                  tiled=tiled)
    for dtype, tiled in itertools.product((*FLOATS, *COMPLEX), (False, True)):
        table.add("psum_scatter", "x4", "x", dtype, (8 if tiled else 4, 1), label="random",
                  draw=uniform, tolerance=table.tolerance(dtype, "x4", "x"), scatter_dimension=0,
                  tiled=tiled)
    for dtype in INTEGERS:
        table.add("psum_scatter", "x3", "x", dtype, (3,), label="wraps", draw=wide,
                  scatter_dimension=0, tiled=False)


def add_rooted_reductions(table):
    for op in ("sum", "prod", "min", "max", "mean"):
        dtypes = [dtype for dtype in DTYPES if not (op in ("min", "max") and dtype in COMPLEX)]
        draw = factors if op == "prod" else small
        for dtype, mesh, axes in with_meshes(dtypes):
            n = size_of(mesh, axes)
            exact = op != "mean" or n not in (3, 6)
            kind = "f32" if dtype in ("bool", *INTEGERS) else dtype
            table.add("reduce", mesh, axes, dtype, (2, 2), draw=draw, op=op, root=n - 1,
                      tolerance=0 if exact else table.tolerance(kind, mesh, axes))
        table.add("reduce", "x8", "x", "f32", (4,), label="random", draw=uniform, op=op, root=5,
                  tolerance=0 if op in ("min", "max") else table.tolerance("f32", "x8", "x"))
        table.add("reduce", "x3", "x", "f32", (8,), label="nan", draw=with_nan, op=op, root=0,
                  tolerance=table.tolerance("f32", "x3", "x") if op == "mean" else 0)
    for mesh, axes in AXES:
        table.add("reduce", mesh, axes, "f32", (2,), label="axes", op="sum",
                  root=size_of(mesh, axes) // 2)
    for shape in SHAPES:
        table.add("reduce", "x4", "x", "i32", shape, label="shape", op="sum", root=1)
