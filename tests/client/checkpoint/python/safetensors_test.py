"""Files of Lockstep and of Python's safetensors, each read by the other, in every dtype.

    safetensors_test.py SAFETENSORS_PEER LOCKSTEPCTL [unittest arguments]
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ml_dtypes
import numpy
import safetensors
import safetensors.numpy
import xxhash

BLOCK = 4 << 20

# Lockstep's name, NumPy's dtype and the name in the file.
DTYPES = [
    ("bool", numpy.bool_, "BOOL"), ("u8", numpy.uint8, "U8"), ("i8", numpy.int8, "I8"),
    ("f8e5m2", ml_dtypes.float8_e5m2, "F8_E5M2"), ("f8e4m3", ml_dtypes.float8_e4m3fn, "F8_E4M3"),
    ("i16", numpy.int16, "I16"), ("u16", numpy.uint16, "U16"), ("f16", numpy.float16, "F16"),
    ("bf16", ml_dtypes.bfloat16, "BF16"), ("i32", numpy.int32, "I32"),
    ("u32", numpy.uint32, "U32"), ("f32", numpy.float32, "F32"), ("c64", numpy.complex64, "C64"),
    ("f64", numpy.float64, "F64"), ("i64", numpy.int64, "I64"), ("u64", numpy.uint64, "U64"),
]
NUMPYS_OWN = {name for name, dtype, _ in DTYPES if dtype.__module__ == "numpy"}
SHAPES = [(), (5,), (2, 3), (0, 4), (3, 1, 2, 2), (1000, 7)]
METADATA = {"step": "20", "ü\n\"\\": "\u2028 \U0001F600 \x01"}


def random_array(rng, dtype, shape):
    """All bit patterns, infinities and several NaNs among them."""
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape)) * dtype.itemsize
    bits = rng.integers(0, 2 if dtype == numpy.bool_ else 256, count, dtype=numpy.uint8)
    return numpy.frombuffer(bits.tobytes(), dtype=dtype).reshape(shape)


def arrays():
    """name: (Lockstep's dtype, array), of every dtype and shape."""
    rng = numpy.random.default_rng(1)
    return {f"{name}/{'x'.join(map(str, shape))}": (name, random_array(rng, dtype, shape))
            for name, dtype, _ in DTYPES for shape in SHAPES}


class PeerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def peer(self, *arguments):
        done = subprocess.run([PEER, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, tensors, metadata):
        """A file of Lockstep's: its path, and what the writer returned."""
        spec = {"metadata": metadata, "tensors": []}
        for i, (name, (dtype, array)) in enumerate(tensors.items()):
            contents = self.folder / f"contents{i}"
            contents.write_bytes(array.tobytes())
            spec["tensors"].append({"name": name, "dtype": dtype, "shape": array.shape,
                                    "contents": str(contents)})
        (self.folder / "spec").write_text(json.dumps(spec))
        path = self.folder / "ours.safetensors"
        return path, json.loads(self.peer("write", self.folder / "spec", path))

    def python_writes(self, path, tensors, metadata):
        spec = {name: safetensors.TensorSpec(
            dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data,
            data_len=array.nbytes) for name, (_, array) in tensors.items()}
        path.write_bytes(safetensors.serialize(spec, metadata))


class PythonReadsOurFiles(PeerTest):
    def test_every_dtype_bit_for_bit(self):
        tensors = arrays()
        path, _ = self.write(tensors, METADATA)
        names = {name: in_file for name, _, in_file in DTYPES}
        read = dict(safetensors.deserialize(path.read_bytes()))
        self.assertEqual(read.keys(), tensors.keys())
        for name, (dtype, array) in tensors.items():
            self.assertEqual(read[name]["dtype"], names[dtype], name)
            self.assertEqual(tuple(read[name]["shape"]), array.shape, name)
            self.assertEqual(bytes(read[name]["data"]), array.tobytes(), name)

    def test_metadata(self):
        path, _ = self.write(arrays(), METADATA)
        with safetensors.safe_open(path, framework="numpy") as opened:
            self.assertEqual(opened.metadata(), METADATA)

    def test_numpys_dtypes_by_load_file_and_safe_open(self):
        tensors = {name: tensor for name, tensor in arrays().items() if tensor[0] in NUMPYS_OWN}
        path, _ = self.write(tensors, {})
        loaded = safetensors.numpy.load_file(path)
        self.assertEqual(loaded.keys(), tensors.keys())
        with safetensors.safe_open(path, framework="numpy") as opened:
            for name, (_, array) in tensors.items():
                for read in (loaded[name], opened.get_tensor(name)):
                    self.assertEqual(read.dtype, array.dtype, name)
                    self.assertEqual(read.shape, array.shape, name)
                    self.assertEqual(read.tobytes(), array.tobytes(), name)

    def test_an_empty_file(self):
        path, _ = self.write({}, {})
        self.assertEqual(safetensors.deserialize(path.read_bytes()), [])

    def test_data_is_aligned_to_64_and_tensors_to_their_elements(self):
        path, written = self.write(arrays(), METADATA)
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        self.assertEqual(written["data_begin"], 8 + length)
        self.assertEqual((8 + length) % 64, 0)
        header = json.loads(content[8:8 + length])
        sizes = {in_file: numpy.dtype(dtype).itemsize for _, dtype, in_file in DTYPES}
        del header["__metadata__"]
        for name, entry in header.items():
            self.assertEqual(entry["data_offsets"][0] % sizes[entry["dtype"]], 0, name)

    def test_hashes_are_those_of_xxhash(self):
        rng = numpy.random.default_rng(2)
        path, written = self.write(
            {"w": ("f32", random_array(rng, numpy.float32, (3, 1_000_000))),
             "b": ("bf16", random_array(rng, ml_dtypes.bfloat16, (3,)))}, {})
        content = path.read_bytes()
        blocks = [xxhash.xxh3_64_hexdigest(content[i:i + BLOCK])
                  for i in range(0, len(content), BLOCK)]
        self.assertEqual(len(blocks), 3)
        self.assertEqual(written["hashes"], {"bytes": len(content), "blocks": blocks,
                                             "file": xxhash.xxh3_128_hexdigest(content)})


class WeReadPythonsFiles(PeerTest):
    def test_every_dtype_bit_for_bit(self):
        tensors = arrays()
        path = self.folder / "theirs.safetensors"
        self.python_writes(path, tensors, METADATA)
        (self.folder / "read").mkdir()
        read = json.loads(self.peer("read", path, self.folder / "read"))
        self.assertEqual(read["metadata"], METADATA)
        self.assertEqual({tensor["name"] for tensor in read["tensors"]}, tensors.keys())
        for i, tensor in enumerate(read["tensors"]):
            dtype, array = tensors[tensor["name"]]
            self.assertEqual(tensor["dtype"], dtype, tensor)
            self.assertEqual(tuple(tensor["shape"]), array.shape, tensor)
            self.assertEqual((self.folder / "read" / str(i)).read_bytes(), array.tobytes(), tensor)


class Lockstepctl(PeerTest):
    def lockstepctl(self, *arguments):
        done = subprocess.run([LOCKSTEPCTL, "checkpoint", *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_has(self, read, tensors):
        """`read`: what safetensors.deserialize returns, as a dict."""
        names = {name: in_file for name, _, in_file in DTYPES}
        self.assertEqual(read.keys(), tensors.keys())
        for name, (dtype, array) in tensors.items():
            self.assertEqual(read[name]["dtype"], names[dtype], name)
            self.assertEqual(tuple(read[name]["shape"]), array.shape, name)
            self.assertEqual(bytes(read[name]["data"]), array.tobytes(), name)

    def test_python_reads_by_the_weight_map_what_is_imported(self):
        tensors = arrays()
        path = self.folder / "theirs.safetensors"
        self.python_writes(path, tensors, METADATA)
        self.lockstepctl("import", path, self.folder / "job", "--step", 3)
        self.lockstepctl("verify", self.folder / "job")
        folder = self.folder / "job" / "checkpoints" / "step-3-epoch-0-attempt-1"
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"],
                         {"total_size": sum(a.nbytes for _, a in tensors.values())})
        read = {}
        for file in set(index["weight_map"].values()):
            read |= {name: tensor for name, tensor in
                     safetensors.deserialize((folder / file).read_bytes())
                     if index["weight_map"][name] == file}
        self.assert_has(read, tensors)
        training = json.loads((folder / "MANIFEST.json").read_text())["training"]
        self.assertEqual(training["metadata"], METADATA)

    def test_python_reads_what_is_consolidated_of_slices(self):
        """Folders of boostr's, whose ranks have halves of every tensor along dimension 0."""
        tensors = {name: tensor for name, tensor in arrays().items() if tensor[1].ndim > 0}
        halves = {name: len(array) // 2 for name, (_, array) in tensors.items()}
        layout = self.folder / "boostr"
        layout.mkdir()
        (layout / "sharding_meta.json").write_text(json.dumps({
            "version": 2, "world_size": 2, "strategy": "TensorParallel",
            "split_dims": dict.fromkeys(tensors, 0)}))
        for rank in range(2):
            folder = layout / f"rank_{rank}"
            folder.mkdir()
            own = {name: (dtype, array[halves[name]:] if rank else array[:halves[name]])
                   for name, (dtype, array) in tensors.items()}
            self.python_writes(folder / "model.safetensors", own, {})
            (folder / "training_state.json").write_text(json.dumps({
                "version": 2, "step": 9, "epoch": 0, "learning_rate": 0.5, "metadata": {}}))
        self.lockstepctl("consolidate", layout, self.folder / "all.safetensors")
        content = (self.folder / "all.safetensors").read_bytes()
        self.assert_has(dict(safetensors.deserialize(content)), tensors)
        with safetensors.safe_open(self.folder / "all.safetensors", framework="numpy") as opened:
            self.assertEqual(opened.metadata(), {"format": "pt", "step": "9", "lockstep.epoch": "0",
                                                 "lockstep.learning_rate": "0.5"})


def entry(begin, end, shape, dtype="U8"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


class RefusedFiles(PeerTest):
    def judge(self, contents):
        """What Lockstep says of each file, and whether Python reads it."""
        paths = [self.folder / str(i) for i in range(len(contents))]
        for path, content in zip(paths, contents):
            path.write_bytes(content)
        ours = self.peer("judge", *paths).splitlines()
        self.assertEqual(len(ours), len(contents))
        return [(answer, python_reads(content)) for answer, content in zip(ours, contents)]

    def test_what_python_refuses_we_refuse(self):
        rng = random.Random(1)
        contents = [mutant(rng) for _ in range(3000)]
        both = 0
        for content, (answer, theirs) in zip(contents, self.judge(contents)):
            both += answer == "ok" and theirs
            self.assertTrue(theirs or answer != "ok", content)
        self.assertGreater(both, 300)

    def test_what_we_refuse_and_python_reads(self):
        """The differences that docs/checkpoints.md names."""
        one = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
        differences = [
            f'{{"a":{one},"a":{one}}}',
            '{"__metadata__":null}',
            '{"__metadata__":{"k":"1","k":"2"}}',
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}}',
            ' {}',
        ]
        contents = [framed(text, 1 if "U8" in text else 0) for text in differences]
        for text, (answer, theirs) in zip(differences, self.judge(contents)):
            self.assertNotEqual(answer, "ok", text)
            self.assertTrue(theirs, text)

    def test_both_refuse(self):
        headers = [({"a": entry(0, 2, [2]), "b": entry(2, 4, [2])}, 5),
                   ({"a": entry(0, 2, [2]), "b": entry(2, 4, [2])}, 3),
                   ({"a": entry(0, 2, [2]), "b": entry(3, 5, [2])}, 5),
                   ({"a": entry(0, 2, [2]), "b": entry(1, 3, [2])}, 3),
                   ({"a": entry(1, 3, [2])}, 3), ({"a": entry(0, 2, [3])}, 2),
                   ({"a": entry(0, 1, [1], "U9")}, 1)]
        for answer, theirs in self.judge([framed(json.dumps(h), n) for h, n in headers]):
            self.assertNotEqual(answer, "ok")
            self.assertFalse(theirs)


def framed(text, data_bytes):
    header = text.encode()
    return len(header).to_bytes(8, "little") + header + bytes(data_bytes)


def python_reads(content):
    try:
        safetensors.deserialize(content)
        return True
    except safetensors.SafetensorError:
        return False


def mutant(rng):
    """A small file with up to three changes to its text or its size."""
    header, end = {}, 0
    for i in range(rng.randrange(4)):
        _, dtype, in_file = rng.choice(DTYPES)
        shape = [rng.randrange(4) for _ in range(rng.randrange(3))]
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        header[f"t{i}"] = entry(end, end + size, shape, in_file)
        end += size
    if rng.random() < 0.3:
        header["__metadata__"] = {"k": "v"}
    text = json.dumps(header, separators=(",", ":"))
    for _ in range(rng.randrange(3)):
        at, kind = rng.randrange(len(text)), rng.randrange(4)
        if kind == 0:
            text = text[:at] + rng.choice('{}[]",:0123456789-.e \\x') + text[at + 1:]
        elif kind == 1:
            text = text[:at] + text[at + 1 + rng.randrange(3):] or "{"
        elif kind == 2:
            text = text[:at] + rng.choice('{}[]",:0123456789-.e \\x') + text[at:]
        else:
            end = max(0, end + rng.randrange(-2, 3))
    return framed(text, end)


if __name__ == "__main__":
    PEER, LOCKSTEPCTL = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
