"""The faults: each is inflicted, heals, and must leave a job in which all workers train.

A fault that ends no epoch must leave all workers in the epoch in which they were. One that ends an
epoch and no process must leave the same processes. `Outcome` has the times.
"""

import dataclasses
import signal
import subprocess
import time
from pathlib import Path

from cluster import LEASE_S, Violation

# Of a silent fault; and what a machine that has other work to do may add.
DETECTION_GOAL_S = 1.5 * LEASE_S
LOAD_S = 1.0
KEEPALIVE_S = 3  # of a worker's connection to the coordinator: a timer that gRPC waits for


@dataclasses.dataclass
class Outcome:
    kind: str = ""
    begin: float = 0.0
    end: float = 0.0  # of the fault itself
    detection: float | None = None  # until the last survivor's step call failed
    recovery: float | None = None  # from then until the last survivor applied a step again
    notes: str = ""
    lost: list = dataclasses.field(default_factory=list)  # workers whose processes live


@dataclasses.dataclass(frozen=True)
class Fault:
    inflict: callable
    family: str  # control, link or worker; alone: in no mix
    ends_epoch: bool = False
    kills: bool = False  # a worker is lost: the others go on without it for a while
    silent: bool = False  # known by silence alone: within 1.5 leases

    @property
    def kind(self):
        return self.inflict.__name__


FAULTS = {}


def fault(family, **flags):
    def add(inflict):
        FAULTS[inflict.__name__] = Fault(inflict, family, **flags)
        return inflict
    return add


# --- Control plane ------------------------------------------------------------


@fault("control")
def control_cut(cluster, dice, outcome):
    """The connection of one worker to the coordinator is reset."""
    cluster.relay.ask("cut", f"control.{dice.choice(cluster.names)}")


@fault("control")
def control_cut_all(cluster, dice, outcome):
    """Those of all workers are."""
    cluster.relay.ask("cut", "control.*")


@fault("control")
def control_refused(cluster, dice, outcome):
    """One worker cannot connect to the coordinator for longer than a lease; its peers hear it."""
    name = dice.choice(cluster.names)
    cluster.relay.ask("refuse", f"control.{name}")
    cluster.relay.ask("cut", f"control.{name}")
    cluster.sleep(dice.uniform(0.2, 2 * LEASE_S))
    cluster.relay.ask("accept", f"control.{name}")


@fault("control")
def control_held(cluster, dice, outcome):
    """Nothing passes between one worker and the coordinator, on an open connection."""
    name = dice.choice(cluster.names)
    cluster.relay.ask("hold", f"control.{name}")
    cluster.sleep(dice.uniform(0.2, 2 * LEASE_S))
    cluster.relay.ask("release", f"control.{name}")


@fault("control")
def control_delayed(cluster, dice, outcome):
    """Messages are late, each by another time, so that those of different workers change their order."""
    cluster.relay.ask("delay", "control.*", 0.0, 0.3)
    cluster.sleep(dice.uniform(1, 3))
    cluster.relay.ask("delay", "control.*", 0, 0)


@fault("control")
def coordinator_killed(cluster, dice, outcome):
    cluster.kill_daemon()
    started = time.monotonic() + dice.choice([0, dice.uniform(0, 2 * LEASE_S)])
    while time.monotonic() < started:
        time.sleep(0.01)
    cluster.start_daemon()


@fault("control")
def coordinator_stopped(cluster, dice, outcome):
    cluster.daemon.send_signal(signal.SIGSTOP)
    cluster.sleep(dice.uniform(0.2, 2 * LEASE_S))
    cluster.daemon.send_signal(signal.SIGCONT)


@fault("control")
def disk_full(cluster, dice, outcome):
    """No promise is made meanwhile, which is said, and an alarm is shown."""
    fill = cluster.disk / "fill"
    with open(fill, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass
    ctl = [cluster.binaries / "lockstepctl", "--address", cluster.daemon_address]
    name, spec = other_spec(cluster)
    try:
        asked = subprocess.run([*ctl, "create", "-f", spec], capture_output=True, text=True, timeout=30,
                               check=False)
        if asked.returncode != 1 or "cannot make this durable" not in asked.stderr:
            raise Violation(f"a promise without a record: {asked.stdout}{asked.stderr}")
        warned = lambda: any("journal has no room" in text for text in cluster.job().get("warnings", []))
        cluster.await_that(warned, "the alarm of a full disk", 30)
        cluster.sleep(dice.uniform(0.1, 1))
        fill.unlink()
        cluster.await_that(lambda: not warned(), "the end of the alarm", 30)
        exists = lambda: subprocess.run([*ctl, "describe", name], capture_output=True, timeout=30,
                                        check=False).returncode == 0
        cluster.await_that(exists, "what was asked for, once there is room again", 30)
    finally:
        fill.unlink(missing_ok=True)


def other_spec(cluster):
    """The name and the spec of a job that no other fault asks for."""
    cluster.other_jobs = getattr(cluster, "other_jobs", 0) + 1
    name = f"other-{cluster.other_jobs}"
    path = Path(cluster.folder / "other.yaml")
    path.write_text(f"name: {name}\nmesh: data=2\n")
    return name, path


@fault("control")
def clock_jump(cluster, dice, outcome):
    """The wall clock of one host jumps: of host 0 that of the coordinator too."""
    jump = dice.choice([-86400, -3600, -30, 30, 3600, 86400])
    host = dice.randrange(2)
    cluster.set_clock(host, jump)
    cluster.sleep(1.5)
    if dice.randrange(2):
        cluster.set_clock(host, 0)
        cluster.sleep(1.5)
    outcome.notes = f"host {host}: {jump:+d} s"


@fault("alone")
def clock_set_back(cluster, dice, outcome):
    """A worker finds the coordinator again, though waits of gRPC for an hour that has passed twice are overdue."""
    name = cluster.names[0]
    cluster.set_clock(0, 3600)
    cluster.sleep(2)
    cluster.set_clock(0, 0)
    cluster.sleep(KEEPALIVE_S + 2)
    cluster.relay.ask("refuse", f"control.{name}")
    cluster.relay.ask("cut", f"control.{name}")
    cluster.sleep(LEASE_S)
    cluster.relay.ask("accept", f"control.{name}")
    cluster.await_that(lambda: cluster.silent_seconds(name) < LEASE_S / 2, f"{name} is heard again", limit=10)


# --- Links --------------------------------------------------------------------


@fault("link", ends_epoch=True)
def data_cut(cluster, dice, outcome):
    """One connection between two workers, with gradients on it, is reset."""
    cluster.await_that(lambda: cluster.relay.ask("cut", "data", "one") == 1, "gradients between hosts")


@fault("link", ends_epoch=True)
def data_reset(cluster, dice, outcome):
    """The network resets all connections between the workers of the two hosts."""
    cluster.hosts.data("meta l4proto tcp reject with tcp reset")
    cluster.await_event("ended", cluster.all(), outcome.begin)
    cluster.hosts.heal()


@fault("link", ends_epoch=True, silent=True)
def data_black_hole(cluster, dice, outcome):
    """What workers of different hosts send each other is lost; the coordinator is heard well."""
    cluster.hosts.data("drop")
    cluster.await_event("ended", cluster.all(), outcome.begin)
    cluster.hosts.heal()


@fault("link")
def data_dropped(cluster, dice, outcome):
    """The same, for less time than it takes to give a connection up."""
    cluster.hosts.data("drop")
    cluster.sleep(dice.uniform(0.05, 0.4))
    cluster.hosts.heal()


@fault("link")
def partition(cluster, dice, outcome):
    """Nothing passes between the hosts for less than a lease, control connections included."""
    cluster.hosts.all("drop")
    cluster.sleep(dice.uniform(0.05, 0.4))
    cluster.hosts.heal()


@fault("link")
def loss(cluster, dice, outcome):
    """One packet of many is lost, in both directions."""
    percent = dice.choice([1, 2, 5])
    cluster.hosts.all(f"numgen random mod 100 < {percent} drop")
    cluster.sleep(dice.uniform(1, 2))
    cluster.hosts.heal()
    outcome.notes = f"{percent} %"


@fault("link")
def slow(cluster, dice, outcome):
    """The cable has less bandwidth."""
    rate = dice.choice(["100mbit", "200mbit", "400mbit"])
    cluster.hosts.slow(rate)
    cluster.sleep(dice.uniform(1, 2))
    cluster.hosts.heal()
    outcome.notes = rate


@fault("link")
def data_delayed(cluster, dice, outcome):
    """Data of workers is late, each piece by another time."""
    cluster.relay.ask("delay", "data", 0.0, 0.01)
    cluster.sleep(dice.uniform(1, 2))
    cluster.relay.ask("delay", "data", 0, 0)


# --- Workers ------------------------------------------------------------------


@fault("worker", ends_epoch=True, kills=True)
def killed(cluster, dice, outcome):
    """SIGKILL; nobody reports it. The worker starts again once the others know."""
    victim = cluster.workers[dice.choice(cluster.names)]
    others = cluster.others(victim)
    victim.expected_to_end = True
    victim.signal(signal.SIGKILL)
    cluster.await_event("ended", others, outcome.begin)
    if dice.randrange(2):
        cluster.await_event("first", others, outcome.begin)
    restart(cluster, victim)


@fault("worker", ends_epoch=True, kills=True)
def two_killed(cluster, dice, outcome):
    """Two workers, at any distance in time below 50 ms."""
    victims = [cluster.workers[name] for name in dice.sample(cluster.names, 2)]
    others = cluster.others(*victims)
    for victim in victims:
        victim.expected_to_end = True
        victim.signal(signal.SIGKILL)
        if victim is victims[0]:
            time.sleep(dice.choice([0, dice.uniform(0, 0.05)]))
    cluster.await_event("ended", others, outcome.begin)
    for victim in victims:
        restart(cluster, victim)


@fault("worker", ends_epoch=True, kills=True, silent=True)
def stopped_for_long(cluster, dice, outcome):
    """SIGSTOP, then SIGCONT when the others go on without it: it joins as a newcomer."""
    stop_until_known(cluster, cluster.workers[dice.choice(cluster.names)], outcome)


@fault("worker", ends_epoch=True, kills=True, silent=True)
def stopped_in_reduction(cluster, dice, outcome):
    """The same, between the first Submit of a step and the end of its Finish."""
    victim = cluster.workers[dice.choice(cluster.names)]
    victim.signal(signal.SIGUSR1)
    cluster.await_that(victim.is_stopped, f"{victim.name} stops itself in a reduction", 30)
    outcome.begin = time.monotonic()
    stop_until_known(cluster, victim, outcome)


def stop_until_known(cluster, victim, outcome):
    others = cluster.others(victim)
    outcome.lost.append(victim)
    victim.signal(signal.SIGSTOP)
    cluster.await_event("ended", others, outcome.begin)
    cluster.await_event("first", others, outcome.begin)
    victim.signal(signal.SIGCONT)


def restart(cluster, victim):
    victim.end()
    cluster.start_worker(victim.name)


@fault("worker")
def stopped(cluster, dice, outcome):
    """SIGSTOP for less than a lease: nobody is lost."""
    victim = cluster.workers[dice.choice(cluster.names)]
    victim.signal(signal.SIGSTOP)
    cluster.sleep(dice.uniform(0.05, 0.7 * LEASE_S))
    victim.signal(signal.SIGCONT)


@fault("worker")
def stopped_shortly_in_reduction(cluster, dice, outcome):
    victim = cluster.workers[dice.choice(cluster.names)]
    victim.signal(signal.SIGUSR1)
    cluster.await_that(victim.is_stopped, f"{victim.name} stops itself in a reduction", 30)
    cluster.sleep(dice.uniform(0.05, 0.7 * LEASE_S))
    victim.signal(signal.SIGCONT)


@fault("worker")
def all_frozen(cluster, dice, outcome):
    """All workers stop for 1.9 s, as with a machine that sleeps: nobody is lost."""
    for worker in cluster.all():
        worker.signal(signal.SIGSTOP)
    time.sleep(1.9)
    for worker in cluster.all():
        worker.signal(signal.SIGCONT)


# --- One fault ----------------------------------------------------------------


def inflict(cluster, kind, dice):
    """Inflicts a fault, and returns once all workers train again. Raises Violation."""
    chosen = FAULTS[kind]
    cluster.inflicted = kind
    outcome = Outcome(kind=kind)
    before = cluster.all()
    epoch = cluster.epoch()
    outcome.begin = time.monotonic()
    chosen.inflict(cluster, dice, outcome)
    outcome.end = time.monotonic()
    survivors = [worker for worker in before if cluster.workers[worker.name] is worker and worker not in outcome.lost]
    if chosen.ends_epoch:
        known = cluster.await_event("ended", survivors, outcome.begin)
        outcome.detection = known - outcome.begin
        outcome.recovery = cluster.await_event("first", survivors, known) - known
        if chosen.silent and outcome.detection > DETECTION_GOAL_S + LOAD_S:
            raise Violation(f"{kind}: known after {outcome.detection:.3f} s, much later than 1.5 leases")
        cluster.await_that(
            lambda: len({worker.epoch() for worker in cluster.all()}) == 1
            and all(worker.events[-1].what == "first" and worker.events[-1].world == cluster.size
                    for worker in cluster.all()), "an epoch of all workers")
    cluster.await_steps()
    if not chosen.ends_epoch and cluster.epoch() != epoch:
        raise Violation(f"{kind} ended epoch {epoch}:\n  {cluster.last_lines()}")
    return outcome
