"""Runs cases on JAX: CPU, 8 virtual devices, one device for each rank.

Cases of one mesh share a compiled program. Each rank's tensors are stacked along a new first
dimension that is sharded over all axes of the mesh.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.lax import parallel  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

BATCH = 40  # cases in one program
jax.config.update("jax_enable_x64", True)


def run(cases):
    """Sets the outputs of each case."""
    programs = {}
    for case in cases:
        key = (str(case.mesh), _is_typed(case), _is_mean_of_integers(case))
        programs.setdefault(key, []).append(case)
    for (_, typed, narrow), batch in programs.items():
        for begin in range(0, len(batch), BATCH):
            with jax.enable_x64(not narrow):
                _run_batch(batch[begin:begin + BATCH], typed)


def refuses(case):
    """The exception with which JAX refuses the case before it compiles, or None."""
    program, inputs = _program([case], typed=False)
    try:
        jax.jit(program).lower(inputs)
    except Exception as error:  # JAX raises about ten types
        return error
    return None


def _is_typed(case):
    """The transposes that only the mode with types of variance has."""
    return case.transpose == "identity" or (
        case.operation == "all_gather_invariant" and bool(case.transpose))


def _is_mean_of_integers(case):
    """Their mean is f32 without x64, f64 with it."""
    return case.operation == "pmean" and case.inputs[0][0].dtype.kind in "biu"


def _run_batch(cases, typed):
    program, inputs = _program(cases, typed)
    results = jax.jit(program)(inputs)
    for case, tensors in zip(cases, results, strict=True):
        local = [np.asarray(tensor) for tensor in tensors]
        case.outputs = [[np.asarray(tensor[rank]) for tensor in local]
                        for rank in range(case.ranks)]


def _program(cases, typed):
    """A function that runs all cases of one mesh, and its argument."""
    mesh = _mesh(cases[0])
    names = mesh.axis_names
    body = _typed_transposes if typed else _results

    def program(inputs):
        local = jax.tree.map(lambda tensor: tensor[0], inputs)
        return jax.tree.map(lambda tensor: tensor[None], body(cases, local))

    in_specs = [[PartitionSpec(names)] * len(case.inputs[0]) for case in cases]
    stacked = [_stacked(case.inputs) for case in cases]
    if typed:
        in_specs = [[PartitionSpec(_other_axes(case))] * len(case.inputs[0]) for case in cases]
        stacked = [_stacked([case.inputs[group[0]] for group in _in_mesh_order(case)])
                   for case in cases]
    sharded = jax.shard_map(program, mesh=mesh, in_specs=(in_specs,),
                            out_specs=PartitionSpec(names), check_vma=typed)
    return sharded, stacked


def _mesh(case):
    devices = np.array(jax.devices()[:case.ranks]).reshape([size for _, size in case.mesh])
    return Mesh(devices, [name for name, _ in case.mesh])


def _stacked(ranks):
    return [np.stack(tensors) for tensors in zip(*ranks, strict=True)]


def _results(cases, inputs):
    return [_transpose(case, local) if case.transpose else FORWARD[case.operation](case, local)
            for case, local in zip(cases, inputs, strict=True)]


def _transpose(case, inputs):
    structs = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in case.primal[0]]
    forward = jax.linear_transpose(lambda *xs: FORWARD[case.operation](case, list(xs)), *structs)
    return list(forward(list(inputs)))


def _typed_transposes(cases, inputs):
    """The cotangent of a result that is equal on all members is one value too."""
    names = tuple(name for name, _ in cases[0].mesh)
    results = []
    for case, cotangents in zip(cases, inputs, strict=True):
        primal = [lax.pcast(jnp.zeros(tensor.shape, tensor.dtype), names, to="varying")
                  for tensor in case.primal[0]]
        _, backward = jax.vjp(lambda *xs, case=case: FORWARD[case.operation](case, list(xs)),
                              *primal)
        results.append(list(backward(list(cotangents))))
    return results


def _other_axes(case):
    return tuple(name for name, _ in case.mesh if name not in case.axes)


def _in_mesh_order(case):
    """Groups without index_groups, ordered by the coordinates along the other axes."""
    return sorted(case.groups(), key=min)


def _name(case):
    return case.axes[0] if len(case.axes) == 1 else tuple(case.axes)


def _each(function):
    """An operation on one tensor."""
    return lambda case, xs: [function(case, x) for x in xs]


def _gather(function):
    return _each(lambda case, x: function(
        x, _name(case), axis_index_groups=case.index_groups, **case.attributes))


FORWARD = {
    "psum": lambda case, xs: lax.psum(xs, _name(case), axis_index_groups=case.index_groups),
    "pmean": lambda case, xs: lax.pmean(xs, _name(case), axis_index_groups=case.index_groups),
    "pmax": lambda case, xs: lax.pmax(xs, _name(case), axis_index_groups=case.index_groups),
    "pmin": lambda case, xs: lax.pmin(xs, _name(case), axis_index_groups=case.index_groups),
    "pargmax": _each(lambda case, x: parallel.pargmax(x, _name(case))),
    "pargmin": _each(lambda case, x: parallel.pargmin(x, _name(case))),
    "pbroadcast": _each(lambda case, x: lax.pbroadcast(x, _name(case), case.attributes["source"])),
    "ppermute": _each(lambda case, x: lax.ppermute(
        x, _name(case), [tuple(pair) for pair in case.attributes["perm"]])),
    "pshuffle": _each(lambda case, x: lax.pshuffle(x, _name(case), case.attributes["perm"])),
    "pswapaxes": _gather(lax.pswapaxes),
    "all_to_all": _gather(lax.all_to_all),
    "ragged_all_to_all": lambda case, xs: [lax.ragged_all_to_all(
        *xs, axis_name=_name(case), axis_index_groups=case.index_groups)],
    "all_gather": _gather(lax.all_gather),
    "all_gather_invariant": _each(lambda case, x: parallel.all_gather_invariant(
        x, _name(case), **case.attributes)),
    "psum_scatter": _gather(lax.psum_scatter),
    "axis_index": lambda case, _: [lax.axis_index(_name(case))],
    "axis_size": lambda case, _: [jnp.int32(lax.axis_size(_name(case)))]}
