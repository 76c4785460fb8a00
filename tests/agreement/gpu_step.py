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
peer reads the garbage or the data is open. A rank that is lost goes on writing; a dead one does not. One thing is assumed, because
no rule of steps in flight would help but those of `behind_failure` and `compares_sums`: an aborted transfer does not overrun
what a peer has still to read of the launch before, in a staging buffer (`overruns`).

gpu_world.py has the rules and the world, gpu_promises.py the promises, gpu_hosts.py the hosts' actions, gpu_replayed.py what
differs where the program launches steps. Here are the actions of the devices and the coordinator, faults, and the model.
"""

import gpu_hosts
import gpu_replayed
from gpu_promises import at_contribution, at_decision, at_gate, at_pass
from gpu_world import (
    Job, Launch, Rank, Rules, World, applied, begin, has_ended, has_failed, is_refused, is_void, overwritten,
    position, with_launch, with_rank,
)

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
    if world.spoiled_sums >> number if rules.overruns else world.spoiled_sums >> number & 1:
        label = f"? rank {r} completes {name} with garbage of an aborted peer"
        yield completed(rules, world, r, number, lane, "garbage", label)
    if rank.abort:
        spoiled = world._replace(spoiled_sums=world.spoiled_sums | 1 << number)
        label = f"rank {r}'s {name} breaks off and sends garbage"
        yield completed(rules, spoiled, r, number, lane, "garbage", label)


def completed(rules, world, r, number, lane, result, label):
    """Copies the sum, if one is kept. Behind the last transfer the rank writes its record.

    One action: in between only `stop` could change, and it might as well have changed before. It is two for replayed
    steps, whose hosts look in between.
    """
    rank = world.ranks[r]
    launch = rank.launches[number]
    if rules.kept and result == "sum" and overwritten(rules, world, number):
        result, label = "garbage", f"{label}, and then garbage of a later launch of a peer"
    lanes = launch.lanes[:lane] + (result,) + launch.lanes[lane + 1:]
    if launch.record or not all(lanes if rules.record_behind == "all lanes" else lanes[:1]):
        return label, with_launch(world, r, number, lanes=lanes), None
    if rules.replayed:
        return gpu_replayed.begin_record(rules, world, r, number, lanes, label)
    refused = is_refused(rules, rank)
    record = "invalid" if refused else "valid"
    return (f"{label}; its record is {record}", with_launch(world, r, number, lanes=lanes, record=record),
            None if refused else at_contribution(rank, number))


WRITTEN = ("valid", "invalid", "full")


def views_of(rules, job, world, q, number, tampered):
    """What a gate may read as rank q's record of a launch: pairs of accepted and whole."""
    launches = world.ranks[q].launches
    record = launches[number].record if number < len(launches) else ""
    views = set()
    if record in WRITTEN:
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
    void = is_void(rules, job, world, rank, number)
    if rules.replayed and rules.pause_by == "own record":
        void = rank.launches[number].word == "pause" or has_ended(world, rank.launches[:number])
    asked = world.ranks if rules.full_journal == "void on all ranks" else (rank,)
    full = any(number < len(other.launches) and other.launches[number].record == "full" for other in asked)
    differ = rules.compares_sums and any(
        "garbage" in other.launches[number].lanes for other in world.ranks if number < len(other.launches))
    arrived = all(number < len(other.launches) and other.launches[number].record in WRITTEN for other in world.ranks)
    for passed, whole in sorted(verdicts(rules, job, world, r, number, rank.abort or spoiled)):
        after, broken, text = world, None, "failed"
        if rank.abort and not passed:
            after = world._replace(spoiled_records=world.spoiled_records | 1 << number)
        elif passed and whole and differ:
            text = "failed"
        elif passed and whole and (full or (void and rules.replayed)):
            text = "skipped"
        elif passed and void and whole:
            text = "void"
        elif passed:
            text = "passed" if rules.commit_after_journal else "commit"
            broken = at_pass(rules, job, world, r, number, whole)
        if rules.replayed:
            broken = broken or at_gate(rules, world, r, number, text)
        chance = "" if rank.abort or (arrived and not spoiled) else "? "
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
    if launch.record in ("begun", "unpublished"):
        yield from gpu_replayed.write_record(rules, job, world, r, number)
    elif launch.record:
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
        hosts = gpu_replayed if rules.replayed else gpu_hosts
        for r, rank in enumerate(world.ranks):
            if rank.fate == "runs":
                yield from hosts.host_actions(rules, job, world, r)
                yield from die(world, r)
            if rank.fate in ("runs", "lost"):
                if rules.replayed:
                    yield from gpu_replayed.launch_again(rules, job, world, r)
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
        ranks = tuple(sorted(self.remains(rank) if rank.fate != "runs" else
                             rank._replace(begun=0) if rank.report >= 0 else rank for rank in world.ranks))
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
            read = ("passed", "void", "skipped") if self.rules.replayed else ("void", "skipped")
            launches = tuple(Launch(launch.changed, launch.input, launch.lanes if self.rules.compares_sums else (),
                                    launch.record, launch.gate if launch.gate in read else "", launch.word)
                             for launch in launches)
        lost, left = rank.fate == "lost", rank.fate == "left"
        report = rank.report if left else -1
        seen = rank.seen if lost and self.rules.replayed else 0
        return Rank(rank.fate, launches, seen, False, lost and rank.stop, rank.abort and (lost or left), report, False)
