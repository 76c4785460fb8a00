"""Kills workers at random moments, and measures until every survivor knows.

    kill_latency_test.py BIN_FOLDER [--kills N] [--workers N] [--transport T] [--seed S]
                         [--limit_ms MS] [--fork] [--fault kill | stop | cut] [--lease_ms MS]

Each round kills one worker (tests/e2e/watched_worker.cc, SIGKILL): between Join and Seal, while all compute
and nobody waits in a transport, and while steps follow each other; then it starts again. No launcher reports
the death. Prints, for each of these phases and for all kills, the time from SIGKILL until the last survivor's
session knows that the epoch has ended: p50, p99, maximum.

--fault stop: SIGSTOP instead of SIGKILL. --fault cut: each worker is on a host of its own, made of namespaces
(tests/e2e/separate_hosts.py), and all packets from and to one of them are dropped; the transport is gloo. The
lease and the limit of a silent link are then --lease_ms (2000), and the times are also printed in leases.

--fork: each worker has a child of its own that sleeps with all its sockets, so that these stay open when it
dies. --limit_ms: a fault that was known later fails the test (800; 1.5 leases for stop and cut).
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import separate_hosts

LIMIT_S = 120
HOLD_S = 0.3
PHASES = ("before Seal", "all compute", "in steps")  # by the number of the epoch, mod 3
SPEC = """name: watched
mesh: data={workers}
data_plane: trusted
transport: {transport}
limits: {{max_restarts: 1000000}}
"""
SILENCE = "timeouts: {{lease: {lease}ms, link: {lease}ms}}\n"


class Worker:
    """A process, and the times in seconds at which it said "WHAT EPOCH"."""

    def __init__(self, job, name):
        self.job, self.name, self.said = job, name, {}
        env = {"LOCKSTEP_ADDRESS": job.address, "LOCKSTEP_JOB": "watched", "LOCKSTEP_SPEC": str(job.spec),
               "LOCKSTEP_WORKER_NAME": name, "PATH": os.environ["PATH"]}
        if job.hosts:
            env["LOCKSTEP_HOST_ADDRESS"] = job.hosts.address(int(name.split("-")[1]))
        if job.fork:
            env["LOCKSTEP_TEST_FORK"] = "1"
        self.process = subprocess.Popen(
            [*job.prefix(name), job.binaries / "watched_worker", str(int(HOLD_S * 1000))], text=True, env=env,
            process_group=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            with self.job.changed:
                if len(words) == 3 and words[0] in ("joined", "step", "known"):
                    self.said[words[0], int(words[1])] = int(words[2]) / 1e9
                    self.job.epoch = max(self.job.epoch, int(words[1]))
                else:
                    self.job.trouble.append(f"{self.name}: {line.strip()}")
                self.job.changed.notify_all()

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Job:
    def __init__(self, options, folder):
        self.binaries, self.size, self.fork = options.binaries.resolve(), options.workers, options.fork
        self.fault = options.fault
        self.hosts = separate_hosts.SeparateHosts(self.size) if self.fault == "cut" else None
        self.changed, self.trouble, self.epoch = threading.Condition(), [], 0
        self.workers = {}
        port = folder / "port"
        listen = [f"{separate_hosts.OUTSIDE}:0", "--insecure"] if self.hosts else ["127.0.0.1:0"]
        self.daemon = subprocess.Popen([self.binaries / "lockstepd", "--port_file", port, "--listen", *listen],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_S
        while not port.exists():
            assert time.monotonic() < deadline and self.daemon.poll() is None, "lockstepd does not start"
            time.sleep(0.01)
        self.address = port.read_text().strip()
        self.spec = folder / "spec.yaml"
        transport = "gloo" if self.hosts else options.transport
        text = SPEC.format(workers=self.size, transport=transport)
        self.spec.write_text(text if self.fault == "kill" else text + SILENCE.format(lease=options.lease_ms))

    def prefix(self, name):
        """Of the command of a worker: where it runs."""
        return self.hosts.prefix(int(name.split("-")[1])) if self.hosts else []

    def strike(self, victim):
        if self.fault == "cut":
            self.hosts.cut(int(victim.name.split("-")[1]))
        else:
            # Not its group: a forked child lives on with its sockets.
            os.kill(victim.process.pid, signal.SIGSTOP if self.fault == "stop" else signal.SIGKILL)

    def start(self, name):
        self.workers[name] = Worker(self, name)

    def wait(self, what, holds):
        with self.changed:
            done = self.changed.wait_for(lambda: self.trouble or holds(), LIMIT_S)
            said = {worker.name: list(worker.said.items())[-3:] for worker in self.workers.values()}
            assert done and not self.trouble, (what, self.trouble, said)

    def end(self):
        for worker in self.workers.values():
            worker.end()
        self.daemon.kill()
        self.daemon.wait()
        if self.hosts:
            self.hosts.end()


def play(job, kills, dice):
    """The times of detection, by phase."""
    names = [f"worker-{i}" for i in range(job.size)]
    for name in names:
        job.start(name)
    times = {phase: [] for phase in PHASES}
    last = 0
    for _ in range(kills):
        job.wait("the next epoch", lambda: job.epoch > last)
        epoch = job.epoch
        phase = PHASES[epoch % 3]
        if phase != "before Seal":
            # The child must be there before its parent dies.
            job.wait("the first step", lambda: all(("step", epoch) in w.said for w in job.workers.values()))
        time.sleep(dice.uniform(0, 0.8 * HOLD_S))
        victim = job.workers[dice.choice(names)]
        others = [worker for worker in job.workers.values() if worker is not victim]
        killed = time.monotonic()
        job.strike(victim)
        job.wait("the end", lambda: all(("known", epoch) in w.said for w in others))
        times[phase].append(max(worker.said["known", epoch] for worker in others) - killed)
        last = epoch
        victim.end()
        if job.hosts:
            job.hosts.heal()
        job.start(victim.name)
    return times


def quantile(seconds, share):
    return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binaries", type=Path)
    arguments.add_argument("--kills", type=int, default=6)
    arguments.add_argument("--workers", type=int, default=3)
    arguments.add_argument("--transport", default="auto")
    arguments.add_argument("--fork", action="store_true")
    arguments.add_argument("--limit_ms", type=float,
                           help="a killed worker: 800, its stream takes 1000; else 1.5 leases")
    arguments.add_argument("--fault", choices=("kill", "stop", "cut"), default="kill")
    arguments.add_argument("--lease_ms", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = arguments.parse_args()
    if options.fault == "cut":
        separate_hosts.enter()
    limit_ms = options.limit_ms or (800 if options.fault == "kill" else 1.5 * options.lease_ms)
    print(f"{options.workers} workers, transport {options.transport}, {options.kills} times {options.fault}, "
          f"seed {options.seed}, load average {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(options, Path(folder))
        try:
            times = play(job, options.kills, random.Random(options.seed))
        finally:
            job.end()
    times["all"] = [seconds for phase in PHASES for seconds in times[phase]]
    for phase, seconds in times.items():
        if seconds:
            print(f"{phase + ':':14} p50 {1e3 * quantile(seconds, .5):6.1f} ms, p99 "
                  f"{1e3 * quantile(seconds, .99):6.1f} ms, longest {1e3 * max(seconds):6.1f} ms "
                  f"({len(seconds)})")
    if options.fault != "kill":
        lease = options.lease_ms / 1e3
        print(f"in leases:     p50 {quantile(times['all'], .5) / lease:.2f}, p99 "
              f"{quantile(times['all'], .99) / lease:.2f}, longest {max(times['all']) / lease:.2f}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    late = [seconds for seconds in times["all"] if seconds * 1e3 > limit_ms]
    assert not late, f"{len(late)} took longer than {limit_ms} ms: {late}"


if __name__ == "__main__":
    sys.exit(main())
