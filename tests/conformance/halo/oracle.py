"""What a halo exchange gives, from its definition.

A tensor's blocks are put together to the whole field. Forward: numpy.pad pads the field, dimension
by dimension, and each rank gets its block with its halos. Adjoint: the same is done to the numbers
of the field's cells, and numpy.add.at adds each gradient to the cell with that number.
"""

import math

import numpy as np

from tensors import DTYPES

MODES = {"zero": "constant", "constant": "constant", "periodic": "wrap", "reflect": "reflect",
         "replicate": "edge"}


class Partition:
    """How one tensor is cut. `tensor` has "dtype", "dims" as declared, and "extents": of each
    dimension its size, or the sizes of its blocks."""

    def __init__(self, mesh, tensor):
        self.dtype = np.dtype(DTYPES[tensor["dtype"]])
        self.names = [name for name, _ in mesh]
        self.sizes = [size for _, size in mesh]
        self.bounds = [np.cumsum([0] + (e if isinstance(e, list) else [e])).tolist()
                       for e in tensor["extents"]]
        self.dims = [None] * len(self.bounds)
        for dim in tensor["dims"]:
            self.dims[dim["dim"]] = dim

    @property
    def ranks(self):
        return math.prod(self.sizes)

    def axis(self, d):
        """The number of the axis that cuts dimension d, or None."""
        name = (self.dims[d] or {}).get("axis")
        return None if name is None else self.names.index(name)

    def coordinates(self, rank):
        return [int(c) for c in np.unravel_index(rank, self.sizes)]

    def range(self, d, rank):
        axis = self.axis(d)
        block = 0 if axis is None else self.coordinates(rank)[axis]
        return self.bounds[d][block], self.bounds[d][block + 1]

    def widths(self, d):
        dim = self.dims[d] or {}
        return dim.get("low", 0), dim.get("high", 0)

    def edge(self, d):
        return (self.dims[d] or {}).get("edge", "zero")

    def shape(self, rank):
        return [end - begin for begin, end in
                (self.range(d, rank) for d in range(len(self.bounds)))]

    def field_shape(self):
        return [bounds[-1] for bounds in self.bounds]

    def groups(self):
        """The ranks that hold one field: those that differ in the cutting axes only."""
        cutting = {self.axis(d) for d in range(len(self.bounds))}
        groups = {}
        for rank in range(self.ranks):
            key = tuple(c for axis, c in enumerate(self.coordinates(rank)) if axis not in cutting)
            groups.setdefault(key, []).append(rank)
        return list(groups.values())

    def block(self, rank):
        """The slices of the field that are the rank's block."""
        return tuple(slice(*self.range(d, rank)) for d in range(len(self.bounds)))

    def pad(self, field, constants):
        """The field with its halos. `constants[d]`: beyond the edge of dimension d."""
        for d in range(field.ndim):
            if self.edge(d) == "none":
                continue
            widths = [(0, 0)] * field.ndim
            widths[d] = self.widths(d)
            mode = MODES[self.edge(d)]
            values = {"constant_values": constants[d]} if mode == "constant" else {}
            field = np.pad(field, widths, mode=mode, **values)
        return field

    def padded_block(self, rank):
        """The slices of the padded field that are the rank's padded block."""
        slices = []
        for d, bounds in enumerate(self.bounds):
            begin, end = self.range(d, rank)
            low, high = self.widths(d)
            if self.edge(d) == "none":
                slices.append(slice(max(begin - low, 0), min(end + high, bounds[-1])))
            else:
                slices.append(slice(begin, end + low + high))
        return tuple(slices)

    def numbers(self):
        """The padded field of the cells' numbers; -1 where a cell is constant."""
        cells = np.arange(math.prod(self.field_shape())).reshape(self.field_shape())
        return self.pad(cells, [-1] * cells.ndim)


def forward(partition, blocks):
    """The padded blocks of all ranks."""
    constants = [np.array((dim or {}).get("constant", 0)).astype(partition.dtype)
                 for dim in partition.dims]
    padded = [None] * partition.ranks
    for group in partition.groups():
        field = np.empty(partition.field_shape(), partition.dtype)
        for rank in group:
            field[partition.block(rank)] = blocks[rank]
        whole = partition.pad(field, constants)
        for rank in group:
            padded[rank] = whole[partition.padded_block(rank)]
    return padded


def adjoint(partition, gradients):
    """The gradients of all ranks' blocks, from those of their padded blocks. Fails if a sum
    depends on the order of its summands."""
    numbers = partition.numbers()
    wide = {"b": np.bool_, "c": np.complex128}.get(partition.dtype.kind, np.float64)
    if partition.dtype.kind in "iu":
        wide = partition.dtype  # wraps
    blocks = [None] * partition.ranks
    for group in partition.groups():
        field = np.zeros(math.prod(partition.field_shape()), wide)
        sizes = np.zeros(field.size)
        for rank in group:
            cells = numbers[partition.padded_block(rank)].reshape(-1)
            values = gradients[rank].astype(wide).reshape(-1)[cells >= 0]
            cells = cells[cells >= 0]
            if wide == np.bool_:
                np.logical_or.at(field, cells, values)
            else:
                np.add.at(field, cells, values)
                if partition.dtype.kind not in "iu":
                    np.add.at(sizes, cells, np.abs(values.real) + np.abs(values.imag))
        if sizes.max(initial=0) > largest_exact(partition.dtype):
            raise ValueError(f"sums of {sizes.max()} are not exact in {partition.dtype}")
        field = field.reshape(partition.field_shape())
        for rank in group:
            blocks[rank] = field[partition.block(rank)].astype(partition.dtype)
    return blocks


def largest_exact(dtype):
    """All integers up to it are numbers of the dtype."""
    limits = {"float8_e5m2": 2**3, "float8_e4m3fn": 2**4, "bfloat16": 2**8, "float16": 2**11,
              "float32": 2**24, "complex64": 2**24}
    return limits.get(dtype.name, 2**53)
