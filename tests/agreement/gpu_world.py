"""The rules and the world of the model of GPU steps (gpu_step.py), and what one can read off a world."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rules:
    """How a step works. The defaults are right; each negative control changes one field."""
    run_ahead: int = 1  # launch k is enqueued once the host has seen the verdict of launch k - run_ahead - 1
    replayed: bool = False  # the program launches one graph of the whole step any number of times, and waits for nothing
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
    overruns: bool = False  # an aborted transfer may overrun a staging buffer of the launch before, which a peer still reads
    compares_sums: bool = False  # a record has a checksum of the reduced gradients, and a gate fails if they differ
    lagging: str = "rolls forward"  # a rank that is one step behind | "copies": the state of a rank that is not
    closing_void: bool = False  # a void launch follows the last step
    kept: str = ""  # a copy of the reduced gradients that no peer writes to: "asks failed" | "asks nothing" | "": none
    update_reads: str = "kept"  # if there is such a copy | "bucket"
    snapshots: int | None = None  # of step_scoped state; None: run_ahead + 1. Replayed: before a backward pass, and behind it
    effects_after: int | None = None  # an effect of verdict k begins with launch k + this; None: run_ahead + 1
    void_advances: bool = False  # the step number, and with it the samples
    counts_leavers: bool = True  # in the decision

    # Of replayed steps alone:
    behind_failure: str = "go on"  # launches behind a gate that failed | "hold" their transfers | "wait" for the decision
    reserved: int = 1  # entries of the journal that only a gate that fails may take
    snapshots_ask_failed: bool = True  # the kernels that take them write nothing once `failed` is set
    void_restores: bool = True  # behind the gate of a void launch, step_scoped state becomes what it was before it
    pause_by: str = "all records"  # | "own record": what tells a gate that the launch is void
    pause_begins: str = "passed step"  # behind which launch: one that passed | "any launch"
    leaves_by_abort: bool = True  # a rank that has seen the end and whose stream waits for its peers
    publishes: str = "before stop"  # when the record says that it has begun: before it reads `stop` | "after stop"
    reads_begun: str = "after stop"  # when the host does: after it has set `stop` | "before stop"

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
    # Of replayed steps alone:
    command: str | None = None  # each host gets it at some time: "pause", and then "resume" | "stop"
    more: int = 1  # launches that a program may make beyond those of the steps


# --- The world ---


class Launch(NamedTuple):
    """One step in one rank's stream."""
    changed: bool  # enqueued with the effect in force
    input: str  # "" not begun | "sent" this step's gradients | "stale": something else
    lanes: tuple  # per lane: "" running | "sum": the true one | "garbage"
    record: str  # "" | "begun", "unpublished": see begin_record | "valid" | "invalid" | "full": the journal has no room
    gate: str  # "" | "passed" | "void" | "skipped": void, without an entry | "failed" | "commit": visible, and its journal entry is not
    word: str = ""  # what the record of a replayed step says: "" | "pause" | "end"


class Rank(NamedTuple):
    fate: str  # "runs" | "dead" | "lost" | "left": after the last step | "hangs": in its drain
    launches: tuple  # enqueued in this epoch, oldest first
    seen: int  # verdicts that the host has read
    told: bool  # the host knows of the effect
    stop: bool  # the host's one-way word, which the device reads
    abort: bool  # the communicators' abort flag
    report: int  # steps passed since training began; -1: none
    recovered: bool  # has done what was decided
    command: str = ""  # the host's, of replayed steps: "" | "pause" | "resume" | "stop"
    begun: int = -1  # records that had begun when the host of replayed steps looked; -1: it has not looked


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


LAUNCHES_MAX = 8
NOT_BEGUN = {lanes: Launch(False, "", ("",) * lanes, "", "") for lanes in (1, 2)}


def effect_in(job, world):
    return job.effect is not None and world.base == 0


def launches_in(rules, job, world):
    if rules.replayed:
        return job.steps - world.base + job.more
    voids = rules.late - 1 if job.effect == "out of data" and world.base == 0 else 0
    return job.steps - world.base + voids + rules.closing_void


def shows(world, number, word):
    """Whether the records of all ranks of launch `number` say `word`."""
    return all(number < len(rank.launches) and rank.launches[number].word == word for rank in world.ranks)


def pauses(rules, world, rank, number):
    """Whether the records of the launches before make launch `number` void: during a pause."""
    paused = False
    for earlier, launch in enumerate(rank.launches[:number]):
        begins = launch.gate == "passed" or rules.pause_begins == "any launch"
        paused = (paused or begins) and shows(world, earlier, "pause")
    return paused


def has_ended(world, launches):
    """Whether one of these launches of a rank was the last step: every launch behind it is void."""
    return any(launch.gate == "passed" and shows(world, number, "end") for number, launch in enumerate(launches))


def is_void(rules, job, world, rank, number):
    """Between the verdict that shows that no rank has more data, and the first launch with data again; or at the end."""
    if rules.replayed:
        return pauses(rules, world, rank, number) or has_ended(world, rank.launches[:number])
    launch = rank.launches[number]
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


def decided(rank):
    """The gates that have published that they have decided."""
    return sum(launch.gate != "" for launch in rank.launches)


def drained(rank):
    return position(rank) == len(rank.launches)


def overwritten(rules, world, number):
    """Whether an aborted peer has written to the buckets of launch `number`, in a later launch."""
    later = range(number + rules.sets, LAUNCHES_MAX, rules.sets)
    return rules.direct_writes and any(world.spoiled_sums >> launch & 1 for launch in later)


def bucket_intact(rules, world, rank, number):
    """Whether the buckets of launch `number` still contain its reduced gradients."""
    if rules.buckets == "views" or rules.held_by_failed != {"pack", "transfer"}:
        if any(launch.input for launch in rank.launches[number + rules.sets::rules.sets]):
            return False
    return not overwritten(rules, world, number) and all(lane == "sum" for lane in rank.launches[number].lanes)


def kept_intact(rules, rank, number):
    """The same for the copy. Once a gate has failed all later copies find `failed` set."""
    held = rules.kept == "asks failed" and rank.launches[number].gate == "failed"
    copied = any(any(launch.lanes) for launch in rank.launches[number + 1:])
    return (held or not copied) and all(lane == "sum" for lane in rank.launches[number].lanes)


def can_update(rules, world, rank, number):
    kept = rules.kept and rules.update_reads == "kept"
    return kept_intact(rules, rank, number) if kept else bucket_intact(rules, world, rank, number)


def can_roll_forward(rules, world, rank, number):
    return kept_intact(rules, rank, number) if rules.kept else bucket_intact(rules, world, rank, number)


def scoped(rules, launches):
    """The step_scoped state behind these replayed launches, as the sets of launches whose backward passes changed it:
    what it is, the two snapshots, and what it shall be. Snapshots are taken before and behind a backward pass."""
    state, before, behind, passed, failed = 0, 0, 0, 0, False
    for number, launch in enumerate(launches):
        if launch.input == "":
            break
        held = failed and rules.snapshots_ask_failed
        before = before if held else state
        state |= 1 << number
        behind = behind if held else state
        if launch.gate == "passed":
            passed |= 1 << number
        elif launch.gate == "skipped" and rules.void_restores:
            state = before
        failed = failed or launch.gate == "failed"
    return state, before, state if rules.snapshots == 1 else behind, passed


def scoped_is_right(rules, rank, rolls_forward):
    """Whether a rank whose stream is drained has the step_scoped state of the step that it is to go on with."""
    state, before, behind, passed = scoped(rules, rank.launches)
    for number, launch in enumerate(rank.launches):
        if launch.gate == "failed":
            return behind == passed | 1 << number if rolls_forward else before == passed
    return state == passed


def entries(rules, rank):
    """The launches that the journal had entries of, oldest first."""
    written = [number for number, launch in enumerate(rank.launches) if launch.gate in ("passed", "void", "failed")]
    failed = [number for number in written if rank.launches[number].gate == "failed"]
    if failed and not rules.entries_after_failure:
        written = written[:written.index(failed[0]) + 1]
    return written


def saw_end(rules, world, rank):
    """Whether the host of replayed steps has read the verdict of the last step."""
    read = entries(rules, rank)[:rank.seen]
    return bool(read) and has_ended(world, rank.launches[:read[-1] + 1])


def journal_position(rules, world, rank):
    """The steps passed, by the newest entry of a passed step."""
    for number in reversed(entries(rules, rank)[-rules.depth:]):
        if rank.launches[number].gate == "passed":
            return world.base + sum(launch.gate == "passed" for launch in rank.launches[:number + 1])
    return world.base


def is_refused(rules, rank):
    """Whether a record is invalid."""
    return ("stop" in rules.record_asks and rank.stop) or ("failed" in rules.record_asks and has_failed(rank))


def with_rank(world, r, **changes):
    rank = world.ranks[r]._replace(**changes)
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])


def with_launch(world, r, number, **changes):
    rank = world.ranks[r]
    launches = rank.launches
    launch = launches[number]._replace(**changes)
    rank = Rank(rank.fate, launches[:number] + (launch,) + launches[number + 1:], *rank[2:])
    return World(world.base, world.ranks[:r] + (rank,) + world.ranks[r + 1:], *world[2:])


def aborted(world, r, **changes):
    """Rank r's communicators are aborted. A peer may still be in an all-gather that this rank has completed."""
    behind = (1 << position(world.ranks[r])) - 1
    return with_rank(world._replace(spoiled_records=world.spoiled_records | behind), r, abort=True, **changes)
