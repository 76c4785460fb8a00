"""No two types of the product have one name: classes, structs, unions and enums."""

import re
from dataclasses import dataclass

from tree import Finding

PRODUCT = ("base/", "client/", "kernels/", "plan/", "protocol/", "server/", "spec/", "tools/")

_TOKEN = re.compile(r'R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#[^\n]*|[{};]',
                    re.S | re.M)
_TYPE = re.compile(r"\b(?:class|struct|union|enum)\s+(?:(?:class|struct)\s+)?"
                   r"(?:alignas\([^)]*\)\s*|LOCKSTEP_[A-Z]+\s+|\[\[[^\]]*\]\]\s*)*([A-Za-z_]\w*)"
                   r"(?:\s+final)?\s*(?::(?!:).*)?$", re.S)
_TEMPLATE = re.compile(r"\btemplate\s*<[^{};]*?>\s*(?=class|struct|union|requires|template)", re.S)


@dataclass(frozen=True)
class Type:
    name: str
    path: str
    line: int
    nested: bool  # within a class or a function


def types(path, code):
    """Every type that `code`, C++ without comments, defines: declarations alone do not count."""
    scopes = []  # of each open brace: "namespace", "type" or "code"
    begin = 0
    for token in _TOKEN.finditer(code):
        mark = token.group()
        if mark not in "{};":
            continue
        head = code[begin:token.start()]
        begin = token.end()
        if mark == "}" and scopes:
            scopes.pop()
        if mark != "{":
            continue
        if re.search(r"\b(namespace(\s+[\w:]+)?|extern\s+\"C\")\s*$", head):
            scopes.append("namespace")
            continue
        match = _TYPE.search(_TEMPLATE.sub("", head))
        if not match or re.search(r"[=(]\s*$", head):
            scopes.append("code")
            continue
        nested = any(scope != "namespace" for scope in scopes)
        offset = head.rfind(match[1], 0, head.rfind(match[1]) + len(match[1]))
        line = code.count("\n", 0, begin - 1 - len(head) + offset) + 1
        yield Type(match[1], path, line, nested)
        scopes.append("type")


def unique_types(tree):
    """No two types of one name, but for types nested in different classes"""
    first = {}
    later = []
    for path in tree.cpp():
        if path.startswith(PRODUCT):
            code = "\n".join(line for _, line in tree.code_lines(path))
            for type_ in types(path, code):
                if not type_.nested and type_.name not in first:
                    first[type_.name] = type_
                else:
                    later.append(type_)
    for type_ in later:
        other = first.get(type_.name)
        if other:
            yield Finding(type_.path, type_.line,
                          f"type {type_.name}: {other.path}:{other.line} defines one of this name")
