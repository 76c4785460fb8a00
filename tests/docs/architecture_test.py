"""docs/architecture.md and tests/README.md refer to existing code.

    architecture_test.py SOURCE_FOLDER

Each term of the glossary is an identifier of the product, outside of comments. Each path exists.
Each name in mixed case occurs in the sources, and in the file to which the document assigns it.
Each section that a comment cites exists.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
ARCHITECTURE = "docs/architecture.md"
DOCUMENTS = (ARCHITECTURE, "tests/README.md")
TERMS_MAX = 40

ENDINGS = (".h", ".cc", ".cu", ".cuh", ".proto")
NO_PRODUCT = ("tests", "bench", "build", "docs")
# A path, as documents write it: with a slash, or with the ending of a file.
PATH = re.compile(r"(?<![\w./:-])((?:[\w.-]+/)+[\w.-]*|"
                  r"[\w-]+\.(?:h|cc|cu|cuh|proto|md|py|txt|cmake))(?![\w/*-])")
OF_OTHERS = {"GoogleTest", "AddressSanitizer", "UndefinedBehaviorSanitizer"}


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def sources():
    """Path and text of each source of the product, and of its tests."""
    for folder in sorted(ROOT.iterdir()):
        if not folder.is_dir() or folder.name[0] == "." or folder.name in ("build", "docs"):
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in (*ENDINGS, ".py", ".cmake", ".txt"):
                yield path.relative_to(ROOT), path.read_text(encoding="utf-8", errors="replace")


def words_of(text):
    return set(re.findall(r"\w+", text))


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def glossary():
    """(line, term) of each row of the table under "## Glossary"."""
    inside = False
    for number, line in enumerate(read(ARCHITECTURE).splitlines(), 1):
        if line.startswith("## "):
            inside = line == "## Glossary"
        elif inside and line.startswith("| ") and not line.startswith("| term "):
            yield number, line.split(" | ")[0].removeprefix("| ")


def term_faults(product):
    terms = list(glossary())
    if not 20 <= len(terms) <= TERMS_MAX:
        yield f"{ARCHITECTURE}: the glossary has {len(terms)} terms, not 20 to {TERMS_MAX}"
    for number, cell in terms:
        match = re.fullmatch(r"`(\w+)`", cell)
        if match is None:
            yield f"{ARCHITECTURE}:{number}: {cell} is not one identifier in code marks"
        elif match[1] not in product:
            yield f"{ARCHITECTURE}:{number}: no source of the product has {match[1]}"
    names = [cell for _, cell in terms]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{ARCHITECTURE}: the glossary has {name} twice"


def path_faults(document, names):
    """Missing paths. A path begins with a folder of the repository or beside the document."""
    roots = [ROOT, (ROOT / document).parent]
    for number, line in enumerate(read(document).splitlines(), 1):
        for path in PATH.findall(line):
            path = path.rstrip(".")
            first, slash, _ = path.partition("/")
            if first == "build" or any((root / path).exists() for root in roots):
                continue
            is_path = slash and any((root / first).is_dir() for root in roots)
            if is_path or (not slash and path not in names):
                yield f"{document}:{number}: there is no {path}"


def name_faults(document, known):
    for number, line in enumerate(read(document).splitlines(), 1):
        for name in re.findall(r"\b(?:k?[A-Z][a-z0-9]+){2,}\b|\bk[A-Z]\w+\b", line):
            if name not in known and name not in OF_OTHERS:
                yield f"{document}:{number}: no source has {name}"


def place_faults(document):
    """Names that are not in the file to which the document assigns them:
    "`path`: `Name`, `Name`" up to the end of the sentence, and "`Name` in `path`"."""
    text = read(document)
    places = [(path, re.findall(r"`(\w+)`", names))
              for path, names in re.findall(r"`([\w/]+\.(?:h|cc))`: ((?:`\w+`(?:,|\sand)?\s*)+)", text)]
    places += [(path, [name]) for name, path in re.findall(r"`(\w+)`\sin\s`([\w/]+\.(?:h|cc))`", text)]
    for path, names in places:
        if (ROOT / path).exists():
            words = words_of(read(path))
            yield from (f"{document}: {path} has no {name}" for name in names if name not in words)


def citation_faults(files):
    """'docs/architecture.md, "Title"' in comments, also broken over lines."""
    titles = set(re.findall(r"^#+ (.*)", read(ARCHITECTURE), re.MULTILINE))
    for path, text in files:
        joined = re.sub(r"\n\s*(//|#) ?", " ", text)
        for title in re.findall(r'docs/architecture\.md, "([^"]*)"', joined):
            if title not in titles and path.name != "architecture_test.py":
                yield f"{path}: {ARCHITECTURE} has no section \"{title}\""


def main():
    files = list(sources())
    product, known, names = set(), set(), set()
    for path, text in files:
        names.add(path.name)
        if path.name != "architecture_test.py":
            known |= words_of(text)
        if path.suffix in ENDINGS and path.parts[0] not in NO_PRODUCT:
            product |= words_of(without_comments(text))
    faults = [*term_faults(product), *citation_faults(files)]
    for document in DOCUMENTS:
        faults += [*path_faults(document, names), *name_faults(document, known), *place_faults(document)]
    print("\n".join([*faults, f"{len(list(glossary()))} terms, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
