#!/usr/bin/env python3
"""Seeded bugs: the simulation must notice each of them.

  mutants.py check               every patch applies to this source tree
  mutants.py run [--only NAME] [--seeds N] [--folder DIR]

Each NAME.patch beside this file breaks one rule of the product. Its first lines
say which:

  Rule: what the product promises, in one sentence.
  Bug: what the patch does instead.
  Noticed by: the promise of the simulation that is broken then.
  Program: session_sim_test      (if it is not training_sim_test)

`run` copies the source tree to DIR/tree (build/mutants), and builds and runs the
simulation there: first unchanged, which must pass, then with one patch after the
other. A patch is caught if the program fails because a promise is broken; it is
not if it passes, crashes or does not compile. Then `run` exits with 1, as it
does if a patch does not apply any more.

Rules that two places of the product keep have no patch: breaking one of them
breaks no promise. Nor have those that only cost time. Unit tests have both.
"""

import argparse
import fcntl
import filecmp
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PRESET = "release"
RUN_SECONDS_MAX = 600


class Mutant:
    """One patch and what its first lines say."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem
        self.fields = {}
        last = None
        for line in path.read_text().splitlines():
            if line.startswith(("diff ", "--- ")):
                break
            field = re.match(r"(Rule|Bug|Noticed by|Program): (.*)", line)
            if field:
                last = field[1]
                self.fields[last] = field[2]
            elif last and line.startswith("  "):
                self.fields[last] += " " + line.strip()
            else:
                raise SystemExit(f"{path}: \"{line}\" is neither a field (Rule, Bug, Noticed by, "
                                 "Program) nor the rest of one, indented")
        for field in ("Rule", "Bug", "Noticed by"):
            if not self.fields.get(field):
                raise SystemExit(f"{path}: its first lines have no \"{field}:\"")
        if self.program not in ("training_sim_test", "session_sim_test"):
            raise SystemExit(f"{path}: unknown Program \"{self.program}\"")

    @property
    def program(self):
        return self.fields.get("Program", "training_sim_test")

    def apply(self, tree, *options):
        """Returns git's complaint, or an empty text."""
        # The copy lies inside of a repository, whose paths are others.
        env = dict(os.environ, GIT_CEILING_DIRECTORIES=str(tree.parent))
        done = subprocess.run(["git", "apply", *options, str(self.path)], cwd=tree, env=env,
                              capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr.strip() or "git apply failed"

    def files(self):
        """The files that the patch changes."""
        return re.findall(r"^\+\+\+ b/(\S+)", self.path.read_text(), re.MULTILINE)


def mutants(only):
    found = {path.stem: Mutant(path) for path in sorted(HERE.glob("*.patch"))}
    for name in only:
        if name not in found:
            raise SystemExit(f"there is no mutant \"{name}\"; there are: {', '.join(found)}")
    return [found[name] for name in only] if only else list(found.values())


def check():
    broken = 0
    for mutant in mutants([]):
        complaint = mutant.apply(ROOT, "--check")
        if complaint:
            broken += 1
            print(f"{mutant.path.relative_to(ROOT)} does not apply any more: {complaint}\n"
                  "Write the bug into the new code, and save it with `git diff`.")
        elsewhere = [f for f in mutant.files() if f.startswith("tests/")]
        if elsewhere:
            broken += 1
            print(f"{mutant.path.relative_to(ROOT)} changes {elsewhere[0]}, which is no part of "
                  "the product")
    return 1 if broken else 0


class Copy:
    """A copy of the source tree, with a build folder of its own."""

    def __init__(self, folder):
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        self.build = self.tree / "build" / PRESET
        self.lock = open(folder / "lock", "w", encoding="utf-8")
        fcntl.flock(self.lock, fcntl.LOCK_EX)  # one run at a time

    def refresh(self):
        """Copies what has changed, so that only that is compiled."""
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
            capture_output=True, check=True).stdout.decode().split("\0")
        wanted = {name for name in names if name and (ROOT / name).is_file()}
        for path in list(self.tree.rglob("*")):
            name = str(path.relative_to(self.tree))
            if path.is_file() and name not in wanted and not name.startswith("build/"):
                path.unlink()
        for name in wanted:
            self.restore(name, only_if_changed=True)

    def restore(self, name, only_if_changed=False):
        """The file is newer than what was built of its mutant."""
        source, target = ROOT / name, self.tree / name
        if only_if_changed and target.exists() and filecmp.cmp(source, target, shallow=False):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)

    def compile(self, programs):
        """Returns the end of the output if it does not compile."""
        if not (self.build / "build.ninja").exists():
            # A precompiled header is another one in another folder, and what
            # is compiled with it is never found in a cache.
            subprocess.run(
                ["cmake", "--preset", PRESET, "--log-level=NOTICE", "-DLOCKSTEP_BENCHES=OFF",
                 "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DLOCKSTEP_WARNINGS_ARE_ERRORS=OFF"], cwd=self.tree, check=True,
                stdout=subprocess.DEVNULL)
        jobs = os.environ.get("LOCKSTEP_JOBS", str(os.cpu_count()))
        done = subprocess.run(["cmake", "--build", "--preset", PRESET, "-j", jobs, "--target",
                               *sorted(programs)], cwd=self.tree, capture_output=True, text=True,
                              check=False)
        return "" if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]

    def run(self, program, seeds):
        """Returns (caught, seed, what happened)."""
        env = dict(os.environ, LOCKSTEP_SIM_SEEDS=str(seeds))
        env.pop("LOCKSTEP_SIM_SEED", None)
        arguments = [str(self.build / "bin" / program)]
        if program == "training_sim_test":
            arguments.append("--gtest_filter=TrainingSimTest.EveryHistoryKeepsItsPromises")
        try:
            done = subprocess.run(arguments, env=env, capture_output=True, text=True,
                                  errors="replace", timeout=RUN_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            return False, None, f"did not end within {RUN_SECONDS_MAX} s"
        if done.returncode == 0:
            return False, None, ""
        if done.returncode < 0:
            return False, None, f"died of signal {-done.returncode}: {done.stderr.strip()[-300:]}"
        promise = re.search(r"^seed (\d+)(: |, )(.*)$", done.stdout, re.MULTILINE)
        if done.returncode != 1 or not promise:
            return False, None, f"failed without a broken promise: {done.stdout[-1000:]}"
        what = promise[3]
        if program == "session_sim_test":
            what = re.search(r"\[  FAILED  \] (\S+)", done.stdout)[1]
        return True, int(promise[1]), what


def judge(mutant, copy, seeds):
    """Returns (caught, seed, what happened)."""
    complaint = mutant.apply(copy.tree)
    if complaint:
        return False, None, f"the patch does not apply: {complaint}"
    try:
        complaint = copy.compile({mutant.program})
        if complaint:
            return False, None, f"it does not compile: {complaint}"
        caught, seed, what = copy.run(mutant.program, seeds)
        return caught, seed, what or f"SURVIVED {seeds} seeds"
    finally:
        for name in mutant.files():
            copy.restore(name)


def run(only, seeds, folder):
    chosen = mutants(only)
    copy = Copy(folder)
    copy.refresh()
    programs = {mutant.program for mutant in chosen}
    started = time.monotonic()
    complaint = copy.compile(programs)
    if complaint:
        print(f"the unchanged copy in {copy.tree} does not compile: {complaint}")
        return 1
    for program in sorted(programs):
        caught, seed, what = copy.run(program, seeds)
        if caught or what:
            print(f"without a bug {program} fails"
                  f"{'' if seed is None else f' at seed {seed}'}: {what}")
            return 1
    print(f"unchanged: {' and '.join(sorted(programs))} pass, {seeds} seeds, "
          f"{time.monotonic() - started:.0f} s\n")
    print(f"{'mutant':<36} {'seeds':>6} {'seconds':>8}  rule, and what was noticed")
    survivors = []
    for mutant in chosen:
        started = time.monotonic()
        caught, seed, what = judge(mutant, copy, seeds)
        if not caught:
            survivors.append(mutant.name)
        print(f"{mutant.name:<36} {'-' if seed is None else seed:>6} "
              f"{time.monotonic() - started:>8.1f}  {mutant.fields['Rule']}\n"
              f"{'':<54}{'' if caught else 'NOT CAUGHT: '}{what}", flush=True)
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} seeded bugs are caught")
    if survivors:
        print(f"not caught: {', '.join(survivors)}")
    return 1 if survivors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    runs = commands.add_parser("run")
    runs.add_argument("--only", action="append", default=[], metavar="NAME")
    runs.add_argument("--seeds", type=int, default=2000)
    runs.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutants")
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check()
    if arguments.seeds < 1:
        parser.error(f"--seeds wants a number of at least 1, got {arguments.seeds}")
    return run(arguments.only, arguments.seeds, arguments.folder.resolve())


if __name__ == "__main__":
    sys.exit(main())
