"""Trains with the real daemon and real workers while things break, and trains again without faults.

    chaos_test.py BIN_FOLDER KIND ... [--times N] [--workers N] [--seed S]
    chaos_test.py BIN_FOLDER cuts [--control N] [--data N] [--workers N] [--seed S]
    chaos_test.py BIN_FOLDER mix [--minutes N] [--faults N] [--workers N] [--seed S]
    chaos_test.py BIN_FOLDER --list

KIND is a fault of faults.py, or control, link or worker for all of that family. The first form
inflicts each N times (1), in an order drawn from the seed. The second cuts control connections N times
(50), which must end no epoch, then data connections N times (5), which must end no process and lose no
update. The third inflicts faults for N minutes at regular times, 60 % on the control plane, 30 % on links,
10 % on workers, and prints what they cost.

Two hosts (hosts.py), a relay (relay.py), lockstepd with a journal, and N workers (chaos_worker.cc)
that train a model in f64. Each writes down every update that it has applied. At the end, of all
forms: all ranks have applied the same updates, each once; the membership of each step is known; and
chaos_replay.cc, which plays the same steps with as many ranks in one process, has the same weights.

A violation is printed with the seed; the exit code is 1. Exits with 77 where the kernel has no
namespaces, or lacks nft.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import hosts
from cluster import LEASE_S, Cluster, Violation
from faults import FAULTS, inflict
from history import History

SHARES = {"control": 0.6, "link": 0.3, "worker": 0.1}
CALM_S = 10.0  # without faults, at the begin and at the end
SETTLES_S = 1.0  # after the first steps that follow a fault: counts as part of it


def say(text):
    print(text, flush=True)


def kinds_of(family):
    return [kind for kind, fault in FAULTS.items() if fault.family == family]


def chosen_kinds(words):
    if words in (["mix"], ["cuts"]):
        return list(FAULTS) if words == ["mix"] else ["data_cut"]
    kinds = []
    for word in words:
        kinds += kinds_of(word) if word in SHARES else [word]
        if word not in SHARES and word not in FAULTS:
            sys.exit(f"unknown fault {word}; there are: {' '.join(FAULTS)}")
    return kinds


# --- Each kind, a few times ---------------------------------------------------


def play_each(cluster, kinds, times, dice):
    order = kinds * times
    dice.shuffle(order)
    outcomes = []
    for kind in order:
        outcome = inflict(cluster, kind, dice)
        outcomes.append(outcome)
        say(f"{kind}: ok, {describe(outcome)}")
        time.sleep(dice.uniform(0, 0.05))
    return outcomes


def describe(outcome):
    parts = [f"{outcome.end - outcome.begin:.2f} s"]
    if outcome.detection is not None:
        parts.append(f"known after {outcome.detection:.3f} s, step {outcome.recovery:.3f} s later")
    return ", ".join([*parts, outcome.notes] if outcome.notes else parts)


# --- Cuts ---------------------------------------------------------------------


def play_cuts(cluster, control, data, dice):
    """Cuts one control connection after the other, at any moment: while workers reconnect, too."""
    epoch = cluster.epoch()
    for done in range(1, control + 1):
        name = dice.choice(cluster.names)
        cluster.await_that(lambda: cluster.relay.ask("cut", f"control.{name}"), f"{name} connects again", 30)
        time.sleep(dice.choice([0, dice.uniform(0, 0.1)]))
        if done % 100 == 0:
            say(f"{done} control connections cut")
    cluster.await_steps()
    cluster.await_that(lambda: {w["state"] for w in cluster.job().get("workers", [])} == {"ready"},
                       "all workers resume", 30)
    generations = {worker["generation"] for worker in cluster.job()["workers"]}
    if cluster.epoch() != epoch or generations != {1}:
        raise Violation(f"{control} cuts of control connections: epoch {epoch} became {cluster.epoch()}, generations "
                        f"{generations}")
    say(f"{control} control connections cut: same epoch, same generations")
    processes = [worker.process.pid for worker in cluster.all()]
    detections = sorted(inflict(cluster, "data_cut", dice).detection for _ in range(data))
    if [worker.process.pid for worker in cluster.all()] != processes:
        raise Violation("a process was started again")
    if data:
        say(f"{data} data connections cut: same processes; known after {detections[len(detections) // 2]:.3f} s, "
            f"{detections[-1]:.3f} s at most")


# --- The mix ------------------------------------------------------------------


def draw_mix(count, dice):
    order = []
    for family, share in SHARES.items():
        kinds = kinds_of(family)
        wanted = round(count * share)
        order += [kinds[i % len(kinds)] for i in range(wanted)]
    dice.shuffle(order)
    return order


class Mix:
    """Begins a fault every `slot` seconds. What is left of a slot is calm: it shows the rate without faults."""

    def __init__(self, cluster, minutes, count, dice):
        self.cluster, self.dice = cluster, dice
        self.order = draw_mix(count, dice)
        self.slot = (60 * minutes - 2 * CALM_S) / len(self.order)
        self.calm, self.spans, self.outcomes = [], [], []

    def rest(self, seconds):
        begin = time.monotonic()
        self.cluster.sleep(seconds)
        if seconds > 0:
            self.calm.append((begin, time.monotonic()))

    def play(self):
        self.rest(CALM_S)
        for number, kind in enumerate(self.order, 1):
            begin = time.monotonic()
            outcome = inflict(self.cluster, kind, self.dice)
            self.cluster.sleep(SETTLES_S)
            self.outcomes.append(outcome)
            self.spans.append((begin, time.monotonic()))
            self.rest(max(0.0, begin + self.slot - time.monotonic()))
            say(f"{number}/{len(self.order)} at {outcome.begin:.0f} s, {kind}: {describe(outcome)}")
        self.rest(CALM_S)

    # --- The report ---

    def rate_around(self, history, span):
        """Without faults, before and after a time: other programs may slow all down for a while."""
        before = [calm for calm in self.calm if calm[1] <= span[0] + 0.1][-1:]
        after = [calm for calm in self.calm if calm[0] >= span[1] - 0.1][:1]
        return pooled_rate(history, before + after)

    def report(self, history):
        rates = [pooled_rate(history, [span]) for span in self.calm if span[1] - span[0] > 2]
        say(f"\nwithout faults: {pooled_rate(history, self.calm):.2f} steps a second, in {len(rates)} times "
            f"of {sum(end - begin for begin, end in self.calm):.0f} s (in one of them {min(rates):.2f} to {max(rates):.2f})")
        lost, all_time = {}, {}
        for span, outcome in zip(self.spans, self.outcomes):
            seconds = span[1] - span[0] - history.count(*span) / self.rate_around(history, span)
            for group in groups_of(outcome.kind):
                lost.setdefault(group, []).append(seconds)
                all_time[group] = all_time.get(group, 0) + self.slot
        say(f"\n{'fault':30} {'times':>5} {'kept':>7} {'seconds lost':>12} {'each':>7} {'longest':>8}")
        kinds = sorted({o.kind for o in self.outcomes}, key=lambda kind: (FAULTS[kind].family, kind))
        for group in [*kinds, "", *SHARES, "kill no worker", "kill a worker", "all"]:
            if seconds := lost.get(group):
                say(f"{group:30} {len(seconds):5} {1 - sum(seconds) / all_time[group]:7.1%} {sum(seconds):12.2f} "
                    f"{statistics.mean(seconds):7.2f} {max(seconds):8.2f}")
        self.report_times("detection", lambda outcome: outcome.detection)
        self.report_times("recovery", lambda outcome: outcome.recovery)

    def report_times(self, title, of):
        say(f"\n{title + ', seconds':30} {'times':>5} {'p50':>7} {'p99':>7} {'max':>7}")
        kinds = sorted({outcome.kind for outcome in self.outcomes if of(outcome) is not None})
        for kind in [*kinds, "all"]:
            seconds = sorted(of(o) for o in self.outcomes if kind in (o.kind, "all") and of(o) is not None)
            if seconds:
                say(f"{kind:30} {len(seconds):5} {percentile(seconds, 50):7.3f} {percentile(seconds, 99):7.3f} "
                    f"{seconds[-1]:7.3f}")


def pooled_rate(history, spans):
    return sum(history.count(*span) for span in spans) / sum(end - begin for begin, end in spans)


def groups_of(kind):
    return kind, FAULTS[kind].family, "kill a worker" if FAULTS[kind].kills else "kill no worker", "all"


def percentile(ordered, p):
    return ordered[min(len(ordered) - 1, round(p / 100 * (len(ordered) - 1)))]


# --- Main ---------------------------------------------------------------------


def play(options, folder):
    kinds = chosen_kinds(options.what)
    clocks = not {"clock_jump", "clock_set_back"}.isdisjoint(kinds)
    dice = random.Random(options.seed)
    try:
        cluster = Cluster(options.binaries.resolve(), folder, options.workers, options.seed, options.compute_ms, clocks)
    except hosts.Unavailable as unavailable:
        hosts.skip(str(unavailable))
    try:
        cluster.start()
        if options.what == ["mix"]:
            mix = Mix(cluster, options.minutes, options.faults or round(options.minutes * 200 / 30), dice)
            try:
                mix.play()
            except Violation:
                mix.report(History(cluster))
                raise
        elif options.what == ["cuts"]:
            play_cuts(cluster, options.control, options.data, dice)
        else:
            play_each(cluster, kinds, options.times, dice)
        cluster.stop_job()
        history = History(cluster)
        if options.what == ["mix"]:
            mix.report(history)
        say(f"\n{history.check()}")
    except Violation:
        say(f"under {cluster.inflicted}; lockstepd:\n  {cluster.daemon_log()}")
        kept = Path(tempfile.mkdtemp(prefix="chaos-"))
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        say(f"its files are in {kept}")
        raise
    finally:
        cluster.end()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binaries", type=Path)
    arguments.add_argument("what", nargs="*")
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("--times", type=int, default=1)
    arguments.add_argument("--control", type=int, default=50)
    arguments.add_argument("--data", type=int, default=5)
    arguments.add_argument("--minutes", type=float, default=30)
    arguments.add_argument("--faults", type=int, help="of the mix; 200 in 30 minutes")
    arguments.add_argument("--workers", type=int, default=4)
    arguments.add_argument("--compute_ms", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = arguments.parse_args()
    if options.list or not options.what:
        for kind, fault in FAULTS.items():
            print(f"{kind:30} {fault.family:8} {(fault.inflict.__doc__ or '').strip()}")
        return 0
    hosts.enter()
    say(f"{' '.join(options.what)}: {options.workers} workers on 2 hosts, lease {LEASE_S:g} s, seed {options.seed}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            play(options, Path(folder))
        except Violation as violation:
            say(f"VIOLATION, seed {options.seed}: {violation}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
