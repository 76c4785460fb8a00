"""Forward cases of ragged_all_to_all."""

import itertools

import numpy as np

from case import DTYPES, generator
from table import AXES, EQUAL_GROUPS, moved_cases, size_of
from values import moved


def add_ragged(table):
    for mesh, axes, dtype, label, draw in moved_cases(DTYPES):
        add_ragged_case(table, mesh, axes, dtype, label or "sizes", draw=draw, most=2)
    for mesh, axes in AXES:
        add_ragged_case(table, mesh, axes, "f32", "axes", most=2)
    for mesh, axes, groups in EQUAL_GROUPS:
        add_ragged_case(table, mesh, axes, "i32", "groups", groups=groups, trailing=(2,), most=2)
    for slices in (2, 3):
        add_ragged_case(table, "x3", "x", "f32", f"slices{slices}", slices=slices)
        add_ragged_case(table, "x4", "x", "f32", f"slices{slices}", slices=slices, most=1,
                        groups=[[0, 2], [3, 1]])
    add_ragged_case(table, "x4", "x", "f64", "rows", trailing=(2, 2), most=2)
    add_ragged_case(table, "x2", "x", "f32", "rows_of_nothing", trailing=(0,))
    add_ragged_case(table, "x4", "x", "f32", "all_empty", most=0)
    add_ragged_case(table, "x4", "x", "f32", "packed", slack=0, most=1)
    table.add("ragged_all_to_all", "x3", "x", label="same_rows_to_all", inputs=[[
        np.array([10 * i + 1, 10 * i + 2], np.float32), np.zeros(6, np.float32),
        np.array([0, 0, 0], np.int32), np.array([2, 2, 2], np.int32),
        np.array([2 * i] * 3, np.int32), np.array([2, 2, 2], np.int32)] for i in range(3)])


def add_ragged_case(table, mesh, axes, dtype, label, groups=None, slices=1, trailing=(),
                    draw=moved, most=3, slack=1):
    rows = "x".join(map(str, ("n", *trailing)))
    case = table.add("ragged_all_to_all", mesh, axes, label=f"{label}_{dtype}_{rows}",
                     groups=groups, inputs=[[]])
    rng = generator(case)
    n = len(groups[0]) if groups else size_of(mesh, axes)
    sizes = rng.integers(0, most + 1, (n, n, slices))
    case.inputs = ragged_inputs(case.groups(), case.ranks, sizes, dtype, trailing, draw, rng, slack)
    return case


def ragged_inputs(case_groups, ranks, sizes, dtype, trailing, draw, rng, slack=1):
    """Inputs of ragged_all_to_all. sizes[i][j][c] is how many rows member i sends to member j in
    slice c. Rows are packed in another order than the slices where they are sent, and where they
    are received; `slack` rows lie between the received slices."""
    n, slices = len(sizes), len(sizes[0][0])
    keys = list(itertools.product(range(n), range(n), range(slices)))  # (sender, receiver, slice)
    size = {key: sizes[key[0]][key[1]][key[2]] for key in keys}
    operand_rows = max(sum(size[key] for key in keys if key[0] == i) for i in range(n)) + slack
    output_rows = max(sum(size[key] + slack for key in keys if key[1] == j) for j in range(n))
    sent_at, received_at = {}, {}
    for member in range(n):
        sent = [key for key in keys if key[0] == member]
        received = [key for key in keys if key[1] == member]
        for own, offsets, gap in ((sent, sent_at, 0), (received, received_at, slack)):
            offset = 0
            for position in rng.permutation(len(own)):
                offsets[own[position]] = offset
                offset += size[own[position]] + gap
    inputs = [None] * ranks
    for group in case_groups:
        for i, rank in enumerate(group):
            own = [(i, j, c) for j in range(n) for c in range(slices)]
            received = [(j, i, c) for j in range(n) for c in range(slices)]
            inputs[rank] = [
                draw(dtype, (operand_rows, *trailing), rng),
                draw(dtype, (output_rows, *trailing), rng),
                np.array([sent_at[key] for key in own], np.int32),
                np.array([size[key] for key in own], np.int32),
                np.array([received_at[key] for key in own], np.int32),
                np.array([size[key] for key in received], np.int32)]
    return inputs
