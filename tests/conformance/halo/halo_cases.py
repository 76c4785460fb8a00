"""Which cases there are."""

import itertools

from tensors import DTYPES

EDGES = ["zero", "constant", "periodic", "reflect", "replicate", "none"]


def dim(number, axis=None, low=0, high=0, edge="zero", constant=None):
    declared = {"dim": number}
    if axis is not None:
        declared["axis"] = axis
    declared |= {"low": low, "high": high, "edge": edge}
    if constant is None and edge == "constant":
        constant = 3
    if constant is not None:
        declared["constant"] = constant
    return declared


def tensor(extents, *dims, dtype="f32"):
    """`extents`: of each dimension its size, or the sizes of its blocks."""
    return {"dtype": dtype, "extents": extents, "dims": list(dims)}


def add_cases(table):
    add_credit(table)
    add_lines(table)
    add_planes(table)
    add_volumes(table)
    add_dtypes(table)
    add_exchanges(table)


def add_credit(table):
    """The cases of CREDIT's HaloExchange: dimension -2, symmetric, zeros beyond the edge."""
    def rows(axis="domain"):
        return dim(-2, axis, 1, 1)
    table.add("credit_2_ranks", "domain=2", tensor([1, 4, [8, 8], 16], rows()), values="rank")
    table.add("credit_domain_of_1", "domain=1", tensor([1, 2, [4], 4], rows()), values="rank")
    table.add("credit_no_domain", "data=2", tensor([1, 2, 4, 4], rows(None)), values="rank")
    table.add("credit_replicas", "data=2,domain=2", tensor([1, 1, [4, 4], 4], rows()))
    table.add("credit_3_ranks_wide", "domain=3", tensor([1, 2, [2, 2, 2], 3],
                                                        dim(-2, "domain", 2, 2)))
    table.add("credit_uneven_rows", "domain=4", tensor([1, 1, [3, 2, 2, 3], 2], rows()))
    table.add("credit_width_0", "domain=2", tensor([1, 1, [3, 3], 2], dim(-2, "domain")))


def add_lines(table):
    for edge in EDGES:
        table.add(f"line_{edge}", "x=3", tensor([[3, 2, 4]], dim(0, "x", 1, 2, edge)))
        table.add(f"line_uneven_{edge}", "x=3", tensor([[3, 1, 2]], dim(0, "x", 3, 2, edge)))
        table.add(f"line_low_only_{edge}", "x=2", tensor([[2, 3]], dim(0, "x", 2, 0, edge)))
        table.add(f"line_high_only_{edge}", "x=2", tensor([[2, 3]], dim(0, "x", 0, 3, edge)))
        table.add(f"line_blocks_of_1_{edge}", "x=8", tensor([[1] * 8], dim(0, "x", 3, 2, edge)))
        table.add(f"line_not_cut_{edge}", "x=2", tensor([4], dim(0, None, 2, 1, edge)))
        table.add(f"line_axis_of_1_{edge}", "x=1", tensor([[4]], dim(0, "x", 2, 3, edge)))
        wide = 4 if edge == "reflect" else 7
        table.add(f"line_as_wide_as_the_field_{edge}", "x=2",
                  tensor([[2, 3]], dim(0, "x", wide, wide, edge)))
    table.add("line_periodic_2_ranks", "x=2", tensor([[2, 2]], dim(0, "x", 1, 1, "periodic")))
    table.add("line_periodic_field_of_1", "x=1", tensor([[1]], dim(0, "x", 3, 2, "periodic")))
    table.add("line_periodic_many_turns", "x=2", tensor([[1, 1]], dim(0, "x", 7, 6, "periodic")))
    table.add("line_of_rows", "x=2", tensor([[2, 3], 4], dim(0, "x", 1, 2, "periodic")))
    table.add("line_of_columns", "x=2", tensor([3, [2, 3]], dim(-1, "x", 1, 2, "reflect")))
    table.add("line_in_the_middle", "x=2", tensor([2, [2, 1], 2], dim(1, "x", 2, 1, "replicate")))


def add_planes(table):
    for edge in EDGES:
        table.add(f"plane_{edge}", "y=2,x=2", tensor(
            [[2, 1], [2, 3]], dim(0, "y", 1, 2, edge), dim(1, "x", 2, 1, edge)))
        table.add(f"plane_not_cut_{edge}", "y=1", tensor(
            [2, 3], dim(0, None, 1, 1, edge), dim(1, None, 1, 2, edge)))
    for first, second in itertools.permutations(EDGES, 2):
        table.add(f"plane_{first}_{second}", "y=2,x=2", tensor(
            [[2, 1], [1, 2]], dim(0, "y", 1, 1, first), dim(1, "x", 1, 2, second, 5 if
                                                            second == "constant" else None)))
    table.add("plane_two_constants", "y=2,x=2", tensor(
        [[1, 2], [2, 1]], dim(0, "y", 1, 1, "constant", 3), dim(1, "x", 1, 1, "constant", 5)))
    table.add("plane_dims_in_any_order", "y=2,x=2", tensor(
        [[1, 2], [2, 1]], dim(-1, "x", 1, 1, "constant", 3), dim(0, "y", 1, 1, "constant", 5)))
    table.add("plane_axes_in_any_order", "y=2,x=3", tensor(
        [[1, 2, 1], [2, 1]], dim(0, "x", 1, 1, "periodic"), dim(1, "y", 1, 1, "reflect")))
    table.add("plane_several_hops", "y=3,x=2", tensor(
        [[1, 1, 1], [1, 2]], dim(0, "y", 2, 3, "replicate"), dim(1, "x", 3, 2, "periodic")))
    table.add("plane_of_the_globe", "lat=2", tensor(
        [[2, 2], 4], dim(0, "lat", 1, 1, "replicate"), dim(1, None, 1, 1, "periodic")))
    table.add("plane_replicas_between", "y=2,data=2,x=2", tensor(
        [[1, 2], [2, 1]], dim(0, "y", 1, 1, "periodic"), dim(1, "x", 1, 0, "zero")))
    table.add("plane_cut_not_padded", "y=2,x=2", tensor(
        [[1, 2], [2, 1]], dim(0, "y", 1, 1, "reflect"), dim(1, "x")))


def add_volumes(table):
    for edge in EDGES:
        table.add(f"volume_{edge}", "z=2,y=2,x=2", tensor(
            [[1, 2], [1, 1], [2, 1]], dim(0, "z", 1, 0, edge), dim(1, "y", 1, 0, edge),
            dim(2, "x", 0, 1, edge)))
    table.add("volume_mixed", "y=2,x=2", tensor(
        [2, [1, 2], [2, 1]], dim(0, None, 1, 1, "replicate"), dim(1, "y", 1, 1, "constant"),
        dim(2, "x", 1, 1, "periodic")))
    table.add("volume_8_dims", "y=2,x=2", tensor(
        [1, 2, 1, [1, 1], 1, 1, [1, 2], 1], dim(3, "y", 1, 1, "periodic"),
        dim(6, "x", 1, 0, "zero"), dim(7, None, 0, 1, "replicate")))


def add_dtypes(table):
    constants = {"bool": 1, "u64": 2**60, "i64": -2**53, "i8": -128, "u8": 255, "i16": -300,
                 "f64": 0.1, "f32": 0.1, "f16": 0.1, "bf16": 0.1, "f8e4m3": 0.3, "f8e5m2": 0.3,
                 "c64": 0.1, "c128": 0.1}
    for dtype in DTYPES:
        table.add(f"dtype_{dtype}", "y=2,x=2", tensor(
            [[1, 2], [2, 1]], dim(0, "y", 1, 1, "periodic"),
            dim(1, "x", 1, 1, "constant", constants.get(dtype, 7)), dtype=dtype))
        table.add(f"dtype_{dtype}_rows", "x=2", tensor(
            [[2, 3]], dim(0, "x", 1, 2, "reflect"), dtype=dtype))
    for dtype in ("f16", "bf16", "f32", "f64", "c64", "f8e4m3", "f8e5m2"):
        table.add(f"special_values_{dtype}", "x=2",
                  tensor([[5, 6]], dim(0, "x", 4, 4, "periodic"), dtype=dtype), values="special")


def add_exchanges(table):
    """Several tensors in one exchange."""
    table.add("tensors_of_several_dtypes", "x=2",
              tensor([[2, 1]], dim(0, "x", 1, 2, "periodic"), dtype="u8"),
              tensor([[1, 3], 2], dim(0, "x", 2, 1, "replicate"), dtype="f64"),
              tensor([2, [2, 2], 1], dim(1, "x", 1, 1, "zero"), dtype="bf16"),
              tensor([2], dim(0, None, 1, 1, "periodic"), dtype="i16"))
    table.add("tensors_that_an_axis_does_not_cut", "y=2,x=2",
              tensor([[1, 2], [2, 1]], dim(0, "y", 1, 1, "periodic"), dim(1, "x", 1, 1)),
              tensor([[1, 2], 2], dim(0, "y", 1, 1, "reflect"), dtype="i32"),
              tensor([2, [2, 1]], dim(1, "x", 2, 1, "constant"), dtype="f16"))
    table.add("tensors_over_two_axes_apart", "y=2,x=3",
              tensor([[2, 1]], dim(0, "y", 1, 1, "replicate")),
              tensor([[1, 2, 1]], dim(0, "x", 1, 2, "none"), dtype="u16"))
    table.add("tensors_that_nothing_cuts", "x=2",
              tensor([3, 2], dim(0, None, 1, 1, "reflect"), dim(1, None, 2, 0, "constant")),
              tensor([2], dtype="i64"))
    table.add("tensors_with_a_scalar", "x=2",
              tensor([], dtype="f64"),
              tensor([[1, 2]], dim(0, "x", 1, 1, "periodic")))
    table.add("tensors_as_pytree", "data=2,y=2,x=2", *(
        tensor([2, [1, 1], [1, 2]], dim(-2, "y", 1, 1, "replicate"),
               dim(-1, "x", 1, 1, "periodic"), dtype=dtype) for dtype in ("i8", "bool")))
