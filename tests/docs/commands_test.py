"""Every command that README.md, docs/ and tests/README.md show works as typed.

    commands_test.py BUILD_FOLDER

Commands are the lines of fenced blocks and the inline code that begin with one of our
programs. Each is handled by the first rule of RULES that matches it; a command without a rule
and a rule without a command are failures. Every --option in inline code is in the --help of
some program.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1]).resolve()
BIN = BUILD / "bin"

PROGRAMS = r"(\./run|lockstepctl|lockstepd|lockstep-perf|cmake|build/[\w.-]+/(bin/)?(run|demo|lockstep\S*|minimal|recovering|digits\w*))"
COMMAND = re.compile(PROGRAMS + r"( |$)")


@dataclass(frozen=True)
class Command:
    place: str  # FILE:LINE
    words: str


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")),
            ROOT / "tests/README.md"]


def numbered_code(text):
    """(line number, code, fenced) of each fenced line, continued lines joined, and inline code."""
    fenced, pending = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and line.endswith("\\"):
            pending += line[:-1]
        elif fenced:
            yield number, pending + line, True
            pending = ""
        else:
            for code in re.findall(r"`([^`]+)`", line):
                yield number, code, False


def commands():
    for document in documents():
        for number, code, _ in numbered_code(document.read_text()):
            code = re.sub(r"\s+#.*", "", code).strip()
            if COMMAND.match(code):
                yield Command(f"{document.relative_to(ROOT)}:{number}", " ".join(code.split()))


def options_in_documents():
    for document in documents():
        for number, code, fenced in numbered_code(document.read_text()):
            for option in [] if fenced else re.findall(r"(?<![\w-])--[a-z][\w-]*", code):
                yield f"{document.relative_to(ROOT)}:{number}", option


def run(words, **options):
    """Runs a bash command line in the checkout, with the programs of BUILD."""
    environment = {**os.environ, "LOCKSTEP_PRESET": BUILD.name, "LOCKSTEP_ADDRESS": "",
                   "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", words], env=environment, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **{"cwd": ROOT, **options})
    return done.returncode, done.stdout


def help_of(program, *words):
    code, text = run(shlex.join([program, *words, "--help"]))
    if code != 0:
        raise AssertionError(f"{program} {' '.join(words)} --help: exit {code}\n{text}")
    return text


def subcommands(text):
    """The names under "Subcommands:" of a CLI11 help."""
    return re.findall(r"^  (\w+) {2,}", text.partition("Subcommands:")[2], re.MULTILINE)


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def all_help():
    """{command as a tuple: its help}, for every program in the documents."""
    found = {("./run", name): help_of("./run", name)
             for name in ("demo", "test", "build", "package", "bench", "long", "lint", "gpu-bundle", "gpu-test")}
    found[("./run",)] = help_of("./run")
    for program in ("lockstepd", "lockstep-perf", "lockstep-demo", "digits", "digits_local",
                    "digits_pipe", "lockstepctl", "lockstep-conformance", "weather"):
        found[(program,)] = help_of(program)
    for name in subcommands(found[("lockstepctl",)]):
        found[("lockstepctl", name)] = help_of("lockstepctl", name)
        for below in subcommands(found[("lockstepctl", name)]):
            found[("lockstepctl", name, below)] = help_of("lockstepctl", name, below)
    return found


class CommandsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.help = all_help()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.scratch = Path(folder.name)
        (cls.scratch / "examples").symlink_to(ROOT / "examples")

    # The actions of rules on the commands that they match.

    def succeeds(self, words, **options):
        code, output = run(words, **options)
        self.assertEqual(code, 0, f"{words}\n{output}")
        return output

    def trains_a_little(self, words):
        """Through ./run, as typed, for fewer steps, unless a worker is killed: that is after 20."""
        if "--device cuda" in words:
            code, output = run(words + ("" if "--kill-worker" in words else " --steps 5"))
            self.assertIn(code, (0, 77), output)
            self.assertIn("demo: PASS" if code == 0 else "no GPU", output)
        else:
            self.assertTrue(self.succeeds(words + " --steps 10").endswith("demo: PASS\n"))

    def launches(self, words):
        self.succeeds(re.sub(r"build/\w+/bin/", f"{BIN}/", words))

    def plans(self, words):
        self.succeeds(words, cwd=self.scratch)

    def measures(self, words):
        """For two iterations, up to 64 KiB."""
        self.succeeds(words.replace("64M", "64K") + " -n 2 -w 1")

    def is_in_help(self, words):
        """A mention, or with placeholders: the subcommand exists and has the options."""
        program, *rest = words.split()
        path = (program.rpartition("/")[2] if "/bin/" in program else program,)
        for word in rest:
            if (*path, word) in self.help:
                path = (*path, word)
        shown = self.help.get(path) or self.help[path[:1]]
        self.assertLessEqual(options_of(words), options_of(shown) | options_of(self.help[path[:1]]))
        unknown = [w for w in rest[len(path) - 1:len(path)] if re.fullmatch("[a-z]+", w)]
        self.assertFalse(program == "lockstepctl" and unknown, f"lockstepctl has no {unknown}")

    def names_a_label(self, words):
        """./run test LABEL would run for minutes."""
        presets = [file.parent for file in BUILD.parent.glob("*/CTestTestfile.cmake")]
        labels = re.findall(r"LABELS \"([^\"]*)\"", "".join(
            file.read_text() for preset in presets for file in preset.rglob("CTestTestfile.cmake")))
        self.assertIn(words.split()[2], {name for some in labels for name in some.split(";")})

    def names_a_bench(self, words):
        """./run bench NAME would run for minutes."""
        name = words.split()[2].replace("-", "_") + "_bench"
        self.assertIn(f"build {name}: phony", (BUILD / "build.ninja").read_text())

    def names_a_bundled_program(self, words):
        """Runs on another machine; tests/run/gpu_bundle_test.py runs the bundle's script."""
        program, *names = words.split()
        name = names[0] if names else ""
        if not name or name.startswith(("demo", "-")) or "/demo/" in program:
            return
        script = (ROOT / "tools/run/gpu_bundle_run.sh").read_text()
        if re.search(rf"(^|[ |]){name}( \||\))", script, re.MULTILINE):
            return
        texts = "".join(file.read_text() for part in ("tests", "bench", "client")
                        for file in (ROOT / part).rglob("CMakeLists.txt"))
        self.assertRegex(texts, rf"lockstep_gpu_programs\([^)]*\b{name}\b")

    def names_a_preset(self, words):
        presets = self.succeeds("cmake --list-presets")
        for name in re.findall(r"--preset ([a-z]\w*)", words):
            self.assertIn(f'"{name}"', presets)

    def is_run_elsewhere(self, words):
        """By the test that the rule names."""


RULES = [
    # (pattern, method, why that is enough)
    (r"\./run demo --wire-dtype$", CommandsTest.is_in_help, "the option alone"),
    (r"\./run demo --state DIR", CommandsTest.is_run_elsewhere,
     "tests/client/checkpoint/python/demo_state_test.py"),
    (r"\./run demo --kill-worker ", CommandsTest.is_run_elsewhere,
     "the tests demo_kill_worker and demo_kill_worker_negotiated"),
    (r"\./run demo --ha$", CommandsTest.is_run_elsewhere, "the test demo_ha"),
    (r"\./run demo( |$)", CommandsTest.trains_a_little, "runs, with fewer steps"),
    (r"\./run test [a-z-]+$", CommandsTest.names_a_label, "minutes"),
    (r"\./run bench [a-z-]+$", CommandsTest.names_a_bench, "minutes"),
    (r"\./run (test|build|package|lint|long|gpu-test|gpu-bundle)( |$)", CommandsTest.is_in_help,
     "builds for minutes; CI does just that"),
    (r"build/\w+/bin/lockstepctl run ", CommandsTest.launches, "runs"),
    (r"lockstepctl plan \w+ .*(plan\.pb|\.yaml)", CommandsTest.plans, "runs"),
    (r"(lockstepctl|lockstepd)( |$)", CommandsTest.is_in_help, "a mention; tests/e2e runs them"),
    (r"lockstep-perf all_reduce -b", CommandsTest.measures, "runs, with smaller sizes"),
    (r"build/release/bin/lockstep-conformance ", CommandsTest.succeeds, "runs"),
    (r"lockstep-perf( |$)", CommandsTest.is_in_help, "wants a GPU"),
    (r"build/gpu-bundle/", CommandsTest.names_a_bundled_program, "wants a GPU"),
    (r"cmake --install ", CommandsTest.is_run_elsewhere, "tests/install/install_test.py"),
    (r"cmake .*--preset", CommandsTest.names_a_preset, "minutes"),
]


class DocumentsTest(CommandsTest):

    def test_every_command_works(self):
        unused = {pattern for pattern, _, _ in RULES}
        done = set()
        for command in commands():
            rule = next((r for r in RULES if re.match(r[0], command.words)), None)
            with self.subTest(command=command):
                self.assertIsNotNone(rule, "no rule says how this command is tested")
            if rule is None:
                continue
            unused.discard(rule[0])
            if command.words in done:
                continue
            done.add(command.words)
            with self.subTest(command=command):
                rule[1](self, command.words)
        self.assertEqual(unused, set(), "rules that match no command")

    def test_every_option_is_in_some_help(self):
        of_others = {"--install", "--prefix", "--build", "--preset", "--target",  # CMake's
                     "--tool"}  # Valgrind's
        known = set().union(of_others, *map(options_of, self.help.values()))
        for place, option in options_in_documents():
            with self.subTest(place=place):
                self.assertIn(option, known)

    def test_the_door_takes_what_the_demo_takes(self):
        shown = self.help[("./run", "demo")]
        program = self.help[("lockstep-demo",)]
        self.assertEqual(options_of(shown) | {"--help"}, options_of(program))
        for option in options_of(program) - {"--help"}:
            takes_value = re.search(rf"{option} +[A-Z]{{2,}}", program) is not None
            # ./run refuses the first unknown option before it builds: here not this one.
            code, output = run(f"./run demo {option} {'1' if takes_value else ''} --no-such-option")
            self.assertEqual(code, 2)
            self.assertIn("unknown argument '--no-such-option'", output)

    def test_readme_flags_of_the_demo_are_whole_commands(self):
        text = (ROOT / "README.md").read_text()
        self.assertEqual(re.findall(r"`(--[^`]*)`", text), [], "write ./run demo before them")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], defaultTest="DocumentsTest")
