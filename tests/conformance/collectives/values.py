"""Values of tensors: f(dtype, shape, rng) -> array, all drawn from the case's own generator."""

import ml_dtypes
import numpy as np

from case import COMPLEX, DTYPES, FP8

PARTS = {"c64": np.float32, "c128": np.float64}


def _complex(draw, dtype, shape, rng):
    return (draw(shape, rng) + 1j * draw(shape, rng)).astype(DTYPES[dtype])


def small(dtype, shape, rng):
    """Integers so small that sums over 8 ranks are exact in every dtype."""
    if dtype in COMPLEX:
        return _complex(lambda s, r: r.integers(-4, 5, s), dtype, shape, rng)
    if dtype in FP8:
        return rng.integers(-1, 2, shape).astype(np.float32).astype(DTYPES[dtype])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    return rng.integers(0 if dtype[0] == "u" else -4, 5, shape).astype(DTYPES[dtype])


def factors(dtype, shape, rng):
    """1, -1 and 2, so that products are exact in every dtype; never zero, whose sign would depend
    on the order."""
    if dtype == "bool":
        return rng.integers(0, 4, shape) > 0
    choices = [1, 2] if dtype[0] == "u" else [1, -1, 1, 2]
    if dtype in COMPLEX:
        return _complex(lambda s, r: r.choice([1, -1], s), dtype, shape, rng)
    return rng.choice(choices, shape).astype(np.float32).astype(DTYPES[dtype])


def wide(dtype, shape, rng):
    """Integers of the whole range: sums and products wrap."""
    info = np.iinfo(DTYPES[dtype])
    return rng.integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)


def moved(dtype, shape, rng):
    """Distinct enough to see each element's way."""
    if dtype in COMPLEX:
        return _complex(lambda s, r: r.integers(-99, 100, s) / 4, dtype, shape, rng)
    if dtype in FP8:
        return rng.integers(-15, 16, shape).astype(np.float32).astype(DTYPES[dtype])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in PARTS or dtype in ("f16", "bf16", "f32", "f64"):
        return (rng.integers(-127, 128, shape) / 4).astype(np.float32).astype(DTYPES[dtype])
    return rng.integers(0 if dtype[0] == "u" else -99, 100, shape).astype(DTYPES[dtype])


def special(dtype, shape, rng):
    """The values at the edges of a dtype: NaN, infinities, -0, the smallest and the largest."""
    kind = np.dtype(DTYPES[dtype])
    if dtype[0] in "iu":
        info = np.iinfo(kind)
        edges = [info.min, info.max, 0, 1, info.max // 2]
    elif dtype in COMPLEX:
        info = np.finfo(PARTS[dtype])
        edges = [complex(np.nan, 1), complex(np.inf, -np.inf), complex(-0.0, 0.0),
                 complex(info.max, info.tiny), complex(-2.5, np.nan)]
    else:
        info = ml_dtypes.finfo(kind)
        edges = [np.nan, -0.0, 0.0, info.max, info.min, info.tiny, info.smallest_subnormal, 1.5]
        if dtype != "f8e4m3":
            edges += [np.inf, -np.inf]
    edges = np.array(edges, kind)
    return edges[(np.arange(np.prod(shape, dtype=int)) + rng.integers(len(edges))) % len(edges)
                 ].reshape(shape)


def with_nan(dtype, shape, rng):
    """About one element in four is NaN."""
    values = small(dtype, shape, rng)
    values[rng.integers(0, 4, shape) == 0] = np.nan
    return values


def extremes(dtype, shape, rng):
    """For the largest and the smallest: infinities and the ends of the range, no NaN, no -0."""
    kind = np.dtype(DTYPES[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges = [info.min, info.max, 0, 1, info.max - 1]
    else:
        info = ml_dtypes.finfo(kind)
        edges = [info.max, info.min, 0.0, 1.5]
        edges += [] if dtype == "f8e4m3" else [np.inf, -np.inf]
    return rng.choice(np.array(edges, kind), shape)


def uniform(dtype, shape, rng):
    """Random floats with absolute values in [0.5, 1.5). An element has one sign on all ranks, so
    that nothing cancels and n * eps bounds the error of any order of summation."""
    signs = np.where(np.arange(np.prod(shape, dtype=int)) % 2, -1, 1).reshape(shape)

    def draw(shape, rng):
        return signs * (rng.random(shape) + 0.5)
    if dtype in COMPLEX:
        return _complex(draw, dtype, shape, rng)
    return draw(shape, rng).astype(DTYPES[dtype])


def rotations(dtype, shape, rng):
    """Random complex numbers of absolute value 1: so is their product."""
    return np.exp(2j * np.pi * rng.random(shape)).astype(DTYPES[dtype])
