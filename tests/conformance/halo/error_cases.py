"""Exchanges that must be refused."""

from halo_cases import dim


def declared(shape, *dims, dtype="f32"):
    return {"dtype": dtype, "shape": shape, "dims": list(dims)}


def add_errors(table):
    add_alone(table)
    add_differences(table)
    add_sizes(table)


def add_alone(table):
    """Each rank can see that its own declaration is wrong."""
    def alone(name, error, fact, *tensors):
        good = [declared([2], dim(0, "x", 1, 1))]
        table.add_error(name, "x=2", error, [good, list(tensors)], [1], ["rank 1", fact])
    alone("dim_out_of_range", "bad_dim", "2", declared([2, 2], dim(2, "x", 1, 1)))
    alone("dim_below_the_range", "bad_dim", "-3", declared([2, 2], dim(-3, "x", 1, 1)))
    alone("dim_twice", "repeated", "1", declared([2, 2], dim(1, "x", 1), dim(-1, None, 1)))
    alone("axis_twice", "repeated", "x", declared([2, 2], dim(0, "x", 1), dim(1, "x", 1)))
    alone("axis_unknown", "unknown_axis", "lon", declared([2, 2], dim(0, "lon", 1)))
    alone("low_negative", "bad_width", "-1", declared([2], dim(0, "x", -1, 1)))
    alone("high_negative", "bad_width", "-2", declared([2], dim(0, "x", 1, -2)))
    alone("block_empty", "empty_block", "0", declared([0, 2], dim(0, "x", 1)))
    alone("no_tensors", "no_tensors", "0")
    alone("9_dims", "too_many_dims", "9", declared([1] * 9, dim(0, "x", 1)))
    alone("constant_of_u8", "bad_constant", "u8",
          declared([2], dim(0, "x", 1, 1, "constant", 256), dtype="u8"))
    alone("constant_with_a_fraction", "bad_constant", "i32",
          declared([2], dim(0, "x", 1, 1, "constant", 0.5), dtype="i32"))
    alone("constant_of_bool", "bad_constant", "bool",
          declared([2], dim(0, "x", 1, 1, "constant", 2), dtype="bool"))
    alone("wrong_second_tensor", "bad_dim", "tensor 1", declared([2], dim(0, "x", 1, 1)),
          declared([2], dim(1, "x", 1, 1)))
    alone("too_many_bytes", "too_large", "f64",
          declared([2], dim(0, "x", 2**40, 0), dtype="f64"))


def add_differences(table):
    """Ranks declare different exchanges."""
    def differ(name, error, *of_rank_2):
        ranks = [[declared([2, 2], dim(0, "x", 1, 1, "reflect"))] for _ in range(3)]
        ranks[2] = list(of_rank_2) or None
        table.add_error(name, "x=3", error, ranks, [], ["ranks 0-1", "rank 2", "halo u"])
    rows = dim(0, "x", 1, 1, "reflect")
    differ("missing", "missing")
    differ("other_dtype", "different", declared([2, 2], rows, dtype="f64"))
    differ("other_low", "different", declared([2, 2], dim(0, "x", 2, 1, "reflect")))
    differ("other_high", "different", declared([2, 2], dim(0, "x", 1, 0, "reflect")))
    differ("other_edge", "different", declared([2, 2], dim(0, "x", 1, 1, "periodic")))
    differ("other_dim", "different", declared([2, 2], dim(1, "x", 1, 1, "reflect")))
    differ("other_dims", "different", declared([2], rows))
    differ("other_extent", "different", declared([2, 3], rows))
    differ("more_tensors", "different", declared([2, 2], rows), declared([2, 2], rows))
    constants = [[declared([2], dim(0, "x", 1, 1, "constant", value))] for value in (1, 2)]
    table.add_error("other_constant", "x=2", "different", constants, [], ["rank 0", "rank 1"])


def add_sizes(table):
    """Blocks and widths that do not fit together."""
    tall, low = (
        [declared([rows, 2], dim(0, "y", 1, 1), dim(1, "x", 1, 1))] for rows in (3, 2))
    table.add_error("one_block_two_sizes", "y=2,x=2", "bad_blocks", [low, low, low, tall], [],
                    ["ranks 2 and 3", "axis y"])
    wide = [[declared([2], dim(0, "x", 4, 1, "reflect"))] for _ in range(2)]
    table.add_error("reflection_as_wide_as_the_field", "x=2", "wide_reflection", wide, [],
                    ["halo u", "4"])
    alone = [[declared([3], dim(0, None, 1, 3, "reflect"))] for _ in range(2)]
    table.add_error("reflection_of_one_rank", "x=2", "wide_reflection", alone, [],
                    ["halo u", "3"])
    turns = [[declared([1], dim(0, "x", 5000, 0, "periodic"))] for _ in range(2)]
    table.add_error("too_many_boxes", "x=2", "too_many_boxes", turns, [], ["rank 0", "4096"])
