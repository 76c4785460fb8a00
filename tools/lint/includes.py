"""Rules about #include: the arrows between modules, purity, generated messages."""

import re

from tree import Finding

# The other modules that a module may include. A path belongs to the longest
# module that is its prefix. docs/architecture.md, "Modules", draws the same arrows.
_VALUES = "client/include"  # values that specs, plans and the coordinator share
_API = "the API of workers"
_TEXT = [_VALUES, "base", "base/text"]
_PROTOCOL = [*_TEXT, "protocol"]
_PLAN = [*_PROTOCOL, "plan/schedule", "spec", "plan"]
_TRANSPORT = [*_PLAN, _API, "kernels", "client/transport"]
_LINKS = [*_TRANSPORT, "client/transport/common", "client/transport/collectives"]
_ANY_TRANSPORT = [*_LINKS, "client/transport/shm", "client/transport/hierarchical",
                  "client/transport/gloo", "client/transport/nccl"]
_WORKER = [*_TRANSPORT, "client/executor", "client/session"]
MAY_INCLUDE = {
    _VALUES: [],
    _API: [_VALUES],
    "base": ["base/text"],
    "base/text": [],
    "base/tls": ["base", "base/text"],
    "protocol": _TEXT,
    "plan/schedule": _PROTOCOL,
    "spec": [*_PROTOCOL, "plan/schedule"],
    "plan": [*_PROTOCOL, "plan/schedule", "spec"],
    "plan/verify": _PLAN,
    "plan/timeline": [*_PLAN, "plan/verify"],
    "kernels": _TEXT,
    "proto": [*_PLAN, "base/tls"],
    "server/core": [*_PLAN, "plan/verify"],
    "server": [*_PLAN, "plan/verify", "proto", "server/core", "server/access",
               "server/etcd/access", "base/tls"],
    "server/access": _TEXT,
    "server/etcd/access": [*_TEXT, "base/tls"],
    "server/offline": [*_PLAN, "plan/verify", "proto", "server/core", "server"],
    "client": [],
    "client/transport": [*_PLAN, _API, "kernels", "client/transport/common"],
    "client/transport/common": _TRANSPORT,
    "client/transport/collectives": _LINKS,
    "client/transport/shm": [*_TRANSPORT, "client/transport/common"],
    "client/transport/hierarchical": [*_LINKS, "client/transport/shm"],
    "client/transport/gloo": _LINKS,
    "client/transport/nccl": [*_TRANSPORT, "client/transport/common"],
    "client/checkpoint": _PROTOCOL,
    "client/state": [*_WORKER, "client/checkpoint", "client/collectives"],
    "client/collectives": [*_TRANSPORT, "client/transport/common"],
    "client/halo": [*_TRANSPORT, "client/transport/common", "client/collectives",
                    "client/executor"],
    "client/executor": [*_TRANSPORT, "client/transport/common"],
    "client/session": [*_ANY_TRANSPORT, "base/tls", "plan/verify", "proto", "client/executor",
                       "client/collectives", "client/halo"],
    "client/gradient": _WORKER,
    "client/pipeline": _WORKER,
    "tools": [*_PLAN, _API, "base/tls", "plan/verify", "plan/timeline", "proto", "kernels",
              "client/checkpoint", "server/access", "server/offline", "server/etcd/access",
              "client/collectives", "client/halo", *_ANY_TRANSPORT],
    # The demonstration launches its workers.
    "examples": [*_PLAN, _API, "plan/timeline", "kernels", *_ANY_TRANSPORT,
                 "client/session", "client/checkpoint",
                 "tools"],
}
ANYTHING = ("tests", "bench")
PUBLIC = (_VALUES,)
WORKERS_API = {f"client/include/lockstep/{name}.h" for name in (
    "arena", "axis_group", "captured_step", "checkpointer", "communicator", "device_stream", "domain_norm",
    "gradient_sync", "halo_exchange", "halo_layers", "host_calls", "pipeline",
    "pipeline_stage", "recovery", "replayed_steps", "session", "state_replicas", "stream", "verdict")}

PURE = ("base/text/", "protocol/", "spec/", "plan/", "server/core/", "client/session/machine")
IMPURE = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
    "barrier", "stop_token", "chrono", "ctime", "time.h", "fstream", "filesystem", "unistd.h",
    "fcntl.h", "absl/time/clock.h",
}
PURE_BASE = ("base/check.h", "base/text/")
HASHES = {"openssl/crypto.h", "openssl/sha.h"}  # a function of its argument
IMPURE_FOLDERS = ("grpc", "google/protobuf/", "absl/synchronization/", "base/", "sys/")

# Modules that may include generated messages, besides tests and benches.
WIRE_EDGE = re.compile(r"^proto/|(^|/)rpc/|^server/etcd/(client|access/member_status)\.cc|^client/session/grpc|^(tests|bench)/")

_INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')


def includes(tree):
    """(path, line, header, quoted) of every #include."""
    for path in tree.cpp():
        for number, line in tree.lines(path):
            match = _INCLUDE.match(line)
            if match:
                yield path, number, match[2] or match[3], match[3] is not None


def module_of(path):
    if path in WORKERS_API:
        return _API
    modules = [module for module in MAY_INCLUDE if path == module or path.startswith(module + "/")]
    return max(modules, key=len, default=None)


def file_of(tree, header):
    """The file of this repository that `header` names, or None (external or generated)."""
    for candidate in [header] + [f"{folder}/{header}" for folder in PUBLIC]:
        if candidate in tree.files:
            return candidate
    # A missing file still belongs to its module.
    return header if module_of(header) and not header.startswith("lockstep/") else None


def arrows(tree):
    """Includes point one way between modules"""
    for path in tree.cpp():
        if module_of(path) is None and not path.startswith(ANYTHING):
            yield Finding(path, 1, f"'{path.partition('/')[0]}' is in no module that "
                          "tools/lint/includes.py knows: say there what it may include")
    for path, line, header, quoted in includes(tree):
        module, target = module_of(path), file_of(tree, header)
        if module is None or target is None or not quoted:
            continue
        if module_of(target) != module and module_of(target) not in MAY_INCLUDE[module]:
            allowed = ", ".join(MAY_INCLUDE[module]) or "no other module"
            yield Finding(path, line, f"'{module}' includes \"{header}\" of "
                          f"'{module_of(target) or target}'; it may include {allowed}")


def pure(tree):
    """spec, protocol, plan, server/core, the session's machine: no RPC, thread, clock, file"""
    for path, line, header, quoted in includes(tree):
        if not path.startswith(PURE):
            continue
        if header.startswith(PURE_BASE) or header in HASHES:
            continue
        if header in IMPURE or header.startswith(IMPURE_FOLDERS) or header.endswith(".pb.h"):
            yield Finding(path, line, f"<{header}> in a pure module: time, chance and effects "
                          "are arguments there")
        elif path.startswith("server/core/") and not _is_std_or_ours(tree, header, quoted):
            yield Finding(path, line, f"<{header}>: server/core includes pure modules, std and absl only")
    words = re.compile(r"\babsl::(Now|SleepFor|GetCurrentTimeNanos)\b|\bstd::chrono\b|"
                       r"\bstd::random_device\b")
    for path in tree.cpp():
        for number, text in tree.code_lines(path) if path.startswith(PURE) else ():
            for match in words.finditer(text):
                yield Finding(path, number, f"{match.group()} in a pure module: time and chance "
                              "are arguments there")


def _is_std_or_ours(tree, header, quoted):
    if quoted:
        return header.startswith("absl/") or file_of(tree, header) is not None
    return "/" not in header and not header.endswith((".h", ".hpp"))


def wire_edge(tree):
    """Generated messages are seen by proto/, rpc/, client/session/grpc* and server/etcd/client.cc only"""
    for path, line, header, _ in includes(tree):
        if header.endswith(".pb.h") and not WIRE_EDGE.search(path):
            yield Finding(path, line, f'"{header}": only proto/, rpc/ folders and '
                          "client/session/grpc* and server/etcd/client.cc see generated messages")
