"""docs/errors.md has only codes that the sources return.

    errors_test.py SOURCE_FOLDER

A row that begins with a code quotes a message. The longest run of its words that is in a
string of the sources must exist, and a status of that code must be made around it.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
FOLDERS = ("base", "plan", "proto", "server", "client", "tools")
CODES = ("CANCELLED", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
         "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
         "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
         "UNAUTHENTICATED")
WORDS_MIN = 2  # in a run of words that identifies a message

# Messages whose code is not beside the text: where it is.
MADE_ELSEWHERE = {
    "by an operator": ("CANCELLED", "client/session/cause.cc", "kStopped"),
    "ranks register it differently": (
        "INVALID_ARGUMENT", "plan/state/declared_state.cc", "absl::Status Refuse"),
    "elements are held by no rank": (
        "INVALID_ARGUMENT", "plan/state/state.cc", "absl::Status Invalid("),
    "different slices that overlap": (
        "INVALID_ARGUMENT", "plan/state/state.cc", "absl::Status Invalid("),
    "another job uses": (
        "FAILED_PRECONDITION", "client/state/saver.cc", "FailedPreconditionError(faults"),
    "this rank does not see the directory": (
        "FAILED_PRECONDITION", "client/state/saver.cc", "FailedPreconditionError(faults"),
    "kernel, for the first": ("INTERNAL", "client/transport/nccl/gpu_status.cc", "Internal"),
}


def sources():
    """Path and text of each source, adjacent string literals joined."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h"):
                yield path, re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))


def quoted_messages():
    """(line, code, message) of each row that begins with a code."""
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\| `(%s): (.*)" % "|".join(CODES), line)
        if match:
            yield number, match[1], match[2].split(" | ")[0]


def runs(message):
    """The message's runs of words, longest first; placeholders, code marks and "..." end a run."""
    message = re.split(r"`, `", message)[0]
    parts = re.split(r"`?\*[^*`]+\*?`?|…|`|\(|\)", message)
    words = [part.strip(" ,;").split() for part in parts]
    found = {" ".join(part[begin:end]) for part in words for begin in range(len(part))
             for end in range(begin + WORDS_MIN, len(part) + 1)}
    found |= {word for part in words for word in part if "::" in word}
    return sorted(found, key=len, reverse=True)


def camel(code):
    return "".join(word.capitalize() for word in code.split("_"))


STATUS = re.compile(r"(\w+)Error\(|StatusCode::k(\w+)")


def codes_around(text, at):
    """Codes of the statuses that are made just before and just after a place."""
    before = STATUS.findall(text[max(0, at - 600):at])[-1:]
    after = STATUS.findall(text[at:at + 900])[:1]
    return {a or b for a, b in before + after}


def fault(code, message, files):
    for run in runs(message):
        places = [(path, text, match.start()) for path, text in files
                  for match in re.finditer(re.escape(run), text)]
        if not places:
            continue
        for path, text, at in places:
            if camel(code) in codes_around(text, at):
                return None
        for part, (known, file, word) in MADE_ELSEWHERE.items():
            if part in run and known == code and word in (ROOT / file).read_text(encoding="utf-8"):
                return None
        where = ", ".join(str(path.relative_to(ROOT)) for path, _, _ in places)
        return f"'{run}' is in {where}, without {code}"
    return "no two words in a row of it are in the sources"


def main():
    files = list(sources())
    rows = list(quoted_messages())
    faults = [(number, why) for number, code, message in rows
              if (why := fault(code, message, files))]
    for number, why in faults:
        print(f"docs/errors.md:{number}: {why}")
    print(f"{len(rows)} rows with a code, {len(faults)} faults")
    return 1 if faults or len(rows) < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
