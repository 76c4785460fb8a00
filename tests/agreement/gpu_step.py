"""The step agreement of GPU ranks whose device never waits for the host: the specification, as a model.

    host     enqueue ─▶ see the verdict of the step before ─▶ enqueue ...          on trouble: stop ─▶ abort ─▶ drain ─▶ report
                │                        ▲                                                │       │               ▲
                ▼                        │ journal                                        ▼       ▼               │ journal
    device   [backward, pack][transfers, a lane each][record][all-gather][gate ▶ update] [backward ...

A *launch* is one enqueued step. Its device part is in stream order: the next launch begins after the gate of the one
before. The gate alone decides whether the step passes. A launch with no samples on any rank is void: its collectives
run, and nothing else happens.

What an abort does is modelled at its worst. The kernel breaks off, the stream goes on, and the kernel has sent its peers
garbage with valid flags: a sum that looks whole, half a record, or a record that was in the buffer before. Whether a
peer reads the garbage or the data is open. A rank that is lost goes on writing; a dead one does not.

The order of this file: the rules, the world's state, the promises, one function for each action, the model.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rules:
    """How a step works. The defaults are right; each negative control changes one field."""
    run_ahead: int = 1  # launch k is enqueued once the host has seen the verdict of launch k - run_ahead - 1
    paced: bool = True  # False: the program launches a graph of the whole step, and waits for no verdict
    full_journal: str = "void on all ranks"  # the next launch; its record says so | "void on this rank"
    gate: str = "all records"  # | "own record" | "sum of stamps"
    hash: str = "launch"  # what a record's hash covers: epoch, sequence, step, revision | "step": no sequence | "nothing"
    checksum: bool = True  # of a record's payload
    record_behind: str = "all lanes"  # | "the first lane": which transfers a record is written behind
    record_asks: frozenset = frozenset({"stop", "failed"})  # the words that make a record invalid
    abort_after_stop: bool = True
    commit_after_journal: bool = True
    journal_depth: int | None = None  # launches; None: run_ahead + 2
    entries_after_failure: bool = True  # each gate that fails writes an entry; False: the first one only
    report_from: str = "journal"  # | "host": the verdicts that the host has seen
    aborts: bool = True  # the host, when the epoch ends
    drain: str = "bounded"  # before a rank reports | "unbounded" | "skipped"
    lost_reports: bool = False  # a rank whose drain did not end reports, too
    bucket_sets: int | None = None  # None: run_ahead + 1, and one more with direct writes
    buckets: str = "views"  # backward writes them | "packed": a pack does
    held_by_failed: frozenset = frozenset()  # of {"pack", "transfer"}: write no bucket once `failed` is set
    direct_writes: bool = False  # an aborted transfer may write to its peers' buckets, not only to staging buffers
    lagging: str = "rolls forward"  # a rank that is one step behind | "copies": the state of a rank that is not
    closing_void: bool = False  # a void launch follows the last step
    snapshots: int | None = None  # of step_scoped state; None: run_ahead + 1
    snapshots_ask_failed: bool = False  # the kernels that take them keep the last one once `failed` is set
    effects_after: int | None = None  # an effect of verdict k begins with launch k + this; None: run_ahead + 1
    void_advances: bool = False  # the step number, and with it the samples
    counts_leavers: bool = True  # in the decision

    @property
    def depth(self):
        return self.run_ahead + 2 if self.journal_depth is None else self.journal_depth

    @property
    def sets(self):
        return self.run_ahead + 1 + self.direct_writes if self.bucket_sets is None else self.bucket_sets

    @property
    def copies(self):
        return self.run_ahead + 1 if self.snapshots is None else self.snapshots

    @property
    def late(self):
        return self.run_ahead + 1 if self.effects_after is None else self.effects_after


@dataclass(frozen=True)
class Job:
    """The jobs that are explored: all runs with at most `faults` faults."""
    ranks: int = 2
    steps: int = 3
    lanes: int = 1
    faults: int = 2
    effect: str | None = None  # what the first verdict shows: "switch" (a revision, pause or last step) | "out of data"


# --- The world ---


class Launch(NamedTuple):
    """One step in one rank's stream."""
    changed: bool  # enqueued with the effect in force
    input: str  # "" not begun | "sent" this step's gradients | "stale": something else
    lanes: tuple  # per lane: "" running | "sum": the true one | "garbage"
    record: str  # "" | "valid" | "invalid" | "full": valid, but the journal has no room
    gate: str  # "" | "passed" | "void" | "skipped": void, without an entry | "failed" | "commit": visible, and its journal entry is not


class Rank(NamedTuple):
    fate: str  # "runs" | "dead" | "lost" | "left": after the last step | "hangs": in its drain
    launches: tuple  # enqueued in this epoch, oldest first
    seen: int  # verdicts that the host has read
    told: bool  # the host knows of the effect
    stop: bool  # the host's one-way word, which the device reads
    abort: bool  # the communicators' abort flag
    report: int  # steps passed since training began; -1: none
    recovered: bool  # has done what was decided


class World(NamedTuple):
    base: int  # steps that all ranks had applied when the epoch began
    ranks: tuple
    spoiled_sums: int  # bit k: an aborted rank has sent garbage in the transfers of launch k
    spoiled_records: int  # the same for the all-gather
    ending: bool  # the end of the epoch has been announced
    decision: int  # the steps that all shall have applied; -1: none yet
    faults: int  # that may still happen


def begin(job, base, faults):
    rank = Rank("runs", (), 0, False, False, False, -1, False)
    return World(base, (rank,) * job.ranks, 0, 0, False, -1, faults)


NOT_BEGUN = {lanes: Launch(False, "", ("",) * lanes, "", "") for lanes in (1, 2)}


def effect_in(job, world):
    return job.effect is not None and world.base == 0


def launches_in(rules, job, world):
    voids = rules.late - 1 if job.effect == "out of data" and world.base == 0 else 0
    return job.steps - world.base + voids + rules.closing_void


def is_void(rules, job, world, number, launch):
    """Between the verdict that shows that no rank has more data, and the first launch with data again; or at the end."""
    if rules.closing_void and number == launches_in(rules, job, world) - 1:
        return True
    return job.effect == "out of data" and world.base == 0 and number > 0 and not launch.changed


def position(rank):
    """The number of the launch that the device is in."""
    for number, launch in enumerate(rank.launches):
        if launch.gate in ("", "commit"):
            return number
    return len(rank.launches)


def begun(rank):
    return sum(launch.input != "" for launch in rank.launches)


def passes(rank):
    return sum(launch.gate == "passed" for launch in rank.launches)


def applied(world, rank):
    """Updates in this rank's state."""
    return world.decision if rank.recovered else world.base + passes(rank)


def has_failed(rank):
    """The sticky word: a gate that fails sets it."""
    return any(launch.gate == "failed" for launch in rank.launches)


def drained(rank):
    return position(rank) == len(rank.launches)


def intact(rules, world, rank, number):
    """Whether the buckets of launch `number` still contain its reduced gradients."""
    for later in range(number + rules.sets, number + rules.sets * 4, rules.sets):
        written = later < len(rank.launches) and rank.launches[later].input != ""
        if written and (rules.buckets == "views" or rules.held_by_failed != {"pack", "transfer"}):
            return False
        if rules.direct_writes and world.spoiled_sums >> later & 1:
            return False
    return all(lane == "sum" for lane in rank.launches[number].lanes)


def entries(rules, rank):
    """The launches that the journal had entries of, oldest first."""
    written = [number for number, launch in enumerate(rank.launches) if launch.gate in ("passed", "void", "failed")]
    failed = [number for number in written if rank.launches[number].gate == "failed"]
    if failed and not rules.entries_after_failure:
        written = written[:written.index(failed[0]) + 1]
    return written


def has_room(rules, rank):
    """A rank that is not paced writes no entry over one that its host has not read, and none over the last passed."""
    return rules.paced or sum(number >= rank.seen for number in entries(rules, rank)) < rules.depth - 1


def journal_position(rules, world, rank):
    """The steps passed, by the newest entry of a passed step."""
    for number in reversed(entries(rules, rank)[-rules.depth:]):
        if rank.launches[number].gate == "passed":
            return world.base + sum(launch.gate == "passed" for launch in rank.launches[:number + 1])
    return world.base


# --- The promises ---

SAME = "no two survivors apply different updates for a step"
TRUE = "every applied update is the true sum of that step's gradients of all ranks, each sample once"
CONTRIBUTED = "a rank that contributed to step s+1 has passed step s"
APART = "survivors are never more than one step apart"
FORWARD = "a roll forward applies the same bytes"
SCOPED = "step_scoped state is that of the step that follows the decision"
EFFECT = "no host effect takes place at different steps on different ranks"
# explore.PROGRESS: when no more faults happen, every run ends


def at_contribution(rank, number):
    if any(launch.gate == "failed" for launch in rank.launches[:number]):
        return CONTRIBUTED
    return None


def at_pass(rules, job, world, r, number, whole):
    """Rank r's gate of launch `number` passes; `whole`: all records that it read are those of this launch."""
    rank = world.ranks[r]
    if not whole or not intact(rules, world, rank, number) or is_void(rules, job, world, number, rank.launches[number]):
        return TRUE
    skipped = rules.void_advances and any(launch.gate == "void" for launch in rank.launches)
    if skipped or rank.recovered:
        return TRUE  # samples that nobody used, or an update applied again
    others = [applied(world, other) for q, other in enumerate(world.ranks) if q != r and other.fate == "runs"]
    if rank.fate == "runs" and any(applied(world, rank) > steps for steps in others):
        return APART
    return None


def at_decision(world, reports):
    if max(reports) - min(reports) > 1:
        return APART
    left = max((rank.report for rank in world.ranks if rank.fate == "left"), default=0)
    if max(reports) < left:
        return SAME  # a rank that left has applied more
    return None


def at_recovery(rules, world, rank):
    target, own = world.decision, applied(world, rank)
    if own > target:
        return SAME
    if own < target - 1:
        return APART
    kept = next((number for number, launch in enumerate(rank.launches) if launch.gate not in ("passed", "void")),
                len(rank.launches))
    if own < target and rules.lagging == "copies":
        return None
    if own < target:
        if kept == len(rank.launches) or not intact(rules, world, rank, kept):
            return FORWARD
        kept += 1
    if not rules.snapshots_ask_failed and begun(rank) > kept and kept < begun(rank) - rules.copies:
        return SCOPED
    return None


def at_enqueue(world, r, number, launch):
    for q, other in enumerate(world.ranks):
        if q != r and number < len(other.launches) and other.launches[number].changed != launch.changed:
            return EFFECT
    return None


# --- The host's actions: what rank r's host may do in this world ---


def with_rank(world, r, **changes):
    rank = world.ranks[r]._replace(**changes)
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])


def with_launch(world, r, number, **changes):
    rank = world.ranks[r]
    launches = rank.launches
    launch = launches[number]._replace(**changes)
    rank = Rank(rank.fate, launches[:number] + (launch,) + launches[number + 1:], *rank[2:])
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])


def enqueue(rules, job, world, r):
    rank = world.ranks[r]
    number = len(rank.launches)
    if number == launches_in(rules, job, world) or (rules.paced and number > rank.seen + rules.run_ahead):
        return
    launch = NOT_BEGUN[job.lanes]._replace(changed=rank.told and number >= rules.late)
    yield (f"rank {r} enqueues launch {number}" + (", changed" if launch.changed else ""),
           with_rank(world, r, launches=rank.launches + (launch,)), at_enqueue(world, r, number, launch))


def see(rules, job, world, r):
    """The host reads a verdict once its commit word is visible. It goes on after a step that passed or was void.

    Without an effect, and if it is paced, it makes no difference when it does so; it then reads only what it must, as late as it can.
    """
    rank = world.ranks[r]
    if rank.seen == len(rank.launches):
        return
    needed = (rank.seen + rules.run_ahead < len(rank.launches)
              or len(rank.launches) == launches_in(rules, job, world))
    gate = rank.launches[rank.seen].gate
    if gate in ("passed", "void", "skipped", "commit") and (needed or effect_in(job, world) or not rules.paced):
        told = rank.told or (effect_in(job, world) and rank.seen == 0 and gate != "commit")
        yield f"rank {r}'s host sees verdict {rank.seen}", with_rank(world, r, seen=rank.seen + 1, told=told), None


def leave(rules, job, world, r):
    rank = world.ranks[r]
    if rank.seen == launches_in(rules, job, world):
        yield f"rank {r} leaves after the last step", with_rank(world, r, fate="left", report=applied(world, rank)), None


def stop(rules, world, r):
    rank = world.ranks[r]
    if not rank.stop and (rules.abort_after_stop or rank.abort):
        yield f"rank {r}'s host sets stop", with_rank(world, r, stop=True), None


def abort(rules, world, r):
    rank = world.ranks[r]
    if rules.aborts and not rank.abort and (rank.stop or not rules.abort_after_stop):
        yield f"rank {r}'s host aborts its communicators", with_rank(world, r, abort=True), None


def report(rules, world, r):
    rank = world.ranks[r]
    if not rank.stop or rank.report >= 0 or (rules.aborts and not rank.abort):
        return
    steps = journal_position(rules, world, rank)
    if rules.report_from == "host":
        steps = world.base + sum(launch.gate == "passed" for launch in rank.launches[:rank.seen])
    if drained(rank) or rules.drain == "skipped":
        yield f"rank {r} reports {steps} steps passed", with_rank(world, r, report=steps), None
    elif world.faults > 0:
        late = world._replace(faults=world.faults - 1)
        name = f"? rank {r}'s drain does not end"
        if rules.lost_reports:
            yield f"{name}, and it reports {steps} steps passed", with_rank(late, r, report=steps), None
        elif rules.drain == "bounded":
            yield f"{name}: it is lost", with_rank(late, r, fate="lost"), None
        else:
            yield f"{name}", with_rank(late, r, fate="hangs"), None


def recover(rules, world, r):
    rank = world.ranks[r]
    if rank.recovered:
        return
    done = "has nothing to apply"
    if applied(world, rank) < world.decision:
        done = "rolls forward"
        if rules.lagging == "copies":
            done = "copies the state of a rank that passed"
            if not any(other.fate == "runs" and applied(world, other) == world.decision for other in world.ranks):
                return
    yield f"rank {r} {done}", with_rank(world, r, recovered=True), at_recovery(rules, world, rank)


# --- The device's actions: rank r's stream ---


def start(world, r, number):
    """Backward, pack, and the send half of the transfers. After a failed gate the gradients are not those of a step."""
    rank = world.ranks[r]
    sent = "stale" if has_failed(rank) else "sent"
    yield f"rank {r} begins launch {number}", with_launch(world, r, number, input=sent), None


def transfer(rules, world, r, number, lane):
    rank = world.ranks[r]
    inputs = [other.launches[number].input if number < len(other.launches) else "" for other in world.ranks]
    name = f"transfer {number}" + (f" of lane {lane}" if len(rank.launches[number].lanes) > 1 else "")
    if all(inputs):
        result = "sum" if all(sent == "sent" for sent in inputs) else "garbage"
        yield completed(rules, world, r, number, lane, result, f"rank {r} completes {name}: {result}")
    if world.spoiled_sums >> number & 1:
        label = f"? rank {r} completes {name} with garbage of an aborted peer"
        yield completed(rules, world, r, number, lane, "garbage", label)
    if rank.abort:
        spoiled = world._replace(spoiled_sums=world.spoiled_sums | 1 << number)
        label = f"rank {r}'s {name} breaks off and sends garbage"
        yield completed(rules, spoiled, r, number, lane, "garbage", label)


def completed(rules, world, r, number, lane, result, label):
    """Behind the last transfer the rank writes its record.

    One action: in between only `stop` could change, and it might as well have changed before.
    """
    rank = world.ranks[r]
    launch = rank.launches[number]
    lanes = launch.lanes[:lane] + (result,) + launch.lanes[lane + 1:]
    if launch.record or not all(lanes if rules.record_behind == "all lanes" else lanes[:1]):
        return label, with_launch(world, r, number, lanes=lanes), None
    refused = ("stop" in rules.record_asks and rank.stop) or ("failed" in rules.record_asks and has_failed(rank))
    record = "invalid" if refused else "valid" if has_room(rules, rank) else "full"
    return (f"{label}; its record is {record}", with_launch(world, r, number, lanes=lanes, record=record),
            None if refused else at_contribution(rank, number))


def views_of(rules, job, world, q, number, tampered):
    """What a gate may read as rank q's record of a launch: pairs of accepted and whole."""
    launches = world.ranks[q].launches
    record = launches[number].record if number < len(launches) else ""
    views = set()
    if record:
        views.add((record != "invalid", record != "invalid"))
    if tampered:
        views.add((False, False))  # garbage
        if not rules.checksum:
            views.add((True, False))  # its first half
        before = launches[number - 1] if 0 < number <= len(launches) else None
        if before is not None and before.record in ("valid", "full"):
            void = before.gate in ("void", "skipped")
            views.add((rules.hash == "nothing" or (rules.hash == "step" and void), False))
    return views


def verdicts(rules, job, world, r, number, tampered):
    """How rank r's gate may decide: pairs of passes and whole."""
    views = [views_of(rules, job, world, q, number, tampered and q != r) for q in range(len(world.ranks))]
    if not all(views):
        return set()
    if rules.gate == "own record":
        own = world.ranks[r].launches[number].record == "valid"
        return {(own, all((True, True) in some for some in views))}
    found = set()
    if all((True, True) in some for some in views):
        found.add((True, True))
    if any(not accepted for some in views for accepted, _ in some):
        found.add((False, False))
    if all(any(accepted for accepted, _ in some) for some in views) and any((True, False) in some for some in views):
        found.add((True, False))
    if rules.gate == "sum of stamps" and tampered:
        found.add((True, all((True, True) in some for some in views)))
    return found


def gate(rules, job, world, r, number):
    """All-gather, gate, journal entry, commit and update. Only what an abort changes lies between them."""
    rank = world.ranks[r]
    spoiled = world.spoiled_records >> number & 1
    void = is_void(rules, job, world, number, rank.launches[number])
    asked = world.ranks if rules.full_journal == "void on all ranks" else (rank,)
    full = any(number < len(other.launches) and other.launches[number].record == "full" for other in asked)
    arrived = all(number < len(other.launches) and other.launches[number].record for other in world.ranks)
    for passed, whole in sorted(verdicts(rules, job, world, r, number, rank.abort or spoiled)):
        after, broken, text = world, None, "failed"
        if rank.abort and not passed:
            after = world._replace(spoiled_records=world.spoiled_records | 1 << number)
        elif passed and full and whole:
            text = "skipped"
        elif passed and void and whole:
            text = "void"
        elif passed:
            text = "passed" if rules.commit_after_journal else "commit"
            broken = at_pass(rules, job, world, r, number, whole)
        chance = "" if arrived or rank.abort else "? "
        yield (f"{chance}rank {r}'s gate of launch {number}: {text}",
               with_launch(after, r, number, gate=text), broken)


def device(rules, job, world, r):
    rank = world.ranks[r]
    number = position(rank)
    if number == len(rank.launches):
        return
    launch = rank.launches[number]
    if launch.gate == "commit":
        yield (f"rank {r}'s journal entry of launch {number} is complete",
               with_launch(world, r, number, gate="passed"), None)
        return
    if launch.input == "":
        yield from start(world, r, number)
        return
    for lane, result in enumerate(launch.lanes):
        if result == "":
            yield from transfer(rules, world, r, number, lane)
    if launch.record:
        yield from gate(rules, job, world, r, number)


# --- Faults, and the coordinator ---


def die(world, r):
    if world.faults > 0:
        dead = with_rank(world, r, fate="dead")
        yield f"? rank {r} dies", dead._replace(ending=True, faults=world.faults - 1), None


def fail_alone(world):
    """A step call fails on one rank, or a link breaks: the epoch ends, and nobody is lost."""
    if world.faults > 0:
        yield "? the epoch ends, nobody is lost", world._replace(ending=True, faults=world.faults - 1), None


def decide(rules, job, world):
    """Compares the positions of all members that are not lost, once all have reported."""
    members = [rank for rank in world.ranks if rank.fate in ("runs", "hangs")]
    if not members or any(rank.report < 0 for rank in members):
        return
    reports = [rank.report for rank in members]
    if rules.counts_leavers:
        reports += [rank.report for rank in world.ranks if rank.fate == "left"]
    if world.decision < 0:
        target = max(reports)
        decision = "roll forward" if min(reports) < target else "replay"
        yield (f"the coordinator decides: {decision}, {target} steps passed", world._replace(decision=target),
               at_decision(world, reports))
    elif rules.lagging == "copies" and all(applied(world, rank) < world.decision for rank in members):
        target = max(applied(world, rank) for rank in members)
        yield (f"nobody is left who passed: the coordinator decides again, {target} steps passed",
               world._replace(decision=target), at_decision(world, [target]))


def next_epoch(job, world):
    """All survivors, with newcomers for the others, who take their state from a survivor. It has the same rules."""
    members = [rank for rank in world.ranks if rank.fate == "runs"]
    if members and all(rank.recovered for rank in members):
        after = begin(job, world.decision, world.faults)
        if world.decision == job.steps or any(rank.fate == "left" for rank in world.ranks):
            done = Rank("left", (), 0, False, False, False, -1, False)
            after = after._replace(ranks=(done,) * job.ranks)
        yield f"the next epoch begins after {world.decision} steps", after, None


class GpuStep:
    """The model, for explore()."""

    def __init__(self, rules=Rules(), job=Job()):
        self.rules, self.job = rules, job
        self.start = begin(job, 0, job.faults)

    def actions(self, world):
        rules, job = self.rules, self.job
        for r, rank in enumerate(world.ranks):
            if rank.fate == "runs":
                if not rank.stop and not rank.abort:
                    yield from enqueue(rules, job, world, r)
                    yield from see(rules, job, world, r)
                    yield from leave(rules, job, world, r)
                if world.ending:
                    yield from stop(rules, world, r)
                    yield from abort(rules, world, r)
                    yield from report(rules, world, r)
                if world.decision >= 0:
                    yield from recover(rules, world, r)
                yield from die(world, r)
            if rank.fate in ("runs", "lost"):
                yield from device(rules, job, world, r)
        if world.ending:
            yield from decide(rules, job, world)
            yield from next_epoch(job, world)
        else:
            yield from fail_alone(world)

    def final(self, world):
        return all(rank.fate in ("dead", "lost", "left") for rank in world.ranks)

    def canonical(self, world):
        """Ranks in one order; without what no action and no promise reads any more."""
        ranks = tuple(sorted(rank if rank.fate == "runs" else self.remains(rank) for rank in world.ranks))
        spoiled_sums, spoiled_records = world.spoiled_sums, world.spoiled_records
        if spoiled_sums or spoiled_records:
            passed = min((position(rank) for rank in ranks if rank.fate in ("runs", "lost")), default=8)
            spoiled_records = spoiled_records >> passed << passed
            if not self.rules.direct_writes:
                spoiled_sums = spoiled_sums >> passed << passed
        return World(world.base, ranks, spoiled_sums, spoiled_records, world.ending, world.decision, world.faults)

    def remains(self, rank):
        """Of a rank that is gone: what it has sent. A lost rank's device goes on."""
        launches = rank.launches
        if rank.fate in ("dead", "left"):
            launches = tuple(Launch(launch.changed, launch.input, (), launch.record,
                                    launch.gate if launch.gate in ("void", "skipped") else "") for launch in launches)
        lost = rank.fate == "lost"
        report = rank.report if rank.fate == "left" else -1
        return Rank(rank.fate, launches, 0, False, lost and rank.stop, lost and rank.abort, report, False)
