"""Cases with lists of tensors: each is handled alone, and they move together."""

from table import ring
from values import moved

# Several of one dtype, others between them, no elements, several axes before the first block.
TENSORS = [("f32", (4, 2)), ("i16", (4,)), ("f32", (4, 0)), ("bf16", (4, 3)), ("f32", (4, 1, 2)),
           ("i16", (4, 3)), ("c64", (4, 2))]
LAST_AXIS = [("f32", (2, 4)), ("u8", (3, 4)), ("f32", (3, 4)), ("i32", (1, 4)), ("f64", (4,))]
SMALL = [("f8e4m3", (4, 2)), ("f8e5m2", (4,)), ("bool", (4, 2)), ("f8e4m3", (4,)), ("bool", (4,)),
         ("u16", (4, 3))]
MESHES = [("x4", "x", None), ("x2y2", "yx", None), ("x8", "x", [[7, 0, 3, 4], [1, 6, 5, 2]])]


def add_lists(table):
    for tensors, axis in ((TENSORS, 0), (LAST_AXIS, -1), (SMALL, 0)):
        for mesh, axes, groups in MESHES:
            for tiled in (False, True):
                add(table, "psum_scatter", mesh, axes, groups, tensors, tiled,
                    scatter_dimension=axis, tiled=tiled)
                add_moved(table, "all_to_all", mesh, axes, groups, tensors, tiled,
                          split_axis=axis, concat_axis=0, tiled=tiled)
                add_moved(table, "all_gather", mesh, axes, groups, tensors, tiled, axis=axis,
                          tiled=tiled)
            add_moved(table, "pswapaxes", mesh, axes, groups, tensors, False, axis=axis)
    for mesh, axes, groups in MESHES:
        if groups:
            continue
        add_moved(table, "pbroadcast", mesh, axes, groups, TENSORS, False, source=2)
        add_moved(table, "pshuffle", mesh, axes, groups, TENSORS, False, perm=[2, 0, 3, 1])
        add_moved(table, "ppermute", mesh, axes, groups, TENSORS, False, perm=ring(4)[:3])
        add_moved(table, "gather", mesh, axes, groups, TENSORS, False, root=1, axis=1, tiled=False)
        add(table, "reduce", mesh, axes, groups, TENSORS, False, root=3, op="sum")


def add_moved(table, operation, mesh, axes, groups, tensors, doubles, **attributes):
    add(table, operation, mesh, axes, groups, tensors, doubles, draw=moved, **attributes)


def add(table, operation, mesh, axes, groups, tensors, doubles, **attributes):
    label = "_".join(["list", str(len(tensors)), *sorted({dtype for dtype, _ in tensors})])
    doubled = [(dtype, tuple(2 * extent if extent == 4 and doubles else extent for extent in shape))
               for dtype, shape in tensors]
    table.add(operation, mesh, axes, label=label, groups=groups, tensors=doubled, **attributes)
