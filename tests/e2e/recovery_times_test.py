"""Kills workers of an elastic job again and again, and says how long training stands still.

    recovery_times_test.py BIN_FOLDER [--kills N] [--workers N] [--mib M] [--seed S]

Each round kills one worker (tests/e2e/timed_worker.cc, SIGKILL) at a random moment: the others go on
without it. Then it starts again, and the job grows. No launcher reports the death: the survivors
detect it. Prints, of all rounds, median and maximum in seconds:

    known       SIGKILL to the last survivor's failed step call
    joined again, sealed, resumed
                SIGKILL to the last survivor's return from Join, Seal, Resume
    shrunk      SIGKILL to the last survivor's next applied step
    joined      start of the replacement's process to its first applied step
    grown       the same to the last worker's
    a step      of the slowest worker, for comparison
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIMIT_S = 120
SPEC = """name: timed
mesh: data={workers}
elastic: {{axis: data}}
limits: {{max_restarts: 1000000}}
"""


class Worker:
    """A process, and what it said: lists of words, the last one a time in seconds."""

    def __init__(self, job, name):
        self.job, self.name, self.said = job, name, []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [job.binaries / "timed_worker", str(job.mib)], text=True,
            env={"LOCKSTEP_ADDRESS": job.address, "LOCKSTEP_JOB": "timed", "LOCKSTEP_SPEC": str(job.spec),
                 "LOCKSTEP_WORKER_NAME": name, "LOCKSTEP_WORLD_SIZE": str(job.size),
                 "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            with self.job.changed:
                if words[0] in ("ended", "joined", "sealed", "resumed", "step", "second"):
                    self.said.append([*words[:-1], int(words[-1]) / 1e9])
                else:
                    self.job.trouble.append(f"{self.name}: {line.strip()}")
                self.job.changed.notify_all()

    def time_of(self, what, since, world=None):
        """Of the first such line after a time, or None."""
        for words in self.said:
            if words[0] != what or words[-1] <= since:
                continue
            if world is None or words[2] == str(world):
                return words[-1]
        return None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Job:
    def __init__(self, binaries, size, mib, folder):
        self.binaries, self.size, self.mib = binaries, size, mib
        self.changed, self.trouble = threading.Condition(), []
        self.workers = {}
        port = folder / "port"
        self.daemon = subprocess.Popen([binaries / "lockstepd", "--listen", "127.0.0.1:0", "--port_file", port],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_S
        while not port.exists():
            assert time.monotonic() < deadline and self.daemon.poll() is None, "lockstepd does not start"
            time.sleep(0.01)
        self.address = port.read_text().strip()
        self.spec = folder / "spec.yaml"
        self.spec.write_text(SPEC.format(workers=size))

    def start(self, name):
        self.workers[name] = Worker(self, name)
        return self.workers[name]

    def times(self, what, workers, since, world=None):
        """Waits until each of the workers has said this after a time."""

        def found():
            return [worker.time_of(what, since, world) for worker in workers]

        with self.changed:
            done = self.changed.wait_for(lambda: self.trouble or all(found()), LIMIT_S)
            said = {worker.name: worker.said[-6:] for worker in workers}
            assert done and not self.trouble, (what, since, world, self.trouble, said)
            return found()

    def end(self):
        for worker in self.workers.values():
            worker.end()
        self.daemon.kill()
        self.daemon.wait()


def play(job, kills, dice):
    names = [f"worker-{i}" for i in range(job.size)]
    for name in names:
        job.start(name)
    times = {"known": [], "joined again": [], "sealed": [], "resumed": [], "shrunk": [], "joined": [], "grown": [], "a step": [], "a step with one less": []}
    began = 0

    def a_step(workers, since, world):
        firsts = job.times("step", workers, since, world)
        seconds = job.times("second", workers, since, world)
        return max(b - a for a, b in zip(firsts, seconds))

    for _ in range(kills):
        times["a step"].append(a_step(job.workers.values(), began, job.size))
        time.sleep(dice.uniform(0, 2 * times["a step"][-1]))
        victim = dice.choice(names)
        others = [worker for name, worker in job.workers.items() if name != victim]
        killed = time.monotonic()
        os.kill(job.workers[victim].process.pid, signal.SIGKILL)
        times["known"].append(max(job.times("ended", others, killed)) - killed)
        for what, word in (("joined again", "joined"), ("sealed", "sealed"), ("resumed", "resumed")):
            times[what].append(max(job.times(word, others, killed, job.size - 1)) - killed)
        times["shrunk"].append(max(job.times("step", others, killed, job.size - 1)) - killed)
        job.workers[victim].end()
        times["a step with one less"].append(a_step(others, killed, job.size - 1))
        replacement = job.start(victim)
        began = replacement.began
        times["joined"].append(job.times("step", [replacement], began, job.size)[0] - began)
        times["grown"].append(max(job.times("step", job.workers.values(), began, job.size)) - began)
    for what, seconds in times.items():
        print(f"{what + ':':22} median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s "
              f"({len(seconds)} times)")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binaries", type=Path)
    arguments.add_argument("--kills", type=int, default=2)
    arguments.add_argument("--workers", type=int, default=3)
    arguments.add_argument("--mib", type=int, default=1)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = arguments.parse_args()
    print(f"{options.workers} workers, a model of {options.mib} MiB, {options.kills} kills, seed {options.seed}",
          flush=True)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options.binaries.resolve(), options.workers, options.mib, Path(folder))
        try:
            play(job, options.kills, random.Random(options.seed))
        finally:
            job.end()


if __name__ == "__main__":
    sys.exit(main())
