"""Bad input: the operation refuses it on all ranks before any data is sent."""

import numpy as np

from case import DTYPES, Case, parse_mesh

LOOSE = "JAX does not check this before it compiles"
ABSENT = "JAX has no such operation"
NOT_ON_CPU = "JAX has no ragged_all_to_all on CPU"
# Attributes that fit a vector with one element for each of 4 ranks.
VECTOR = {"all_gather": {"axis": 0, "tiled": True},
          "all_gather_invariant": {"axis": 0, "tiled": True},
          "psum_scatter": {"scatter_dimension": 0, "tiled": True},
          "all_to_all": {"split_axis": 0, "concat_axis": 0, "tiled": True},
          "pswapaxes": {"axis": 0}, "pbroadcast": {"source": 0}, "ppermute": {"perm": [[0, 1]]},
          "pshuffle": {"perm": [1, 0, 2, 3]}, "reduce": {"op": "sum", "root": 0},
          "gather": {"axis": 0, "tiled": True, "root": 0},
          "scatter": {"axis": 0, "tiled": True, "root": 0}}
WITHOUT_JAX = ("pprod", "reduce", "gather", "scatter")


def add_error_cases(table):
    add_bad_axes(table)
    add_bad_groups(table)
    add_bad_dimensions(table)
    add_bad_shapes(table)
    add_bad_permutations(table)
    add_bad_roots(table)
    add_bad_dtypes(table)
    add_bad_ragged(table)


def add(table, error, operation, name, reason="", mesh="x4", axes="x", shape=(4,), groups=None,
        dtype="f32", inputs=None, **attributes):
    """Without a reason, JAX refuses the case too."""
    case = Case(operation=operation, mesh=parse_mesh(mesh), axes=list(axes), inputs=[],
                name=f"error_{error}_{name}", index_groups=groups, attributes=attributes,
                error=error, oracle="numpy" if reason else "jax", reason=reason)
    tensors = [np.zeros(shape, DTYPES[dtype])] if inputs is None else inputs
    case.inputs = [inputs(rank) if callable(inputs) else tensors for rank in range(case.ranks)]
    table.append(case)


def ragged(operand=4, output=4, k=4, input_offsets=None, send_sizes=None, output_offsets=None,
           recv_sizes=None, trailing=(), output_trailing=(), dtype=np.int32):
    """rank -> inputs. Each of 4 ranks sends one row to each, apart from what is given."""
    def vector(given, default):
        return np.array(default if given is None else given, dtype)

    return lambda rank: [
        np.zeros((operand, *trailing), np.float32),
        np.zeros((output, *output_trailing), np.float32),
        vector(input_offsets, range(k)), vector(send_sizes, [1] * k),
        vector(output_offsets, [rank] * k), vector(recv_sizes, [1] * k)]


def absent(operation, otherwise=""):
    return ABSENT if operation in WITHOUT_JAX else otherwise


def add_bad_axes(table):
    single = ("psum", "pmean", "pmax", "pmin", "pprod", "pargmax", "pargmin", *VECTOR)
    for operation in single:
        add(table, "unknown_axis", operation, "q", absent(operation), axes="q",
            **VECTOR.get(operation, {}))
    for operation in ("axis_index", "axis_size"):
        add(table, "unknown_axis", operation, "q", axes="q", inputs=[])
    add(table, "unknown_axis", "ragged_all_to_all", "q", axes="q", inputs=ragged())
    add(table, "unknown_axis", "pgather", "q", "JAX removed pgather", axes="q",
        inputs=[np.zeros(2, np.float32), np.zeros(2, np.int32)])
    for operation in ("psum", "all_gather", "psum_scatter", "all_to_all"):
        add(table, "unknown_axis", operation, "second", axes="xq", **VECTOR.get(operation, {}))
    for operation in ("psum", "pmax", "all_gather", "psum_scatter", "all_to_all", "axis_index"):
        add(table, "bad_axes", operation, "twice", LOOSE, axes="xx", mesh="x2",
            inputs=[] if operation == "axis_index" else None, **VECTOR.get(operation, {}))
    for operation in ("pargmax", "pargmin"):
        add(table, "bad_axes", operation, "two", axes="xy", mesh="x2y2")


def add_bad_groups(table):
    bad = {"repeated": [[0, 1], [1, 3]], "missing": [[0, 1], [3]], "too_large": [[0, 1], [2, 4]],
           "negative": [[0, 1], [2, -1]], "of_fewer_ranks": [[0, 1]],
           "twice": [[0, 0, 1, 1], [2, 2, 3, 3]]}
    for name, groups in bad.items():
        add(table, "bad_groups", "psum", name, LOOSE if name == "of_fewer_ranks" else "",
            groups=groups)
        add(table, "bad_groups", "all_gather", name, LOOSE if name == "of_fewer_ranks" else "",
            groups=groups, axis=0, tiled=False)
    for name in ("repeated", "missing", "too_large"):
        for operation in ("pmean", "pmax", "psum_scatter", "all_to_all"):
            add(table, "bad_groups", operation, name, groups=bad[name],
                **VECTOR.get(operation, {}))
    add(table, "bad_groups", "ragged_all_to_all", "missing", NOT_ON_CPU, groups=bad["missing"],
        inputs=ragged())
    uneven = [[0], [1, 2, 3]]
    for operation in ("all_gather", "psum_scatter", "all_to_all", "pswapaxes"):
        add(table, "bad_groups", operation, "uneven", LOOSE, groups=uneven,
            shape=(1 if operation == "pswapaxes" else 4,), **VECTOR[operation])
    add(table, "bad_groups", "ragged_all_to_all", "uneven", NOT_ON_CPU, groups=uneven,
        inputs=ragged())
    add(table, "bad_groups", "psum", "empty_group", groups=[[0, 1, 2, 3], []], reason=LOOSE)


def add_bad_dimensions(table):
    for axis, tiled in ((2, False), (-3, False), (1, True), (-2, True), (9, True)):
        for operation in ("all_gather", "all_gather_invariant"):
            add(table, "bad_axis", operation, f"{axis}_{tiled}", axis=axis, tiled=tiled)
        add(table, "bad_axis", "gather", f"{axis}_{tiled}", ABSENT, axis=axis, tiled=tiled, root=0)
    for axis in (1, -2):
        for tiled in (False, True):
            add(table, "bad_axis", "psum_scatter", f"{axis}_{tiled}", scatter_dimension=axis,
                tiled=tiled)
            add(table, "bad_axis", "scatter", f"{axis}_{tiled}", ABSENT, axis=axis, tiled=tiled,
                root=0)
            for split, concat in ((axis, 0), (0, axis)):
                reason = LOOSE if (concat, tiled) == (-2, False) else ""
                add(table, "bad_axis", "all_to_all", f"{split}_{concat}_{tiled}", reason,
                    split_axis=split, concat_axis=concat, tiled=tiled)
        add(table, "bad_axis", "pswapaxes", str(axis), axis=axis)
    for operation in ("psum_scatter", "all_to_all", "all_gather"):
        add(table, "bad_axis", operation, "scalar", shape=(), **VECTOR[operation])


def add_bad_shapes(table):
    for extent in (3, 5, 8):
        add(table, "bad_shape", "psum_scatter", f"untiled_{extent}", shape=(extent, 2),
            scatter_dimension=0, tiled=False)
        add(table, "bad_shape", "all_to_all", f"untiled_{extent}", shape=(2, extent),
            split_axis=1, concat_axis=0, tiled=False)
        add(table, "bad_shape", "pswapaxes", str(extent), shape=(extent,), axis=0)
        add(table, "bad_shape", "scatter", f"untiled_{extent}", ABSENT, shape=(extent, 2),
            axis=0, tiled=False, root=0)
    for extent in (3, 6):
        for operation in ("psum_scatter", "all_to_all"):
            add(table, "bad_shape", operation, f"tiled_{extent}", shape=(extent,),
                **VECTOR[operation])
        add(table, "bad_shape", "scatter", f"tiled_{extent}", ABSENT, shape=(extent,),
            **VECTOR["scatter"])
    add(table, "bad_shape", "psum_scatter", "group_of_two", shape=(4,), groups=[[0, 1], [2, 3]],
        scatter_dimension=0, tiled=False)
    add(table, "bad_shape", "all_to_all", "group_of_two", shape=(4,), groups=[[0, 1], [2, 3]],
        split_axis=0, concat_axis=0, tiled=False)
    add_bad_ragged_shapes(table)


def add_bad_ragged_shapes(table):
    add(table, "bad_shape", "ragged_all_to_all", "rows_differ", NOT_ON_CPU,
        inputs=ragged(trailing=(2,), output_trailing=(3,)))
    add(table, "bad_shape", "ragged_all_to_all", "ranks_differ", NOT_ON_CPU,
        inputs=ragged(output_trailing=(1,)))
    add(table, "bad_shape", "ragged_all_to_all", "vector_of_rank_2",
        inputs=ragged(send_sizes=[[1], [1], [1], [1]]))
    add(table, "bad_shape", "ragged_all_to_all", "vector_of_rank_0", inputs=ragged(recv_sizes=1))
    add(table, "bad_shape", "ragged_all_to_all", "vectors_empty", inputs=ragged(k=0))
    add(table, "bad_shape", "ragged_all_to_all", "lengths_differ", NOT_ON_CPU,
        inputs=ragged(recv_sizes=[1] * 8))
    add(table, "bad_shape", "ragged_all_to_all", "six_slices_for_four", NOT_ON_CPU,
        inputs=ragged(k=6, input_offsets=[0] * 6, send_sizes=[0] * 6, recv_sizes=[0] * 6))


def add_bad_permutations(table):
    add(table, "bad_permutation", "ppermute", "source_twice", perm=[[0, 1], [0, 2]])
    add(table, "bad_permutation", "ppermute", "target_twice", perm=[[0, 1], [2, 1]])
    add(table, "bad_permutation", "ppermute", "pair_twice", perm=[[0, 1], [0, 1]])
    add(table, "bad_permutation", "ppermute", "twice_modulo_4", perm=[[0, 1], [4, 2]])
    add(table, "bad_permutation", "ppermute", "source_too_large", perm=[[4, 1]])
    add(table, "bad_permutation", "ppermute", "target_too_large", perm=[[1, 7]])
    add(table, "bad_permutation", "pshuffle", "twice", perm=[0, 1, 2, 2])
    add(table, "bad_permutation", "pshuffle", "too_large", perm=[0, 1, 2, 4])
    add(table, "bad_permutation", "pshuffle", "negative", perm=[0, 1, 2, -1])
    add(table, "bad_permutation", "pshuffle", "too_long", perm=[0, 1, 2, 3, 4])


def add_bad_roots(table):
    for operation, key in (("pbroadcast", "source"), ("reduce", "root"), ("gather", "root"),
                           ("scatter", "root")):
        for root in (4, -1):
            reason = LOOSE if operation == "pbroadcast" else ABSENT
            add(table, "bad_root", operation, str(root), reason,
                **{**VECTOR[operation], key: root})


def add_bad_dtypes(table):
    for operation in ("pmax", "pmin", "pargmax", "pargmin"):
        for dtype in ("c64", "c128"):
            add(table, "bad_dtype", operation, dtype, LOOSE, dtype=dtype)
    for op in ("min", "max"):
        add(table, "bad_dtype", "reduce", f"c64_{op}", ABSENT, dtype="c64", op=op, root=0)
    for name in ("f32", "bool"):
        add(table, "bad_dtype", "ragged_all_to_all", name, inputs=ragged(dtype=DTYPES[name]))
    add(table, "bad_dtype", "pgather", "f32_index", "JAX removed pgather",
        inputs=[np.zeros(2, np.float32), np.zeros(2, np.float32)])


def add_bad_ragged(table):
    bad = {
        "sent_rows_out_of_bounds": ragged(input_offsets=[0, 1, 2, 4]),
        "sent_size_out_of_bounds": ragged(send_sizes=[9, 1, 1, 1], recv_sizes=[9, 1, 1, 1]),
        "received_rows_out_of_bounds": ragged(output_offsets=[4, 4, 4, 4]),
        "negative_input_offset": ragged(input_offsets=[-1, 0, 1, 2]),
        "negative_size": ragged(send_sizes=[-1] * 4, recv_sizes=[-1] * 4),
        "negative_output_offset": ragged(output_offsets=[-1] * 4),
        "received_slices_overlap": ragged(output_offsets=[0] * 4),
        "slices_of_one_sender_overlap": ragged(
            k=8, operand=8, output=9, input_offsets=range(8), output_offsets=[0] * 8),
        "received_sizes_differ": ragged(recv_sizes=[0] * 4)}
    for name, inputs in bad.items():
        add(table, "bad_ragged", "ragged_all_to_all", name, NOT_ON_CPU, inputs=inputs)
