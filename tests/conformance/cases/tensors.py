"""The dtypes of conformance cases, and their elements as JSON."""

import math

import ml_dtypes
import numpy as np

DTYPES = {
    "bool": np.bool_, "u8": np.uint8, "i8": np.int8, "u16": np.uint16, "i16": np.int16,
    "u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

COMPLEX = ("c64", "c128")
FLOATS = ("f16", "bf16", "f32", "f64")
FP8 = ("f8e4m3", "f8e5m2")
INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")


def flat(tensor):
    """The elements of an array, row-major."""
    return [_number(element) for element in tensor.reshape(-1)]


def _number(element):
    if element.dtype == np.bool_ or element.dtype.kind in "iu":
        return int(element)
    if element.dtype.kind == "c":
        return [_number(element.real), _number(element.imag)]
    value = float(element)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
