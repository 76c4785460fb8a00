"""Runs fuzz targets on their corpora and on mutants of them, as many at once as there are cores.

    run_fuzz.py BIN_FOLDER --seconds N [--seed S] [TARGET ...]

Without a TARGET all of them. Fails if one finds a fault, and names the file with the input that
shows it: put that into tests/fuzz/corpus/TARGET, beside the correction. The programs of the preset
fuzz are libFuzzer's: they keep inputs that reach new code in build/fuzz/corpus, for the next run.
"""

import argparse
import concurrent.futures
import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

CORPORA = Path(__file__).resolve().parent / "corpus"
INPUT_BYTES_MAX = 8192
INPUT_SECONDS_MAX = 10
MEMORY_MIB_MAX = 2048


def start(command, **variables):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env={**os.environ, **variables}, check=False)
    return done.returncode, done.stdout


def run_libfuzzer(target, program, arguments, crashes):
    kept = arguments.bin.parent / "corpus" / target
    kept.mkdir(parents=True, exist_ok=True)
    return start([program, f"-max_total_time={arguments.seconds}", f"-seed={arguments.seed}",
                  f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_SECONDS_MAX}",
                  f"-rss_limit_mb={MEMORY_MIB_MAX}", f"-artifact_prefix={crashes}/{target}-",
                  "-print_final_stats=1", kept, CORPORA / target])


def run_mutating(target, program, arguments, crashes):
    last = crashes / f"{target}-last"
    code, output = start(
        [program, CORPORA / target, str(arguments.seconds), str(arguments.seed), last],
        ASAN_OPTIONS=f"hard_rss_limit_mb={MEMORY_MIB_MAX}")
    if code != 0 and last.exists():
        bytes_ = last.read_bytes()
        size = struct.unpack("<Q", bytes_[:8])[0]
        crash = crashes / f"{target}-crash-{arguments.seed}"
        crash.write_bytes(bytes_[8:8 + size])
        output += f"\nthe input is in {crash}\n"
    return code, output


def run(target, arguments):
    """(target, exit code, output)."""
    crashes = arguments.bin.parent / "crashes"
    crashes.mkdir(exist_ok=True)
    program = arguments.bin / f"{target}_fuzz"
    is_libfuzzer = arguments.bin.parent.name == "fuzz"
    how = run_libfuzzer if is_libfuzzer else run_mutating
    return target, *how(target, program, arguments, crashes)


def summary(output):
    executions = re.search(r"number_of_executed_units: *(\d+)", output)
    edges = re.findall(r"cov: (\d+)", output)
    return (f"{executions[1] if executions else 'unknown'} inputs"
            f"{f', {edges[-1]} edges reached' if edges else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=lambda text: Path(text).resolve())
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    arguments = parser.parse_intermixed_args()
    known = sorted(path.name for path in CORPORA.iterdir())
    unknown = set(arguments.targets) - set(known)
    if unknown:
        print(f"no fuzz target {', '.join(sorted(unknown))}; there are: {', '.join(known)}",
              file=sys.stderr)
        return 2
    targets = arguments.targets or known
    print(f"seed {arguments.seed}", flush=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        for target, code, output in threads.map(lambda name: run(name, arguments), targets):
            print(f"{target}: {'ok' if code == 0 else f'FAILED ({code})'}: {summary(output)}",
                  flush=True)
            if code != 0:
                failed = True
                print(output[-20000:], flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
