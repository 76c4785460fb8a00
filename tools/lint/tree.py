"""The files that the rules check: text by path, and the root folder.

A rule is a function (Tree) -> iterable of Finding. It reads only the tree that it
is given, so its test can pass a tree of three lines.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

CPP_ENDINGS = (".h", ".cc", ".cu", ".cuh", ".hpp", ".cpp")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


@dataclass
class Tree:
    files: dict  # path relative to the root -> text
    root: Path = Path(".")  # for rules that call a program on the files
    _code: dict = field(default_factory=dict)

    @staticmethod
    def of_repository(root):
        """Tracked and untracked files that git does not ignore; no binaries."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True).stdout
        files = {}
        for path in sorted(set(listed.decode().split("\0")) - {""}):
            file = Path(root) / path
            if file.is_file() and not file.is_symlink():
                content = file.read_bytes()
                if b"\0" not in content:
                    files[path] = content.decode(errors="replace")
        return Tree(files, Path(root))

    def cpp(self):
        """The paths of C++ and CUDA files."""
        return [path for path in self.files if path.endswith(CPP_ENDINGS)]

    def code_lines(self, path):
        """(number, line) of a C++ file, its comments blanked out."""
        if path not in self._code:
            self._code[path] = without_comments(self.files[path]).split("\n")
        return enumerate(self._code[path], 1)

    def lines(self, path):
        return enumerate(self.files[path].split("\n"), 1)


_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.S)


def without_comments(text):
    """`text` with C++ comments as blanks; lines keep their numbers."""

    def blank(match):
        token = match.group()
        return re.sub(r"[^\n]", " ", token) if token.startswith("/") else token

    return _TOKEN.sub(blank, text)


def find_words(tree, paths, pattern, message):
    """A finding for each line of code in which `pattern` occurs."""
    expression = re.compile(pattern)
    for path in paths:
        for number, line in tree.code_lines(path):
            match = expression.search(line)
            if match:
                yield Finding(path, number, message.format(match.group()))
