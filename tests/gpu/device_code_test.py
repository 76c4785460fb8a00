"""Checks the compiled device code: machine code for Ampere and Hopper and PTX for
later ones in every fat binary, and accesses of 16 bytes.

    device_code_test.py PROGRAM NVCC

A fat binary is a header and a sequence of entries, each with its own header:

    magic 4 | version 2 | header 2 | bytes 8
    kind 2 (1: PTX, 2: machine code) | 2 | header 4 | bytes 8 | ... | at 28: architecture 4
"""

import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAGIC = 0xBA55ED50
PTX, MACHINE = 1, 2
WORDS_OF_16_BYTES = r"\.v4\.[ubfs]32|\.v2\.[ubfs]64"


def fat_binaries(section):
    """The (kind, architecture) pairs of each."""
    at, found = 0, []
    while at + 16 <= len(section):
        magic, _, header, size = struct.unpack_from("<IHHQ", section, at)
        if magic != MAGIC:  # between two of them
            at += 8
            continue
        entry, end, pairs = at + header, at + header + size, set()
        while entry < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", section, entry)
            pairs.add((kind, struct.unpack_from("<I", section, entry + 28)[0]))
            entry += header + size
        found.append(pairs)
        at = end
    return found


class DeviceCodeTest(unittest.TestCase):
    program = nvcc = None

    def test_every_fat_binary_has_ampere_hopper_and_ptx(self):
        with tempfile.TemporaryDirectory() as folder:
            section = Path(folder) / "section"
            subprocess.run(["objcopy", "-O", "binary", "--only-section=.nv_fatbin",
                            "--set-section-flags", ".nv_fatbin=alloc", self.program, section],
                           check=True)
            binaries = fat_binaries(section.read_bytes())
        self.assertEqual(len(binaries), len(list((ROOT / "kernels/device").glob("*.cu"))))
        for pairs in binaries:
            self.assertEqual(pairs, {(MACHINE, 80), (MACHINE, 90), (PTX, 90)})

    def test_memory_is_read_and_written_16_bytes_at_a_time(self):
        for kernel, stores in (("pack", "global"), ("cast_scale", "global"), ("reduce", "global"),
                               ("verdict_gate", "global"), ("finite_check", "shared"),
                               ("arg_extremum", "global"), ("block_copy", "global"),
                               ("divide", "global"), ("indexed_rows", "global"),
                               ("permute_blocks", "global"), ("reduce_any", "global"),
                               ("row_copy", "global"), ("scale_and_check", "global"),
                               ("strided_box", "global"),
                               ("widen", "global")):
            with self.subTest(kernel):
                ptx = subprocess.run(
                    [self.nvcc, "-std=c++20", "-arch=sm_80", "--expt-relaxed-constexpr", "-ptx",
                     f"-I{ROOT}", f"-I{ROOT}/client/include",
                     ROOT / f"kernels/device/{kernel}.cu", "-o", "/dev/stdout"],
                    capture_output=True, text=True, check=True).stdout
                self.assertRegex(ptx, rf"ld\.global\S*({WORDS_OF_16_BYTES})")
                self.assertRegex(ptx, rf"st\.{stores}\S*({WORDS_OF_16_BYTES})")


if __name__ == "__main__":
    DeviceCodeTest.nvcc = sys.argv.pop()
    DeviceCodeTest.program = sys.argv.pop()
    unittest.main()
