"""Rules about text that is allowed only in some files, or nowhere."""

import re

from tree import CPP_ENDINGS, Finding, find_words


def locks(tree):
    """No absl::Mutex and similar locks: Debian's abseil is not built for TSan"""
    kin = "Mutex|MutexLock|ReaderMutexLock|WriterMutexLock|CondVar|Notification|BlockingCounter|Barrier"
    return find_words(tree, tree.cpp(), rf"\babsl::({kin})\b|absl/synchronization/\w+\.h",
                      "{}: use lockstep::Mutex (base/mutex.h), which ThreadSanitizer understands")


def nccl_names(tree):
    """Names of NCCL occur in client/transport/nccl only"""
    paths = [path for path in tree.cpp() if "client/transport/nccl/" not in path]
    return find_words(tree, paths, r"\bnccl[A-Z]\w*",
                      "{}: names of NCCL stand in client/transport/nccl only")


def launches(tree):
    """Kernels are launched by LaunchKernel, and by an example's device/*.cu"""
    allowed = re.compile(r"examples/\w+/device/\w+\.cu$")
    paths = [path for path in tree.cpp() if not allowed.match(path)]
    return find_words(tree, paths, r"<<<",
                      "{}: LaunchKernel (kernels/device/dispatch.cuh) returns the launch's own error")


def disabled_tests(tree):
    """A test that does not run is repaired or removed"""
    yield from find_words(tree, tree.cpp(), r"\bDISABLED_\w*",
                          "{}: a test that does not run is repaired or removed")
    for path in tree.files:
        if _is_cmake(path):
            for number, line in tree.lines(path):
                if re.search(r"\bDISABLED\s+(TRUE|ON|1)\b", line.partition("#")[0]):
                    yield Finding(path, number, "a test that does not run is repaired or removed")


def comment_openers(tree):
    """A comment begins with its subject, not with Of, That, Its or Whom"""
    opener = re.compile(r"\s*//+<?\s*(Of|That|Its|Whom)\b")
    for path in tree.cpp():
        is_inside = False  # a comment that began on an earlier line
        for number, line in tree.lines(path):
            match = None if is_inside else opener.match(line)
            if match:
                yield Finding(path, number, f"a comment that begins with '{match.group(1)}': "
                              "begin with what it is about")
            is_inside = line.lstrip().startswith("//")


def replaced_names(tree):
    """No name that a standard term has replaced"""
    names = "Seat|Board|Meeting|Troupe|Theatre|Moment|Tally|Ballot|Course|Lending|Patience"
    return find_words(tree, tree.cpp(), rf"\b(?:{names})\b",
                      "{}: say it with the field's term for it")


def machine_paths(tree):
    """No path of a developer's machine"""
    expression = re.compile(r"(?<![\w.$}*-])/(work|farm|root|home/\w+|Users/\w+)/")
    for path in tree.files:
        for number, line in tree.lines(path):
            match = expression.search(line)
            if match:
                yield Finding(path, number, f"'{match.group()}' is a path of one machine")


def budgets(tree):
    """Every label of a test has a budget in tests/budgets.txt"""
    known = {line.split()[0] for line in tree.files.get("tests/budgets.txt", "").splitlines()
             if line.partition("#")[0].split()}
    for path in filter(_is_cmake, tree.files):
        for number, label in _labels(tree.files[path]):
            if label not in known:
                yield Finding(path, number, f"label '{label}' has no budget in tests/budgets.txt")


def environment(tree):
    """docs/environment.md lists exactly the variables that programs read"""
    document = "docs/environment.md"
    said = {}
    for number, line in tree.lines(document) if document in tree.files else ():
        for name in re.findall(r"^\| `(LOCKSTEP_[A-Z_]+)`", line):
            said[name] = number
    read = {}
    for path in tree.files:
        for name, number in _variables(tree, path):
            read.setdefault(name, (path, number))
    for name in sorted(read.keys() - said.keys()):
        yield Finding(*read[name], f"{name} is not in {document}")
    for name in sorted(said.keys() - read.keys()):
        yield Finding(document, said[name], f"{name} is read by nothing")


def _variables(tree, path):
    """(name, line) of environment variables and options that a file reads."""
    if path.endswith(CPP_ENDINGS) and not path.startswith("tests/"):
        lines, expression = tree.code_lines(path), r'"(LOCKSTEP_[A-Z_]+)\b'
    elif path == "run" or path.startswith("tools/run/"):
        lines, expression = tree.lines(path), r"\$\{?(LOCKSTEP_[A-Z_]+)"
    elif path == "CMakeLists.txt":
        lines, expression = tree.lines(path), r"^option\((LOCKSTEP_[A-Z_]+)"
    else:
        return
    for number, line in lines:
        for name in re.findall(expression, line):
            yield name, number


def _is_cmake(path):
    return path.endswith((".cmake", "CMakeLists.txt"))


def _labels(text):
    """(line, label) of the LABELS arguments of lockstep_*test calls."""
    for call in re.finditer(r"\blockstep_(?:register_)?test\(([^()]*)\)", text):
        for group in re.finditer(r"\bLABELS((?:\s+[a-z][\w-]*)+)", call[1]):
            line = text.count("\n", 0, call.start(1) + group.start()) + 1
            for label in group[1].split():
                yield line, label
