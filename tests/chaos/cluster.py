"""A job under test: a daemon with a journal on a small disk of its own, a relay, workers on two hosts."""

import json
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import hosts

LIMIT_S = 120
LEASE_S = 2.0
DISK_BYTES = 32 << 20  # room for the journal of many epochs of 16 workers
# Faults are not related: three broken links within restart_window would send a member away.
SPEC = """name: chaos
mesh: data={workers}
elastic: {{axis: data}}
data_plane: trusted
limits: {{max_restarts: 1000000, restart_window: 100ms}}
timeouts: {{join: 60s, lease: 2s, resume: 1s, link: 2s, connect: 10s}}
"""


class Violation(Exception):
    """A promise was broken."""


class Relay:
    def __init__(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([sys.executable, Path(__file__).with_name("relay.py")], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        with self.lock:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            answer = self.process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"the relay ended at {words}")
        return int(answer) if answer.isdigit() else answer

    def end(self):
        self.process.kill()
        self.process.wait()


class Event:
    """A line of a worker: what, epoch, world, time in seconds, the rest."""

    def __init__(self, line):
        self.what, epoch, world, at, *rest = line.split(maxsplit=4)
        self.epoch, self.world, self.time = int(epoch), int(world), int(at) / 1e9
        self.text = rest[0].strip() if rest else ""


class Worker:
    """One process of a worker, and what it said."""

    def __init__(self, cluster, name, host):
        self.cluster, self.name, self.host = cluster, name, host
        self.events, self.other_lines, self.started = [], [], time.monotonic()
        self.expected_to_end = False
        self.record, self.weights = cluster.folder / f"{name}.record", cluster.folder / f"{name}.weights"
        self.process = subprocess.Popen(
            [*cluster.hosts.prefix(host), cluster.binaries / "chaos_worker", str(cluster.seed),
             str(cluster.compute_ms), self.record, self.weights], text=True,
            env={"LOCKSTEP_ADDRESS": cluster.control_address(name), "LOCKSTEP_JOB": "chaos",
                 "LOCKSTEP_SPEC": str(cluster.spec), "LOCKSTEP_WORKER_NAME": name,
                 "LOCKSTEP_WORLD_SIZE": str(cluster.size), "LOCKSTEP_HOST_ADDRESS": hosts.ADDRESSES[host],
                 "PATH": os.environ["PATH"], **cluster.clock(host)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.cluster.changed:
                if line.split(" ", 1)[0] in ("joined", "resumed", "first", "ended", "recovered", "done"):
                    self.events.append(Event(line))
                else:
                    self.other_lines.append(line.strip())
                self.cluster.changed.notify_all()
        with self.cluster.changed:
            self.cluster.changed.notify_all()

    def time_of(self, what, since):
        """Of the first such event after a time, or None."""
        return next((event.time for event in self.events if event.time > since and event.what == what), None)

    def epoch(self):
        return max((event.epoch for event in self.events), default=0)

    def step(self):
        """The last step that it has applied."""
        with open(self.record, "rb") as file:
            file.seek(max(0, self.record.stat().st_size - 300))
            for line in reversed(file.read().split(b"\n")[:-1]):
                if line and not line.startswith(b"life"):
                    return int(line.split()[0])
        return 0

    def signal(self, number):
        os.kill(self.process.pid, number)

    def is_stopped(self):
        """All its threads are."""
        states = [stat.read_text().rpartition(")")[2].split()[0]
                  for stat in Path(f"/proc/{self.process.pid}/task").glob("*/stat")]
        return set(states) == {"T"}

    def last_lines(self):
        """The last event of each kind, and what else it said last."""
        last = {event.what: event for event in self.events}
        said = [f"{event.what} {event.epoch} {event.world} {event.time:.3f} {event.text}"
                for event in sorted(last.values(), key=lambda event: event.time)]
        return f"{self.name}: {said + self.other_lines[-3:]}"

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Cluster:
    def __init__(self, binaries, folder, size, seed, compute_ms, clocks):
        self.binaries, self.folder, self.size = binaries, folder, size
        self.seed, self.compute_ms, self.clocks = seed, compute_ms, clocks
        self.changed, self.workers, self.control_ports = threading.Condition(), {}, {}
        self.daemon, self.daemon_address, self.inflicted = None, None, "no fault"
        self.disk = folder / "disk"
        self.disk.mkdir()
        hosts.run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(self.disk))
        for host in (0, 1):
            self.set_clock(host, 0)
        self.relay = Relay()
        self.hosts = hosts.Hosts(self.relay)
        self.spec = folder / "spec.yaml"
        self.spec.write_text(SPEC.format(workers=size))
        self.start_daemon()
        self.names = [f"worker-{i}" for i in range(size)]

    # --- Processes ---

    def clock(self, host):
        """The environment of a process on a host, whose wall clock jumps."""
        if not self.clocks:
            return {}
        return {"LD_PRELOAD": str(self.binaries / "moved_clock.so"),
                "LOCKSTEP_MOVED_CLOCK": str(self.folder / f"clock-{host}")}

    def set_clock(self, host, seconds):
        file = os.open(self.folder / f"clock-{host}", os.O_CREAT | os.O_WRONLY, 0o600)
        os.pwrite(file, struct.pack("q", seconds * 10**9), 0)
        os.close(file)

    def start_daemon(self):
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        with open(self.folder / "lockstepd.log", "a", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [self.binaries / "lockstepd", "--listen", self.daemon_address or "127.0.0.1:0", "--port_file", port,
                 "--journal", self.disk / "journal"], env={**os.environ, **self.clock(0)},
                stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + LIMIT_S
        while not port.exists():
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise Violation(f"lockstepd does not start: {self.daemon_log()}")
            time.sleep(0.005)
        self.daemon_address = port.read_text().strip()

    def daemon_log(self):
        lines = (self.folder / "lockstepd.log").read_text().splitlines()
        return "\n  ".join(line for line in lines if " stands at " not in line)[-4000:]

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def control_address(self, name):
        if name not in self.control_ports:
            port = self.relay.ask("listen", f"control.{name}", "0.0.0.0", self.daemon_address)
            self.hosts.is_control(port)
            self.control_ports[name] = port
        return f"{hosts.ADDRESSES[0]}:{self.control_ports[name]}"

    def host_of(self, name):
        return int(self.names.index(name) >= (self.size + 1) // 2)

    def start_worker(self, name):
        self.workers[name] = Worker(self, name, self.host_of(name))
        return self.workers[name]

    def start(self):
        for name in self.names:
            self.start_worker(name)
        self.await_event("first", self.all(), 0)

    def all(self):
        return list(self.workers.values())

    def others(self, *victims):
        return [worker for worker in self.all() if worker not in victims]

    # --- Waiting ---

    def last_lines(self):
        return "\n  ".join(worker.last_lines() for worker in self.all())

    def check_processes(self):
        for worker in self.all():
            if worker.process.poll() is not None and not worker.expected_to_end:
                raise Violation(f"{worker.name} ended by itself, code {worker.process.returncode}: "
                                f"{worker.last_lines()}\n  {self.last_lines()}")
        if self.daemon.poll() is not None:
            raise Violation(f"lockstepd ended by itself, code {self.daemon.returncode}: {self.daemon_log()}")

    def await_event(self, what, workers, since):
        """The time of the last of the workers' first such event after a time."""
        deadline = time.monotonic() + LIMIT_S
        with self.changed:
            while True:
                times = [worker.time_of(what, since) for worker in workers]
                if all(times):
                    return max(times)
                if time.monotonic() > deadline:
                    raise Violation(f"not all workers said '{what}' within {LIMIT_S} s after {since:.3f}:\n  "
                                    f"{self.last_lines()}\n{json.dumps(self.job())}")
                self.changed.wait(0.2)
                if what != "done":
                    self.check_processes()

    def await_that(self, holds, what, limit=LIMIT_S):
        deadline = time.monotonic() + limit
        while not holds():
            self.check_processes()
            if time.monotonic() > deadline:
                raise Violation(f"{what}: not within {limit} s\n  {self.last_lines()}\n{json.dumps(self.job())}")
            time.sleep(0.01)

    def await_steps(self, more=2):
        goals = {worker.name: worker.step() + more for worker in self.all()}
        self.await_that(lambda: all(worker.step() >= goals[worker.name] for worker in self.all()),
                        f"{more} more steps of each worker")

    def sleep(self, seconds):
        """Fails as soon as a process ends by itself."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            self.check_processes()
            time.sleep(min(rest, 0.1))

    def epoch(self):
        return max(worker.epoch() for worker in self.all())

    # --- The coordinator's view ---

    def ctl(self, *words, check=True):
        said = subprocess.run([self.binaries / "lockstepctl", "--address", self.daemon_address, *words],
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if check and said.returncode != 0:
            raise Violation(f"lockstepctl {' '.join(words)}: {said.stdout}{said.stderr}")
        return said.stdout

    def job(self):
        said = self.ctl("describe", "chaos", "--json", check=False)
        return json.loads(said) if said else {}

    def silent_seconds(self, name):
        """For how long the coordinator has not heard the worker."""
        return next(worker["silent_seconds"] for worker in self.job()["workers"] if worker["name"] == name)

    # --- The end ---

    def stop_job(self):
        """Ends training, on all ranks after the same step."""
        since = time.monotonic()
        for worker in self.all():
            worker.expected_to_end = True
        self.ctl("stop", "chaos")
        self.await_event("done", self.all(), since)
        for worker in self.all():
            worker.process.wait(LIMIT_S)
            if worker.process.returncode != 0:
                raise Violation(f"{worker.name}: code {worker.process.returncode}: {worker.last_lines()}")

    def end(self):
        for worker in self.all():
            worker.end()
        if self.daemon:
            self.kill_daemon()
        self.relay.end()
        self.hosts.end()
        subprocess.run([hosts.which("umount"), self.disk], check=False)
