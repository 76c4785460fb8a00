"""The transposes: cotangents in, the adjoint's results out."""

import itertools

from case import COMPLEX, FLOATS, FP8
from move_cases import add_pgather_case, add_scatter_case
from ragged_cases import add_ragged_case
from table import AXES, EQUAL_GROUPS, UNEVEN_GROUPS, Table, in_order, ring, size_of, with_meshes
from values import moved, small, uniform

LINEAR = (*FLOATS, *COMPLEX, *FP8, "i32", "i64", "u8")
DIFFERENTIABLE = (*FLOATS, *COMPLEX, *FP8)


def add_transposes(table):
    add_sum_transposes(table)
    for operation in ("pbroadcast", "ppermute", "pshuffle", "pswapaxes"):
        add_move_transposes(table, operation)
    add_all_to_all_transposes(table)
    add_ragged_transposes(table)
    for operation in ("all_gather", "all_gather_invariant"):
        add_gather_transposes(table, operation)
    add_scatter_transposes(table)
    add_pgather_transposes(table)
    add_rooted_transposes(table)


def forward_case(*arguments, **options):
    """A forward case that is only transposed."""
    return Table().add(*arguments, **options)


def add_sum_transposes(table):
    for operation, kind in itertools.product(("psum", "pmean"), ("sum", "identity")):
        dtypes = LINEAR if operation == "psum" else DIFFERENTIABLE
        for dtype, mesh, axes in with_meshes(dtypes):
            add_sum_transpose(table, kind, operation, mesh, axes, dtype, (2, 2))
        for mesh, axes in [*AXES, ("x2y2", "")]:
            add_sum_transpose(table, kind, operation, mesh, axes, "f32", (2,), label="axes")
            if kind == "identity":
                add_sum_transpose(table, kind, operation, mesh, axes, "f64", (2,), label="axes",
                                  equal=True)
        for mesh, axes, groups in EQUAL_GROUPS + UNEVEN_GROUPS:
            add_sum_transpose(table, kind, operation, mesh, axes, "f32", (2,), label="groups",
                              groups=groups)
        for shape in ((), (0,), (2, 1, 3)):
            add_sum_transpose(table, kind, operation, "x4", "x", "f32", shape, label="shape")
        tensors = [("f32", (2,)), ("f64", ()), ("bf16", (1, 2))]
        table.add_transpose(forward_case(operation, "x2y2", "yx", tensors=tensors, label="dtypes"),
                            kind)
        for dtype in (*FLOATS, *COMPLEX):
            add_sum_transpose(table, kind, operation, "x8", "x", dtype, (3,), label="random",
                              draw=uniform)


def add_sum_transpose(table, kind, operation, mesh, axes, dtype, shape, groups=None, equal=False,
                      draw=small, label=""):
    sizes = {len(group) for group in groups} if groups else {size_of(mesh, axes)}
    is_rounded = draw == uniform or (operation == "pmean" and sizes & {3, 5, 6, 7})
    table.add_transpose(
        forward_case(operation, mesh, axes, dtype, shape, groups=groups, label=label), kind,
        draw=draw, equal=equal,
        tolerance=table.tolerance(dtype, mesh, axes) if is_rounded else 0)


def add_move_transposes(table, operation):
    def add(mesh, axes, dtype, label="", shape=(2,), groups=None):
        n = len(groups[0]) if groups else size_of(mesh, axes)
        attributes = {
            "pbroadcast": {"source": n // 2}, "ppermute": {"perm": ring(n)[:max(1, n - 1)]},
            "pshuffle": {"perm": [(3 * i + 1) % n if n in (2, 4, 8) else n - 1 - i
                                  for i in range(n)]},
            "pswapaxes": {"axis": 0}}[operation]
        if operation == "pswapaxes":
            shape = (n, *shape)
        table.add_transpose(forward_case(operation, mesh, axes, dtype, shape, label=label,
                                         groups=groups, **attributes))

    for dtype, mesh, axes in with_meshes(LINEAR):
        add(mesh, in_order(mesh, axes), dtype)
    for mesh, axes in AXES:
        is_shuffle = operation == "pshuffle"
        add(mesh, in_order(mesh, axes) if is_shuffle else axes, "f64",
            label="axes" + ("_" + axes if is_shuffle else ""))
    for shape in ((), (0,), (2, 1, 3)):
        add("x4", "x", "f32", "shape", shape)
    if operation == "pswapaxes":
        for mesh, axes, groups in EQUAL_GROUPS:
            add(mesh, axes, "f32", "groups", groups=groups)
        for axis in (1, -1, -2):
            table.add_transpose(forward_case("pswapaxes", "x3", "x", "f32", (3, 3), label="axis",
                                             axis=axis))
    if operation == "ppermute":
        for perm in ([], [[1, 2]], [[0, 1], [1, 2], [2, 3]], [[2, 2], [0, 3], [3, 0]]):
            table.add_transpose(forward_case(operation, "x4", "x", "f32", (2,), label="perm",
                                             perm=perm))


def add_all_to_all_transposes(table):
    def add(mesh, axes, dtype, shape, label="", groups=None, **attributes):
        table.add_transpose(forward_case("all_to_all", mesh, axes, dtype, shape, label=label,
                                         groups=groups, **attributes), draw=moved)

    for dtype, mesh, axes in with_meshes(LINEAR):
        n = size_of(mesh, axes)
        add(mesh, axes, dtype, (n, 2), split_axis=0, concat_axis=0, tiled=False)
        add(mesh, axes, dtype, (2, n), split_axis=1, concat_axis=0, tiled=True)
    for (mesh, axes), tiled in itertools.product(AXES, (False, True)):
        add(mesh, axes, "f64", (size_of(mesh, axes), 1), label="axes", split_axis=0,
            concat_axis=1, tiled=tiled)
    for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
        add(mesh, axes, "f32", (len(groups[0]), 2), label="groups", groups=groups, split_axis=0,
            concat_axis=1, tiled=tiled)
    for split, concat, tiled in itertools.product((0, 1, 2, -1), (0, 1, 2, -2), (False, True)):
        shape = [2, 3, 2]
        shape[split] = 4 if tiled else 2
        add("x2", "x", "f32", tuple(shape), label="axis", split_axis=split, concat_axis=concat,
            tiled=tiled)


def add_ragged_transposes(table):
    def add(*arguments, **options):
        table.add_transpose(add_ragged_case(Table(), *arguments, **options), draw=moved)

    for dtype, mesh, axes in with_meshes(LINEAR):
        add(mesh, axes, dtype, "sizes", most=2)
    for mesh, axes in AXES:
        add(mesh, axes, "f64", "axes", most=2)
    for mesh, axes, groups in EQUAL_GROUPS:
        add(mesh, axes, "f32", "groups", groups=groups, trailing=(2,), most=2)
    add("x3", "x", "f32", "slices2", slices=2)
    add("x4", "x", "f32", "slices2", slices=2, groups=[[0, 2], [3, 1]], most=1)
    add("x4", "x", "f32", "all_empty", most=0)
    # Empty slices share their offset with others.
    for most in (1, 2):
        add("x4", "x", "f32", f"packed{most}", slack=0, most=most, trailing=(1,))


def add_gather_transposes(table, operation):
    for dtype, mesh, axes in with_meshes(LINEAR):
        for tiled in (False, True):
            add_gather_transpose(table, operation, mesh, axes, dtype, (2, 2), 1, tiled)
    for (mesh, axes), tiled in itertools.product([*AXES, ("x2y2", "")], (False, True)):
        add_gather_transpose(table, operation, mesh, axes, "f32", (2,), 0, tiled, label="axes")
        if operation == "all_gather_invariant":
            add_gather_transpose(table, operation, mesh, axes, "f64", (2,), 0, tiled,
                                 label="axes", equal=True)
    for axis, tiled in itertools.product((0, 1, -1, -2), (False, True)):
        add_gather_transpose(table, operation, "x3", "x", "f32", (2, 3), axis, tiled, label="axis")
    if operation == "all_gather":
        for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
            add_gather_transpose(table, operation, mesh, axes, "f32", (2,), 0, tiled,
                                 label="groups", groups=groups)
        for dtype in (*FLOATS, *COMPLEX):
            table.add_transpose(
                forward_case(operation, "x4", "x", dtype, (3,), axis=0, tiled=True,
                             label="random"),
                draw=uniform, tolerance=table.tolerance(dtype, "x4", "x"))
    add_gather_transpose(table, operation, "x4", "x", "f32", (), 0, False, label="shape")
    add_gather_transpose(table, operation, "x4", "x", "f32", (0, 2), 0, True, label="shape")


def add_gather_transpose(table, operation, mesh, axes, dtype, shape, axis, tiled, groups=None,
                         equal=False, label=""):
    table.add_transpose(forward_case(operation, mesh, axes, dtype, shape, label=label,
                                     groups=groups, axis=axis, tiled=tiled), equal=equal)


def add_scatter_transposes(table):
    def add(mesh, axes, dtype, shape, dimension, tiled, label="", groups=None):
        table.add_transpose(forward_case("psum_scatter", mesh, axes, dtype, shape, label=label,
                                         groups=groups, scatter_dimension=dimension, tiled=tiled))

    for dtype, mesh, axes in with_meshes(LINEAR):
        n = size_of(mesh, axes)
        for tiled in (False, True):
            add(mesh, axes, dtype, (2, n), 1, tiled)
    for (mesh, axes), tiled in itertools.product(AXES, (False, True)):
        add(mesh, axes, "f64", (size_of(mesh, axes),), 0, tiled, label="axes")
    for (mesh, axes, groups), tiled in itertools.product(EQUAL_GROUPS, (False, True)):
        add(mesh, axes, "f32", (len(groups[0]) * (2 if tiled else 1), 2), 0, tiled,
            label="groups", groups=groups)
    for dimension, tiled in itertools.product((0, 1, 2, -1, -2), (False, True)):
        shape = [1, 3, 2]
        shape[dimension] = 4 if tiled else 2
        add("x2", "x", "f32", tuple(shape), dimension, tiled, label="axis")


def add_pgather_transposes(table):
    def add(*arguments):
        forward = Table()
        add_pgather_case(forward, *arguments)
        table.add_transpose(forward.cases[0], draw=small)

    for dtype, mesh, axes in with_meshes(LINEAR):
        add(mesh, axes, dtype, (2,), (3,), "")
    for shape, index_shape in (((), ()), ((2, 2), (2, 1)), ((0,), (2,)), ((2,), (0,))):
        add("x4", "x", "f32", shape, index_shape, "shape")


def add_rooted_transposes(table):
    for dtype, mesh, axes in with_meshes(LINEAR):
        n = size_of(mesh, axes)
        table.add_transpose(forward_case("reduce", mesh, axes, dtype, (2, 2), op="sum",
                                         root=n - 1))
        for operation, tiled in itertools.product(("gather", "scatter"), (False, True)):
            add_rooted_move(table, operation, mesh, axes, dtype, n // 2, 1, tiled)
    for dtype, (mesh, axes) in itertools.product(("f32", "f64"), (("x2", "x"), ("x2y4", "y"))):
        table.add_transpose(forward_case("reduce", mesh, axes, dtype, (3,), op="mean", root=0))
    for mesh, axes in AXES:
        n = size_of(mesh, axes)
        table.add_transpose(forward_case("reduce", mesh, axes, "f64", (2,), label="axes", op="sum",
                                         root=n // 2))
        for operation in ("gather", "scatter"):
            add_rooted_move(table, operation, mesh, axes, "f64", 0, 0, True, "axes")


def add_rooted_move(table, operation, mesh, axes, dtype, root, axis, tiled, label=""):
    forward = Table()
    shape = [2, 2]
    if operation == "scatter":
        shape[axis] = size_of(mesh, axes)
        add_scatter_case(forward, mesh, axes, dtype, tuple(shape), label, moved, root, axis, tiled)
    else:
        forward.add("gather", mesh, axes, dtype, tuple(shape), label=label, draw=moved, root=root,
                    axis=axis, tiled=tiled)
    table.add_transpose(forward.cases[0], draw=moved)
