"""Where JAX cannot be the oracle: it cannot run the case on CPU, or its result is wrong."""

import numpy as np

NOT_IN_JAX = {"pprod", "reduce", "gather", "scatter"}


def why_not_jax(case):
    """The reason, or "" where JAX computes the outputs."""
    groups = case.index_groups
    dtype = case.inputs[0][0].dtype if case.inputs[0] else None
    if case.operation in NOT_IN_JAX:
        return "JAX has no such operation"
    if case.operation == "pgather":
        return "JAX removed pgather"
    if case.operation == "pbroadcast":
        return "JAX lowers pbroadcast on GPU only"
    if case.operation == "ragged_all_to_all":
        return "JAX has no ragged_all_to_all on CPU"
    if case.operation == "psum_scatter" and any(x.dtype.kind == "b" for x in case.inputs[0]):
        return "JAX does not convert bool to i32 in psum_scatter"
    if case.operation in ("all_to_all", "pswapaxes", "psum_scatter") and _has_negative_axis(case):
        return "JAX cannot lower negative axes of this operation, or crashes"
    if case.operation in ("all_gather", "all_gather_invariant", "psum_scatter") and _is_empty(case):
        return "JAX cannot lower this on an extent of 0"
    if case.operation == "all_to_all" and case.transpose and _is_shape_lost(case):
        return "JAX's transpose of untiled all_to_all expects another shape"
    if case.operation in ("pmax", "pmin", "pargmax", "pargmin") and _has_nan(case):
        return "JAX loses NaN on CPU"
    if case.operation == "axis_index" and not case.axes:
        return "JAX gives i64 for no axes where x64 is enabled"
    if groups and case.operation == "pmean" and len({len(group) for group in groups}) > 1:
        return "JAX divides by the size of the first group"
    if case.operation == "pmean" and dtype.kind in "iu" and dtype.itemsize == 8:
        return "JAX has 64-bit integers with x64 only, and then their mean is f64"
    if case.operation in ("ppermute", "pshuffle") and case.axes != _in_mesh_order(case):
        return "JAX permutes over axes in the order of the mesh only"
    if case.transpose == "identity" and groups:
        return "JAX has no groups in the mode in which this transpose exists"
    if _is_typed(case) and not case.cotangents_equal:
        return "in JAX the cotangents of one value are equal on all members"
    return ""


def _is_typed(case):
    return case.transpose == "identity" or (
        case.operation == "all_gather_invariant" and case.transpose)


def _in_mesh_order(case):
    return [name for name, _ in case.mesh if name in case.axes]


def _has_negative_axis(case):
    return any(case.attributes.get(key, 0) < 0
               for key in ("split_axis", "concat_axis", "axis", "scatter_dimension"))


def _has_nan(case):
    return any(np.isnan(tensor).any() for tensors in case.inputs for tensor in tensors)


def _is_shape_lost(case):
    """The primitive has a dimension of 1 where the split one will be stacked. Its transpose puts
    that dimension at another place, which is right only if all extents between them are 1."""
    split, concat = case.attributes["split_axis"], case.attributes["concat_axis"]
    if case.attributes["tiled"] or split == concat:
        return False
    shape = list(case.primal[0][0].shape)
    forward, backward = concat + (concat > split), split + (concat > split)
    return (shape[:forward] + [1] + shape[forward:]) != (shape[:backward] + [1] + shape[backward:])


def _is_empty(case):
    """Whether the dimension that a tiled operation joins or cuts has no elements."""
    axis = case.attributes.get("axis", case.attributes.get("scatter_dimension"))
    shape = (case.primal or case.inputs)[0][0].shape
    return case.attributes["tiled"] and shape[axis] == 0
