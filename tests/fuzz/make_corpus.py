"""Writes the inputs that the corpora began with: examples of everything that is parsed.

    make_corpus.py BIN_FOLDER OUT_FOLDER

From the golden files of the wire, the examples of specs, and what the programs in BIN_FOLDER
write. Then merge them into the corpora, which keeps those that reach new code:

    build/fuzz/bin/TARGET_fuzz -merge=1 tests/fuzz/corpus/TARGET OUT_FOLDER/TARGET
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The first byte of an input of messages_fuzz.cc, by the name of a golden file.
MESSAGES = {"to_coordinator": 0, "to_worker": 1, "record": 2, "evidence": 3, "job_spec": 4,
            "durable_job": 5, "job_view": 6, "job_summary": 7, "limit_use": 8, "header": 9,
            "plan_chunk": 12}
PARSE_RECORD, PARSE_SNAPSHOT = 10, 11


def golden(path):
    """The bytes of a golden file: hexadecimal, behind the line "# N bytes"."""
    text = path.read_text(encoding="utf-8")
    return bytes.fromhex(re.split(r"^# \d+ bytes\n", text, flags=re.MULTILINE)[1])


def messages():
    for path in sorted((ROOT / "tests/golden/wire").glob("*/*.txt")):
        kind = path.name.split(".")[0]
        if kind not in MESSAGES:
            continue
        wire = golden(path)
        yield bytes([MESSAGES[kind]]) + wire
        if kind == "record":
            yield bytes([PARSE_RECORD]) + wire
    yield bytes([PARSE_SNAPSHOT, 1]) + b"\x08\x01".ljust(8, b"\0")


def specs():
    yield from sorted((ROOT / "examples/specs").glob("*.yaml"))


def compile_plan(lockstepctl, spec, out):
    done = subprocess.run([lockstepctl, "plan", "compile", "-f", spec, "-o", out],
                          capture_output=True, check=False)
    return done.returncode == 0


def texts(lockstepctl, folder):
    for spec in specs():
        yield b"\0" + spec.read_bytes()
    table = (ROOT / "docs/spec.md").read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", table, flags=re.DOTALL):
        yield b"\0" + block.encode()
    for plan in plans(lockstepctl, folder):
        done = subprocess.run([lockstepctl, "plan", "export", plan], capture_output=True,
                              check=True)
        if len(done.stdout) < 8000:
            yield b"\1" + done.stdout
    for mesh in (b"data=4", b"data=2,pipe=4", b"a=1,b=2,c=3"):
        yield b"\2" + mesh
    for unit in (b"25MiB", b"4097", b"1KiB", b"500ms", b"1m30s", b"720h", b"0", b"1TiB"):
        yield b"\3" + unit
    for kind in (b"f32[4,8]", b"[f32[4], bf16[2,2]]", b"f32[4] + i64[]", b"c128[]"):
        yield b"\4" + kind
    for address in (b"127.0.0.1:7070", b"[::1]:0", b"coordinator:7070", b"0.0.0.0:65535"):
        yield b"\5" + address
    for text in ("größe 重み\n\x1b[2J\u202e", "\\x1b", "a\tb"):
        yield b"\6" + text.encode()
    for request in (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"POST /metrics?a=b HTTP/1.0\r\n\r\n",
                    b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 1366):
        yield b"\7" + request


SMALL_SPECS = (
    "name: a\nmesh: data=2\nparameters:\n- {name: w, shape: [4]}\n",
    "name: a\nmesh: data=2\nsync: reduce_scatter\nparameters:\n- {name: w, shape: [4]}\n",
    "name: a\nmesh: data=2\nbuckets: {wire_dtype: bf16}\nparameters:\n- {name: w, shape: [4]}\n",
    "name: a\nmesh: data=2\nreproducible: {leaves: 4}\nparameters:\n- {name: w, shape: [4]}\n",
    "name: a\nmesh: pipe=2\npipeline: {schedule: 1f1b, axis: pipe, micro_batches: 2, "
    "activations: [\"f32[2]\"]}\nparameters:\n- {name: w, shape: [4]}\n",
)


def plans(lockstepctl, folder):
    for number, text in enumerate(SMALL_SPECS):
        spec, plan = folder / f"{number}.yaml", folder / f"{number}.pb"
        spec.write_text(text)
        if compile_plan(lockstepctl, spec, plan):
            yield plan


def plan_bytes(lockstepctl, folder):
    for plan in plans(lockstepctl, folder):
        yield plan.read_bytes()
    for path in sorted((ROOT / "tests/golden/wire").glob("*/plan.txt")):
        yield golden(path)


MANIFEST = b"""{"version":1,
"job":"digits","step":20,"epoch":3,"attempt":1,"mesh":"data=1,model=2",
"training":{"step":20,"epoch":2,"learning_rate":0.1,"metadata":{"k":"v"},"samples":{"seed":1,"dataset_size":9,"position":6}},
"tensors":[
{"name":"w","dtype":"bf16","shape":[4,3],"slices":[{"file":"rank-1.safetensors","stored_as":"w","begin":[0,0],"shape":[4,3]}]}],
"files":[
{"name":"rank-1.safetensors","bytes":100,"xxh3":"00112233445566778899aabbccddeeff","block_bytes":4194304,"blocks":["f000000000000000"]}]"""
PART = b"""{"version":1,
"rank":1,"step":20,"epoch":3,"attempt":1,
"training":{"step":20,"epoch":2,"learning_rate":0.1,"metadata":{},"samples":{"seed":1,"dataset_size":9,"position":6}},
"tensors":[
{"name":"w","dtype":"f32","shape":[4],"slices":[{"file":"rank-1.safetensors","stored_as":"w","begin":[0],"shape":[4]}]}],
"files":[
{"name":"rank-1.safetensors","bytes":100,"xxh3":"00112233445566778899aabbccddeeff","block_bytes":4194304,"blocks":["f000000000000000"]}]"""


def checkpoints():
    header = {"__metadata__": {"format": "pt", "step": "7"},
              "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
              "b": {"dtype": "BF16", "shape": [8], "data_offsets": [16, 32]}}
    text = json.dumps(header, separators=(",", ":")).encode()
    yield b"\0\x08" + text
    yield b"\0\0{}"
    yield b"\1" + struct.pack("<Q", len(text)) + text + bytes(32)
    yield b"\2" + MANIFEST
    yield b"\3" + json.dumps({"world_size": 2, "shards": [
        {"rank": 0, "world_size": 2, "strategy": "Replicated"}, {"rank": 1}]}).encode()
    yield b'\3{"a":[1,-2,3.5e7,true,null,"\\u00e9"]}'
    yield b"\4" + PART
    yield b"\5step-20-epoch-3-attempt-1"


def handles():
    place = bytes([1, 0])  # two ranks, the first of them
    yield b"\0" + place + b"shm1 0 2 boot 4026531840 lockstep-1 1f"
    yield b"\1" + place + b"auto1 shm1 0 2 boot net socket 1f + gloo2 0 2 127.0.0.1 0,5"
    yield b"\2" + place + b"gloo2 0 2 127.0.0.1 0,5000"
    yield b"\2" + place + b"gloo2 0 2 ::1 0,5000"
    yield b"\3" + place + b"nccl 0/2 " + b"0f" * 128 + b"\nnccl 1/2"
    yield b"\4" + place + b"launch-1 2/4"
    yield b"\4" + place + b"host:17"


def certificates(lockstepctl, folder):
    made = folder / "certs"
    subprocess.run([lockstepctl, "certs", "init", made, "--host", "a.example,10.0.0.7"],
                   capture_output=True, check=True)
    for path in ("operator/tls.crt", "coordinator/tls.crt", "coordinator/ca.crt"):
        yield b"\5\1\0" + (made / path).read_bytes()
    yield b"\5\1\0" + b"".join((made / f"worker/{name}").read_bytes()
                               for name in ("tls.crt", "ca.crt"))


def journals(lockstepd, folder):
    """Frames, records, and the files of a journal that a daemon has written."""
    for path in sorted((ROOT / "tests/golden/wire").glob("*/record.*.txt")):
        yield b"\0" + golden(path)
    yield bytes([1, 9, 0]) + b"".join(bytes([len(text)]) + text for text in (b"one", b"two", b""))
    yield bytes([1, 1, 30]) + b"".join(bytes([len(text)]) + text for text in (b"one", b"two", b"3"))
    yield b"\2" + bytes(range(64))
    journal, port = folder / "journal", folder / "port"
    daemon = subprocess.Popen([lockstepd, "--listen", "127.0.0.1:0", "--journal", journal,
                               "--port_file", port], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        while not port.exists():
            pass
    finally:
        daemon.terminate()
        daemon.wait()
    files = b""
    for number, name in enumerate(("journal.db", "journal.db-wal", "mark")):
        if (journal / name).exists():
            content = (journal / name).read_bytes()
            files += bytes([number]) + struct.pack("<H", len(content)) + content
    yield b"\3" + files


def shared_memory():
    yield b"\0\1" + bytes(32)
    yield b"\0\2" + bytes(range(64))
    yield b"\1\1" + bytes(200)
    # One memory, one box of the type that an input of zeros makes.
    table = struct.pack("<8Q", 1, 1, 1, 0, 4096, 0 | 1 << 8 | 1 << 16, 0, 1)
    yield b"\1\1" + bytes(12) + table
    yield b"\2\1\0\0\0\x08"
    yield b"\3\0"
    yield b"\4" + struct.pack("<BBBBiQ", 1, 1, 1, 0, 0, 64)
    yield b"\5" + struct.pack("<IHBBQ8Q", 0x4341534C, 1, 1, 2, 6, 2, 3, *[0] * 6)


def histories():
    yield bytes(range(256))
    yield bytes([9, 0] + [0] * 64 + [0] * 64)


def main():
    programs, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    lockstepctl, lockstepd = programs / "lockstepctl", programs / "lockstepd"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpora = {
            "checkpoint": checkpoints(),
            "coordinator": histories(),
            "handles": [*handles(), *certificates(lockstepctl, folder)],
            "journal": journals(lockstepd, folder),
            "messages": messages(),
            "plan": plan_bytes(lockstepctl, folder),
            "shared_memory": shared_memory(),
            "text": texts(lockstepctl, folder),
        }
        for target, inputs in corpora.items():
            corpus = out / target
            corpus.mkdir(parents=True, exist_ok=True)
            for number, data in enumerate(inputs):
                (corpus / f"example-{number:02}").write_bytes(data)


if __name__ == "__main__":
    main()
