"""The rules and the world of the model of GPU steps (gpu_step.py), and what one can read off a world."""

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


def with_rank(world, r, **changes):
    rank = world.ranks[r]._replace(**changes)
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])


def with_launch(world, r, number, **changes):
    rank = world.ranks[r]
    launches = rank.launches
    launch = launches[number]._replace(**changes)
    rank = Rank(rank.fate, launches[:number] + (launch,) + launches[number + 1:], *rank[2:])
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])
