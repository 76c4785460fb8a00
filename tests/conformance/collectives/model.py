"""The operations as NumPy, written from their definitions and independent of JAX.

A forward function gets the case and `xs`, the tensors of each member of one group in the order of
the positions, and returns the outputs of each member in that order.
"""

import numpy as np

from case import DTYPES

SEVERAL_INPUTS = ("pgather", "ragged_all_to_all")
NO_INDEX = np.iinfo(np.int32).max
# Reductions of the small floats are done in f32 and rounded once.
WIDE = {np.dtype(DTYPES[name]): np.float32 for name in ("f16", "bf16", "f8e4m3", "f8e5m2")}


def forward(case, inputs):
    outputs = [None] * case.ranks
    for group in case.groups():
        results = _of_group(case, [inputs[rank] for rank in group])
        for rank, result in zip(group, results, strict=True):
            outputs[rank] = [np.asarray(tensor) for tensor in result]
    return outputs


def _of_group(case, xs):
    """Each tensor of a list alone."""
    operation, tensors = FORWARD[case.operation], max(map(len, xs))
    if tensors < 2 or case.operation in SEVERAL_INPUTS:
        return operation(case, xs)
    alone = [operation(case, [x[t:t + 1] for x in xs]) for t in range(tensors)]
    return [sum((results[member] for results in alone), []) for member in range(len(xs))]


def transpose(case):
    """The adjoint, read off the forward operation entry by entry: dx = A^T ct, where column j of A
    is the forward result of unit vector j. With "identity" and for all_gather_invariant the outputs
    of a group are one value, so that only a member's own cotangent counts."""
    operands = 2 if case.operation == "ragged_all_to_all" else 1
    if case.operation in ("psum", "pmean"):
        operands = len(case.primal[0])
    own_only = case.transpose == "identity" or case.operation == "all_gather_invariant"
    wide = [[tensor.astype(_linear_dtype(tensor)) for tensor in rank[:operands]] + rank[operands:]
            for rank in case.primal]
    cotangents = [rank[:1] if operands < len(case.primal[0]) else rank for rank in case.inputs]
    results = [[np.zeros(tensor.shape, tensor.dtype) for tensor in rank[:operands]]
               for rank in case.primal]
    for rank, tensors in enumerate(wide):
        for number, tensor in enumerate(tensors[:operands]):
            for element in range(tensor.size):
                outputs = forward(case, _unit_vector(wide, operands, rank, number, element))
                value = sum(
                    np.sum(output * cotangent.astype(_linear_dtype(cotangent)))
                    for member in ([rank] if own_only else range(case.ranks))
                    for output, cotangent in zip(outputs[member], cotangents[member], strict=True))
                results[rank][number].flat[element] = value
    return results


def _linear_dtype(tensor):
    if tensor.dtype.kind == "c":
        return np.complex128
    return np.int64 if tensor.dtype.kind in "iu" else np.float64


def _unit_vector(like, operands, rank, number, element):
    inputs = [[np.zeros_like(tensor) for tensor in tensors[:operands]] + tensors[operands:]
              for tensors in like]
    inputs[rank][number].flat[element] = 1
    return inputs


def total(arrays):
    arrays = [a.astype(np.int32) if a.dtype == np.bool_ else a for a in arrays]
    return _reduce(np.add, arrays)


def product(arrays):
    arrays = [a.astype(np.int32) if a.dtype == np.bool_ else a for a in arrays]
    return _reduce(np.multiply, arrays)


def mean(arrays):
    dtype = arrays[0].dtype
    if dtype.kind in "biu":
        return np.asarray(total(arrays).astype(np.float32) / np.float32(len(arrays)))
    wide = np.dtype(WIDE.get(dtype, dtype)).type
    return np.asarray(total([a.astype(wide) for a in arrays]) / wide(len(arrays))).astype(dtype)


def maximum(arrays):
    return _reduce(np.maximum, arrays)  # NaN wins


def minimum(arrays):
    return _reduce(np.minimum, arrays)


def _reduce(combine, arrays):
    dtype = arrays[0].dtype
    wide = WIDE.get(dtype, dtype)
    result = arrays[0].astype(wide)
    with np.errstate(all="ignore"):  # integers wrap
        for array in arrays[1:]:
            result = combine(result, array.astype(wide))
    return np.asarray(result).astype(dtype)


def _all_reduce(reduction):
    def operation(_, xs):
        results = [reduction(tensors) for tensors in zip(*xs)]
        return [results] * len(xs)
    return operation


def _arg(reduction):
    def operation(_, xs):
        stacked = np.stack([x[0] for x in xs])
        best = reduction([x[0] for x in xs])
        hits = stacked == best  # never true for NaN
        index = np.where(hits.any(axis=0), hits.argmax(axis=0), NO_INDEX)
        return [[index.astype(np.int32)]] * len(xs)
    return operation


def pbroadcast(case, xs):
    return [xs[case.attributes["source"]]] * len(xs)


def ppermute(case, xs):
    results = [[np.zeros_like(x[0])] for x in xs]
    for source, target in case.attributes["perm"]:
        results[target] = xs[source]
    return results


def pshuffle(case, xs):
    return [xs[source] for source in case.attributes["perm"]]


def _exchange(xs, split, concat, tiled):
    if tiled:
        return [[np.concatenate([np.split(x[0], len(xs), split)[i] for x in xs], concat)]
                for i in range(len(xs))]
    return [[np.stack([np.take(x[0], i, split) for x in xs], concat)] for i in range(len(xs))]


def all_to_all(case, xs):
    options = case.attributes
    return _exchange(xs, options["split_axis"], options["concat_axis"], options["tiled"])


def pswapaxes(case, xs):
    return _exchange(xs, case.attributes["axis"], case.attributes["axis"], tiled=False)


def ragged_all_to_all(_, xs):
    results = [x[1].copy() for x in xs]
    for operand, _, input_offsets, send_sizes, output_offsets, _ in xs:
        slices = len(send_sizes) // len(xs)  # to each member
        for k, size in enumerate(send_sizes):
            rows = operand[input_offsets[k]:input_offsets[k] + size]
            results[k // slices][output_offsets[k]:output_offsets[k] + size] = rows
    return [[result] for result in results]


def _join(tensors, axis, tiled):
    return np.concatenate(tensors, axis) if tiled else np.stack(tensors, axis)


def _cut(tensor, parts, axis, tiled):
    if tiled:
        return np.split(tensor, parts, axis)
    return [np.take(tensor, i, axis) for i in range(parts)]


def all_gather(case, xs):
    if not case.axes:
        return xs  # an empty list of axes is the identity, untiled too
    joined = _join([x[0] for x in xs], case.attributes["axis"], case.attributes["tiled"])
    return [[joined]] * len(xs)


def psum_scatter(case, xs):
    options = case.attributes
    pieces = _cut(total([x[0] for x in xs]), len(xs), options["scatter_dimension"],
                  options["tiled"])
    return [[piece] for piece in pieces]


def pgather(_, xs):
    sources = np.stack([x[0] for x in xs])
    return [[sources[x[1]]] for x in xs]


def axis_index(_, xs):
    return [[np.asarray(i, np.int32)] for i in range(len(xs))]


def axis_size(_, xs):
    return [[np.asarray(len(xs), np.int32)]] * len(xs)


def _only_at(root, tensors, members):
    return [tensors if member == root else [] for member in range(members)]


def reduce(case, xs):
    reduction = {"sum": total, "prod": product, "min": minimum, "max": maximum, "mean": mean}
    result = reduction[case.attributes["op"]]([x[0] for x in xs])
    return _only_at(case.attributes["root"], [result], len(xs))


def gather(case, xs):
    joined = _join([x[0] for x in xs], case.attributes["axis"], case.attributes["tiled"])
    return _only_at(case.attributes["root"], [joined], len(xs))


def scatter(case, xs):
    options = case.attributes
    pieces = _cut(xs[options["root"]][0], len(xs), options["axis"], options["tiled"])
    return [[piece] for piece in pieces]


FORWARD = {
    "psum": _all_reduce(total), "pmean": _all_reduce(mean), "pprod": _all_reduce(product),
    "pmax": _all_reduce(maximum), "pmin": _all_reduce(minimum),
    "pargmax": _arg(maximum), "pargmin": _arg(minimum),
    "pbroadcast": pbroadcast, "ppermute": ppermute, "pshuffle": pshuffle, "pswapaxes": pswapaxes,
    "all_to_all": all_to_all, "ragged_all_to_all": ragged_all_to_all,
    "all_gather": all_gather, "all_gather_invariant": all_gather, "psum_scatter": psum_scatter,
    "pgather": pgather, "axis_index": axis_index, "axis_size": axis_size,
    "reduce": reduce, "gather": gather, "scatter": scatter}
