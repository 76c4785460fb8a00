"""Kills jobs that save checkpoints, at random moments, and goes on from what is on the disk.

    chaos_checkpoint_test.py BIN_FOLDER [--kills N] [--seed S]

Each round starts a coordinator and 1 to 4 workers (tests/e2e/checkpoint_worker.cc), which load the
newest checkpoint, compare every bit with what that step must have, and save after each step. Then
SIGKILL ends all of them, or first one worker alone. After each kill: every committed checkpoint
is whole, none is older than one that a worker was told is committed, and no step is invented.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

START_LIMIT_S = 60
KEPT_MAX = 2  # CheckpointerOptions::keep_last


def environment(directory):
    """Killed launchers leave the files of their tokens behind: in a folder of the test's own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}
    return {**kept, "XDG_RUNTIME_DIR": directory}


class Job:
    """A coordinator with its workers, in a session of its own."""

    def __init__(self, binaries, workers, directory):
        self.loaded, self.saved, self.steps = [], [], 0
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [binaries / "lockstepctl", "run", "-n", str(workers), "--",
             binaries / "checkpoint_worker", directory],
            env=environment(directory), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip())
                for word, numbers in (("loaded", self.loaded), ("saved", self.saved)):
                    if match := re.search(rf"\b{word} (\d+)$", line.strip()):
                        numbers.append(int(match[1]))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("(end)")
            self.changed.notify_all()

    def wait_for_a_save(self):
        """False if the job ended before it saved."""
        with self.changed:
            self.changed.wait_for(lambda: self.saved or "(end)" in self.lines, START_LIMIT_S)
            return bool(self.saved)

    def workers(self):
        """Process numbers of the workers."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                name = (folder / "comm").read_text().strip()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid and name.startswith("checkpoint_work"):
                found.append(int(folder.name))
        return found

    def kill_session(self):
        """SIGKILL for all processes of the session, until none is left."""
        while True:
            alive = []
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    alive.append(int(folder.name))
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
            if not alive:
                break
            time.sleep(0.002)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def list_steps(binaries, directory):
    """The steps of the committed checkpoints, each of which is verified."""
    done = subprocess.run([binaries / "lockstepctl", "checkpoint", "verify", "--all", directory],
                          env=environment(directory), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = Path(directory, "checkpoints").glob("step-*")
    return sorted(int(folder.name.split("-")[1]) for folder in folders
                  if (folder / "MANIFEST.json").exists())


def play(binaries, kills, seed):
    print(f"seed {seed}, {kills} kills", flush=True)
    dice = random.Random(seed)
    promised, newest, saves = 0, 0, 0
    with tempfile.TemporaryDirectory() as directory:
        for kill in range(kills):
            workers = dice.randint(1, 4)
            job = Job(binaries, workers, directory)
            try:
                assert job.wait_for_a_save(), "the job saved nothing"
                time.sleep(dice.uniform(0, 0.15))
                if dice.random() < 0.25:
                    os.kill(dice.choice(job.workers()), signal.SIGKILL)
                    time.sleep(dice.uniform(0, 0.02))
            finally:
                job.kill_session()
                if not job.saved or len(set(job.loaded)) > 1:
                    print("\n".join(job.lines))
            if newest:
                assert set(job.loaded) == {newest}, (kill, newest, job.loaded, job.lines)
            saves += max(job.saved) - newest
            promised = max(promised, *job.saved)
            steps = list_steps(binaries, directory)
            assert steps and steps[-1] >= promised, (kill, steps, promised, job.lines)
            # A save that was in progress may have committed without a word of it.
            assert steps[-1] <= promised + 2, (kill, steps, promised, job.lines)
            assert len(steps) <= KEPT_MAX + 2, (kill, steps)
            newest = steps[-1]
            if (kill + 1) % 100 == 0:
                print(f"{kill + 1} kills, {saves} saves, step {newest}", flush=True)
    print(f"{kills} kills, {saves} saves: every checkpoint is whole, none was lost")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binaries", type=Path)
    arguments.add_argument("--kills", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = arguments.parse_args()
    play(options.binaries.resolve(), options.kills, options.seed)


if __name__ == "__main__":
    sys.exit(main())
