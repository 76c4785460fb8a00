"""Rules about #include: the arrows between rooms, purity, the wire's edge."""

import re

from tree import Finding

# Which rooms a room may include, itself aside. A path belongs to the longest
# room that it starts with. docs/architecture.md, "Modules", draws the same arrows.
MAY_INCLUDE = {
    "base": [],
    "plan": ["base"],
    "kernels": ["plan", "base"],
    "proto": ["plan"],
    "server": ["server/core", "proto", "plan", "base"],
    "server/core": ["plan", "base"],
    "client": ["proto", "plan", "base", "kernels"],
    "tools": ["client", "proto", "plan", "base", "kernels"],
    "examples": ["client", "plan", "base", "kernels", "tools"],  # the demo launches its workers
}
ANYTHING = ("tests", "bench")
PUBLIC = ("plan/include", "client/include")

PURE = ("plan/", "server/core/", "client/session/machine")
IMPURE = {
    "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "latch",
    "barrier", "stop_token", "chrono", "ctime", "time.h", "fstream", "filesystem", "unistd.h",
    "fcntl.h", "absl/time/clock.h",
}
PURE_BASE = {"base/check.h"}
HASHES = {"openssl/crypto.h", "openssl/sha.h"}  # a function of its argument
IMPURE_FOLDERS = ("grpc", "google/protobuf/", "absl/synchronization/", "base/", "sys/")

# Who may see generated messages, beside tests and benches.
WIRE_EDGE = re.compile(r"^proto/|(^|/)rpc/|^client/session/grpc|^(tests|bench)/")

_INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')


def includes(tree):
    """(path, line, header, quoted) of every #include."""
    for path in tree.cpp():
        for number, line in tree.lines(path):
            match = _INCLUDE.match(line)
            if match:
                yield path, number, match[2] or match[3], match[3] is not None


def room_of(path):
    rooms = [room for room in MAY_INCLUDE if path == room or path.startswith(room + "/")]
    return max(rooms, key=len, default=None)


def file_of(tree, header):
    """Our file that `header` names, or None: someone else's or generated."""
    for candidate in [header] + [f"{folder}/{header}" for folder in PUBLIC]:
        if candidate in tree.files:
            return candidate
    # A file of ours that is missing is still of its room.
    return header if room_of(header) and not header.startswith("lockstep/") else None


def arrows(tree):
    """Includes point one way between rooms"""
    for path in tree.cpp():
        if room_of(path) is None and not path.startswith(ANYTHING):
            yield Finding(path, 1, f"'{path.partition('/')[0]}' is in no room that "
                          "tools/lint/includes.py knows: say there what it may include")
    for path, line, header, quoted in includes(tree):
        room, target = room_of(path), file_of(tree, header)
        if room is None or target is None or not quoted:
            continue
        if room_of(target) != room and room_of(target) not in MAY_INCLUDE[room]:
            allowed = ", ".join(MAY_INCLUDE[room]) or "no other room"
            yield Finding(path, line, f"'{room}' includes \"{header}\" of "
                          f"'{room_of(target) or target}'; it may include {allowed}")


def pure(tree):
    """plan, server/core and the session's machine: no RPC, thread, clock, file"""
    for path, line, header, quoted in includes(tree):
        if not path.startswith(PURE):
            continue
        if header in PURE_BASE or header in HASHES:
            continue
        if header in IMPURE or header.startswith(IMPURE_FOLDERS) or header.endswith(".pb.h"):
            yield Finding(path, line, f"<{header}> in a pure room: time, chance and effects "
                          "are arguments there")
        elif path.startswith("server/core/") and not _is_std_or_ours(tree, header, quoted):
            yield Finding(path, line, f"<{header}>: server/core includes plan, std and absl only")
    words = re.compile(r"\babsl::(Now|SleepFor|GetCurrentTimeNanos)\b|\bstd::chrono\b|"
                       r"\bstd::random_device\b")
    for path in tree.cpp():
        for number, text in tree.code_lines(path) if path.startswith(PURE) else ():
            for match in words.finditer(text):
                yield Finding(path, number, f"{match.group()} in a pure room: time and chance "
                              "are arguments there")


def _is_std_or_ours(tree, header, quoted):
    if quoted:
        return header.startswith("absl/") or file_of(tree, header) is not None
    return "/" not in header and not header.endswith((".h", ".hpp"))


def wire_edge(tree):
    """Generated messages are seen by proto/, rpc/ and client/session/grpc* only"""
    for path, line, header, _ in includes(tree):
        if header.endswith(".pb.h") and not WIRE_EDGE.search(path):
            yield Finding(path, line, f'"{header}": only proto/, rpc/ folders and '
                          "client/session/grpc* see generated messages")
