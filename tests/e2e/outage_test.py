"""Kills the coordinator of a job that trains, and starts it again later: no step may fail.

    outage_test.py BIN_FOLDER [--seconds N] [--workers N] [--compute_ms N]

lockstepd has a journal, the spec has no timeouts of its own. For N seconds (3) there is no
coordinator; each worker (trouble_worker) computes for a time, submits its gradient, and waits for
the others. Prints, of the time before, during and after the outage, the steps of all ranks, their
rate, and the longest time in which a rank began no step; then the failed steps, and how long after the
daemon's start all workers had resumed. Exits with 1 if a step failed, a worker was lost or started
again, a rank began no step for as many seconds as there are workers, or the ranks did not end with the same step.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIMIT_S = 120
SPEC = """name: outage
mesh: data={workers}
"""


class Worker:
    """A process, and the times at which its steps began."""

    def __init__(self, binaries, name, environment, compute_ms):
        self.name, self.begun, self.other_lines = name, [], []
        self.process = subprocess.Popen(
            [binaries / "trouble_worker", "100000000", f"compute={compute_ms}"], text=True,
            env={**environment, "LOCKSTEP_WORKER_NAME": name, "PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("at "):
                self.begun.append(time.monotonic())
            else:
                self.other_lines.append(line.strip())

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Outage:
    def __init__(self, options, folder):
        self.binaries, self.size = options.binaries.resolve(), options.workers
        self.folder, self.daemon, self.address, self.workers = folder, None, None, []
        self.faults = []

    # --- Processes ---

    def start_daemon(self):
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        with open(self.folder / "lockstepd.log", "a", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [self.binaries / "lockstepd", "--listen", self.address or "127.0.0.1:0", "--port_file", port,
                 "--journal", self.folder / "journal"], stdout=subprocess.DEVNULL, stderr=log)
        self.await_that(lambda: port.exists() or self.daemon.poll() is not None, "lockstepd starts")
        if self.daemon.poll() is not None:
            raise RuntimeError((self.folder / "lockstepd.log").read_text())
        self.address = port.read_text().strip()

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def start_workers(self, compute_ms):
        spec = self.folder / "spec.yaml"
        spec.write_text(SPEC.format(workers=self.size))
        environment = {"LOCKSTEP_ADDRESS": self.address, "LOCKSTEP_JOB": "outage",
                       "LOCKSTEP_WORLD_SIZE": str(self.size), "LOCKSTEP_SPEC": str(spec)}
        for i in range(self.size):
            self.workers.append(Worker(self.binaries, f"worker-{i}", environment, compute_ms))

    def end(self):
        for worker in self.workers:
            worker.end()
        self.kill_daemon()

    # --- Queries ---

    def ctl(self, *words):
        return subprocess.run([self.binaries / "lockstepctl", "--address", self.address, *words],
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)

    def job(self):
        said = self.ctl("describe", "outage", "--json")
        return json.loads(said.stdout) if said.returncode == 0 else {}

    def all_are_ready(self):
        return [worker["state"] for worker in self.job().get("workers", [])] == ["ready"] * self.size

    def await_that(self, holds, what):
        deadline = time.monotonic() + LIMIT_S
        while not holds():
            ended = [worker.name for worker in self.workers if worker.process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not in time; ended: {ended}; " + self.last_lines())
            time.sleep(0.02)

    def last_lines(self):
        return "; ".join(f"{worker.name}: {worker.other_lines[-3:]}" for worker in self.workers)

    # --- The test ---

    def expect(self, holds, fault):
        if not holds:
            self.faults.append(fault)

    def train(self, seconds):
        """Lets the workers train for a time; returns its begin and its end."""
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            if any(worker.process.poll() is not None for worker in self.workers):
                break
            time.sleep(0.05)
        return begin, time.monotonic()

    def report(self, when, begin, end):
        steps, longest = [], 0.0
        for worker in self.workers:
            begun = [moment for moment in worker.begun if begin <= moment < end]
            steps.append(len(begun))
            moments = [begin, *begun, end]
            longest = max([longest, *(b - a for a, b in zip(moments, moments[1:]))])
        print(f"{when:7} {end - begin:6.1f} s: {min(steps)} to {max(steps)} steps of each rank, "
              f"{sum(steps) / self.size / (end - begin):.1f} a second; longest without a step {longest:.3f} s",
              flush=True)
        self.expect(min(steps) > 0, f"{when}: a rank began no step")
        self.expect(longest < self.size, f"{when}: a rank began no step for {longest:.3f} s")

    def play(self, seconds):
        settled = max(1.0, min(10.0, seconds / 3))
        self.await_that(lambda: all(worker.begun for worker in self.workers), "the first step")
        before = self.train(settled)
        self.kill_daemon()
        during = self.train(seconds)
        started = time.monotonic()
        self.start_daemon()
        self.await_that(self.all_are_ready, "all workers resume")
        resumed = time.monotonic()
        self.train(settled)
        after = (started, time.monotonic())
        job = self.job()
        for when, span in (("before", before), ("during", during), ("after", after)):
            self.report(when, *span)
        print(f"all workers had resumed {resumed - started:.2f} s after the daemon's start", flush=True)
        self.expect(job["epoch"] == 1, f"the job is in epoch {job['epoch']}")
        self.expect({worker["generation"] for worker in job["workers"]} == {1}, "a worker joined twice")
        self.expect(self.ctl("stop", "outage").returncode == 0, "the job cannot be stopped")

    def judge(self):
        for worker in self.workers:
            try:
                worker.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.faults.append(f"{worker.name} does not end")
            worker.end()
        failed = [worker for worker in self.workers
                  if any(line.startswith("error ") for line in worker.other_lines)]
        for worker in self.workers:
            self.expect(worker.process.returncode == 0 and worker.other_lines[-1:] == ["done"],
                        f"{worker.name}: code {worker.process.returncode}: {worker.other_lines[-3:]}")
        lasts = [match[1] for worker in self.workers for line in worker.other_lines
                 if (match := re.fullmatch(r"last (\d+)", line))]
        self.expect(len(lasts) == self.size and len(set(lasts)) == 1,
                    f"the ranks did not end with the same step: {lasts}")
        print(f"failed steps: {len(failed)}; last step of all ranks: {', '.join(sorted(set(lasts)))}", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binaries", type=Path)
    arguments.add_argument("--seconds", type=float, default=3)
    arguments.add_argument("--workers", type=int, default=4)
    arguments.add_argument("--compute_ms", type=int, default=20)
    options = arguments.parse_args()
    print(f"{options.workers} workers, {options.seconds:g} s without a coordinator", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        outage = Outage(options, Path(folder))
        try:
            outage.start_daemon()
            outage.start_workers(options.compute_ms)
            outage.play(options.seconds)
            outage.judge()
        finally:
            outage.end()
    for fault in outage.faults:
        print(f"FAILED: {fault}", flush=True)
    return 1 if outage.faults else 0


if __name__ == "__main__":
    sys.exit(main())
