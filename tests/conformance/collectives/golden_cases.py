"""Golden values from JAX's documentation and tests. Each result is written down here, and the model
must agree with it."""

import math

import numpy as np

import model
from case import Case, parse_mesh

ROWS = np.arange(16, dtype=np.float32).reshape(4, 4)
COUNT = np.arange(4, dtype=np.float32)
SHIFTED_PAIRS = [[1, 0], [2, 1], [0, 2]]


def add_golden_cases(table):
    add_documented(table)
    add_ragged(table)
    add_gradients(table)
    add_tested(table)


def add(table, name, operation, inputs, expected, mesh="x4", axes="x", groups=None, transpose="",
        primal=None, tolerance=0, **attributes):
    """`inputs` and `expected` hold one array for each rank, or a list of arrays."""
    case = Case(operation=operation, mesh=parse_mesh(mesh), axes=list(axes), name=f"golden_{name}",
                inputs=[_tensors(tensors) for tensors in inputs], index_groups=groups,
                attributes=attributes, transpose=transpose, primal=primal, tolerance=tolerance)
    if transpose and primal is None:
        case.primal = case.inputs
    table.append(case)
    found = model.transpose(case) if transpose else model.forward(case, case.inputs)
    for rank, tensors in enumerate(expected):
        for want, got in zip(_tensors(tensors), found[rank], strict=True):
            if want.shape != got.shape or not np.allclose(want, got, rtol=1e-6, atol=0):
                raise SystemExit(f"{case.name}: the model gives {got}, documented is {want}")


def _tensors(tensors):
    return tensors if isinstance(tensors, list) else [np.asarray(tensors)]


def add_documented(table):
    summed = ROWS.sum(axis=0)
    low, high = ROWS[:2].sum(axis=0), ROWS[2:].sum(axis=0)
    pairs = [[0, 1], [2, 3]]
    crossed = [[0, 2], [3, 1]]
    add(table, "psum_scalar", "psum", COUNT, np.float32([6] * 4))
    add(table, "psum_scalar_groups", "psum", COUNT, np.float32([1, 1, 5, 5]), groups=pairs)
    add(table, "psum_rows", "psum", ROWS, np.float32([[24, 28, 32, 36]] * 4))
    add(table, "psum_rows_groups", "psum", ROWS, [low, low, high, high], groups=pairs)
    add(table, "pmean", "pmean", COUNT, np.float32([1.5] * 4))
    add(table, "all_gather", "all_gather", COUNT, [COUNT] * 4, axis=0, tiled=False)
    add(table, "all_gather_groups", "all_gather", ROWS,
        [ROWS[[0, 2]], ROWS[[3, 1]], ROWS[[0, 2]], ROWS[[3, 1]]], groups=crossed, axis=0,
        tiled=False)
    add(table, "psum_scatter", "psum_scatter", ROWS, summed, scatter_dimension=0, tiled=False)
    add(table, "psum_scatter_tiled", "psum_scatter", ROWS, summed.reshape(4, 1),
        scatter_dimension=0, tiled=True)
    add(table, "psum_scatter_groups", "psum_scatter", ROWS,
        np.float32([[8, 10], [20, 22], [12, 14], [16, 18]]), groups=crossed,
        scatter_dimension=0, tiled=True)


def add_ragged(table):
    def vector(*numbers):
        return np.array(numbers, np.int32)

    zeros = np.zeros(4, np.float32)
    first = [np.float32([1, 2, 2]), zeros, vector(0, 1), vector(1, 2), vector(0, 0), vector(1, 1)]
    second = [np.float32([3, 4, 0]), zeros, vector(0, 1), vector(1, 1), vector(1, 2), vector(2, 1)]
    results = [np.float32([1, 3, 0, 0]), np.float32([2, 2, 4, 0])]
    tens = [[10 * inputs[0], *inputs[1:]] for inputs in (first, second)]
    add(table, "ragged", "ragged_all_to_all", [first, second], results, mesh="x2")
    add(table, "ragged_groups", "ragged_all_to_all", [first, second, *tens],
        [*results, *(10 * result for result in results)], groups=[[0, 1], [2, 3]])
    add(table, "ragged_degenerate_groups", "ragged_all_to_all",
        [[np.float32([1, 0, 0, 0]), zeros, vector(0), vector(1), vector(2), vector(1)],
         [np.float32([2, 3, 4, 0]), zeros, vector(0), vector(3), vector(1), vector(3)]],
        [np.float32([0, 0, 1, 0]), np.float32([0, 2, 3, 4])], mesh="x2", groups=[[0], [1]])
    # The mask of JAX's transpose is wrong here: an empty slice and one of two rows begin at row 0.
    shared = [np.float32([1, 2]), zeros, vector(0, 0), vector(0, 2), vector(0, 0), vector(0, 2)]
    other = [np.float32([3, 4]), zeros, vector(0, 2), vector(2, 0), vector(0, 0), vector(2, 0)]
    add(table, "ragged_shared_offset", "ragged_all_to_all", [shared, other],
        [np.float32([3, 4, 0, 0]), np.float32([1, 2, 0, 0])], mesh="x2")
    cotangents = [np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])]
    add(table, "ragged_shared_offset", "ragged_all_to_all",
        [[ct, *inputs[2:], np.zeros(2, np.float32)]
         for ct, inputs in zip(cotangents, (shared, other))],
        [[np.float32([5, 6]), np.float32([0, 0, 3, 4])],
         [np.float32([1, 2]), np.float32([0, 0, 7, 8])]],
        mesh="x2", transpose="linear", primal=[shared, other])


def add_gradients(table):
    """The gradient of the sum of y * f(x) is the transpose of y."""
    for ranks in (3, 8):
        mesh = f"x{ranks}"
        y = math.pi + np.arange(ranks)
        cycle = [[i, (i + 1) % ranks] for i in range(ranks)]
        add(table, f"shift_{ranks}", "ppermute", y, np.append(y[1:], 0), mesh=mesh,
            transpose="linear", perm=cycle[:-1])
        add(table, f"cycle_{ranks}", "ppermute", y, np.roll(y, -1), mesh=mesh,
            transpose="linear", perm=cycle)
        shuffle = [(i - 1) % ranks for i in range(ranks)]
        add(table, f"shuffle_{ranks}", "pshuffle", y, np.roll(y, -1), mesh=mesh,
            transpose="linear", perm=shuffle)
        add(table, f"shuffle_{ranks}", "pshuffle", y, np.roll(y, 1), mesh=mesh, perm=shuffle)
        ones = np.ones(ranks)
        add(table, f"broadcast_{ranks}", "pbroadcast", ones,
            np.where(np.arange(ranks) == 1, float(ranks), 0), mesh=mesh, transpose="linear",
            source=1)
    add(table, "pairs", "ppermute", np.float32([0, 10, 20]), np.float32([10, 20, 0]), mesh="x3",
        perm=SHIFTED_PAIRS)
    # With other extents than 1 beside the exchanged ones.
    blocks = np.arange(12, dtype=np.float32).reshape(2, 2, 3)  # rank, split, rest
    add(table, "untiled_exchange", "all_to_all", blocks, [
        np.stack([blocks[0, i], blocks[1, i]], axis=1) for i in range(2)], mesh="x2",
        split_axis=0, concat_axis=1, tiled=False)
    add(table, "untiled_exchange", "all_to_all", blocks.transpose(0, 2, 1), [
        np.stack([blocks[0, i], blocks[1, i]], axis=0) for i in range(2)], mesh="x2",
        transpose="linear", primal=[[block] for block in blocks],
        split_axis=0, concat_axis=1, tiled=False)


def add_tested(table):
    halves = np.arange(8, dtype=np.float32).reshape(4, 2)
    add(table, "pmin", "pmin", halves, np.float32([[0, 1]] * 4))
    add(table, "pmax", "pmax", halves, np.float32([[6, 7]] * 4))
    flags = np.array([True, False, True, True])
    add(table, "psum_bool", "psum", flags, np.int32([3] * 4))
    row = np.arange(8, dtype=np.float32).reshape(8, 1, 1)
    add(table, "all_gather_z", "all_gather", row,
        [np.float32([i, i + 1]).reshape(2, 1, 1) for i in (0, 0, 2, 2, 4, 4, 6, 6)],
        mesh="x2y2z2", axes="z", axis=0, tiled=False)
    add(table, "all_gather_xy", "all_gather", row,
        [np.float32([i, i + 2, i + 4, i + 6]).reshape(1, 4) for i in (0, 1) * 4],
        mesh="x2y2z2", axes="xy", axis=-1, tiled=True)
    add(table, "all_gather_yz_groups", "all_gather", row,
        [np.float32([i, i + 1]).reshape(2, 1, 1) for i in (0, 0, 2, 2, 4, 4, 6, 6)],
        mesh="x2y2z2", axes="yz", groups=[[0, 1], [2, 3]], axis=0, tiled=False)
    eight = np.arange(64, dtype=np.float32).reshape(8, 8)
    add(table, "psum_scatter_even_odd", "psum_scatter", eight,
        [eight[i % 2::2].sum(axis=0)[2 * (i // 2):2 * (i // 2) + 2] for i in range(8)],
        mesh="x8", groups=[[0, 2, 4, 6], [1, 3, 5, 7]], scatter_dimension=0, tiled=True)
    add(table, "psum_uneven_groups", "psum", eight[:, :4],
        [eight[:2, :4].sum(axis=0)] * 2 + [eight[2:, :4].sum(axis=0)] * 6, mesh="x8",
        groups=[[0, 1], [2, 3, 4, 5, 6, 7]])
    add(table, "pmean_uneven_groups", "pmean", eight[:, :4],
        [eight[:2, :4].mean(axis=0)] * 2 + [eight[2:, :4].mean(axis=0)] * 6, mesh="x8",
        groups=[[0, 1], [2, 3, 4, 5, 6, 7]], tolerance=2.0 ** -20)
    add(table, "axis_index_xy", "axis_index", [[]] * 8, np.arange(8, dtype=np.int32),
        mesh="x4y2", axes="xy")
    add(table, "axis_index_y", "axis_index", [[]] * 8, np.int32([0, 1] * 4), mesh="x4y2",
        axes="y")
    add(table, "exchange", "all_to_all", eight.reshape(8, 8, 1),
        eight.T.reshape(8, 1, 8), mesh="x8", split_axis=0, concat_axis=1, tiled=True)
