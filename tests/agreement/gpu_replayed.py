"""Replayed steps in the model of GPU steps (gpu_step.py): a program launches one graph of the whole step, any number of
times, and waits for nothing. The host has no event of a launch.

    host      stop ─▶ how many records ─▶ abort ─▶ as many gates ─▶ report
               │          have begun?                have decided?     ▲
               │              ▲                           ▲            │ journal
               ▼              │                           │            │
    device    [backward][transfers][copy][begun; stop?; record][all-gather][gate; entry; decided ▶ update from the copy]

- The graph has one bucket set. A copy of the reduced gradients stays until they have been applied; a rank that is one step
  behind rolls forward from it.
- Each gate derives from the records of all ranks whether the next launches are void: behind a launch of which a journal had no
  room, during a pause, and for ever behind the last step.
- Ranks may make different numbers of launches behind the last step. A rank that has seen the end and waits for a peer there
  aborts its communicators, and leaves.

Three things could happen at more times than the model has. A queued launch makes no difference until the device begins it, so
it is launched then. A host reads an entry as late as it can: when its journal would have no room, or at the end. A rank whose gate
has failed passes nothing more, so each launch behind it is one action.
"""

from gpu_hosts import recover, report
from gpu_promises import at_contribution, at_gate, at_leave
from gpu_world import (
    NOT_BEGUN, Launch, aborted, applied, drained, entries, has_ended, has_failed, is_refused, launches_in, saw_end,
    with_launch, with_rank,
)


def host_actions(rules, job, world, r):
    rank = world.ranks[r]
    ended = saw_end(rules, world, rank)
    if not rank.stop and not ended:
        yield from see_end(rules, world, r)
    yield from leave(rules, job, world, r)
    waits = rules.leaves_by_abort and ended and not drained(rank)
    if world.ending or waits:
        yield from stop_and_abort(rules, world, r)
    if world.ending:
        yield from report(rules, world, r)
    elif not ended:
        yield from find_broken(world, r)
    if world.decision >= 0 and drained(rank):  # it recovers in its stream
        yield from recover(rules, world, r)


def see_end(rules, world, r):
    rank = world.ranks[r]
    if has_ended(world, rank.launches):
        read = [number for number in entries(rules, rank) if rank.launches[number].gate == "passed"]
        yield f"rank {r}'s host sees the end: verdict {read[-1]}", with_rank(world, r, seen=len(read)), None


def leave(rules, job, world, r):
    """Behind the last step, or where the model ends: a program that has made all launches without a last step."""
    rank = world.ranks[r]
    if not drained(rank) or rank.report >= 0:
        return
    made = len(rank.launches) == launches_in(rules, job, world) and not has_failed(rank) and not rank.stop
    if made or saw_end(rules, world, rank):
        left = with_rank(world, r, fate="left", report=applied(world, rank))
        yield f"rank {r} leaves after the last step", left, at_leave(rules, rank)


def find_broken(world, r):
    """A gate has failed, or a peer that leaves has aborted."""
    rank = world.ranks[r]
    if has_failed(rank) or any(other.abort for other in world.ranks):
        yield f"rank {r}'s host finds its communicators broken: the epoch ends", world._replace(ending=True), None


def stop_and_abort(rules, world, r):
    """One action: an abort at once allows all that a later one would. Nor need the host look later how many records have
    begun: it would only wait for more."""
    rank = world.ranks[r]
    if rank.stop:
        return
    begun = sum(launch.record not in ("", "unpublished") for launch in rank.launches)
    if rules.reads_begun == "after stop":
        label = f"rank {r}'s host sets stop, reads that {begun} records have begun, and aborts"
        yield label, aborted(world, r, stop=True, begun=begun), None
    elif rank.begun < 0:
        yield f"rank {r}'s host reads that {begun} records have begun", with_rank(world, r, begun=begun), None
    else:
        yield f"rank {r}'s host sets stop, and aborts", aborted(world, r, stop=True), None


# --- The device ---


def launch_again(rules, job, world, r):
    """The program launches until it recovers, also behind the end that its host may have seen."""
    rank = world.ranks[r]
    number = len(rank.launches)
    if not drained(rank) or number == launches_in(rules, job, world) or rank.recovered:
        return
    if not has_failed(rank):
        launch = NOT_BEGUN[job.lanes]._replace(input="sent")
        optional = "? " if saw_end(rules, world, rank) else ""
        yield f"{optional}rank {r} begins launch {number}", with_rank(world, r, launches=rank.launches + (launch,)), None
    elif rank.abort and (rules.behind_failure != "wait" or world.decision >= 0):
        yield fail_again(rules, job, world, r, number)


def fail_again(rules, job, world, r, number):
    """Behind a gate that has failed. The record is invalid, so no peer passes this launch, whatever it receives."""
    garbage = 0 if rules.behind_failure == "hold" else 1 << number
    after = world._replace(spoiled_sums=world.spoiled_sums | garbage, spoiled_records=world.spoiled_records | 1 << number)
    launch = Launch(False, "stale", ("garbage",) * job.lanes, "invalid", "failed")
    after = with_rank(after, r, launches=world.ranks[r].launches + (launch,))
    label = f"rank {r}'s launch {number} " + ("sends garbage, and fails" if garbage else "fails")
    return label, after, at_gate(rules, world, r, number, "failed")


def begin_record(rules, world, r, number, lanes, label):
    """The record's kernel publishes that it has begun, and then reads `stop`; or, wrongly, the other way round."""
    if rules.publishes == "before stop":
        return f"{label}; its record has begun", with_launch(world, r, number, lanes=lanes, record="begun"), None
    refused = is_refused(rules, world.ranks[r])
    text = "is invalid" if refused else "has read no stop"
    record = "invalid" if refused else "unpublished"
    return f"{label}; its record {text}", with_launch(world, r, number, lanes=lanes, record=record), None


def write_record(rules, job, world, r, number):
    rank = world.ranks[r]
    if rank.launches[number].record == "begun" and is_refused(rules, rank):
        yield f"rank {r}'s record of launch {number} is invalid", with_launch(world, r, number, record="invalid"), None
        return
    for seen, record in readings(rules, rank):
        for command, word in words(job, world, rank):
            after = with_rank(world, r, seen=seen, command=command)
            label = f"rank {r}'s record of launch {number} is {record}" + (f" and says {word}" if word else "")
            yield label, with_launch(after, r, number, record=record, word=word), at_contribution(rank, number)


def readings(rules, rank):
    """How many entries the host has read when a record is written, as few as it can; and the record."""
    missing = len(entries(rules, rank)) - rank.seen - (rules.depth - rules.reserved) + 1
    return [(rank.seen, "valid")] if missing <= 0 else [(rank.seen, "full"), (rank.seen + missing, "valid")]


def words(job, world, rank):
    """The command that the host has when a record is written, and what the record says."""
    if job.command is None:
        return [("", "end" if applied(world, rank) >= job.steps - 1 else "")]
    commands = {"pause": ("", "pause", "resume"), "stop": ("", "stop")}[job.command] if world.base == 0 else ("",)
    says = {"pause": "pause", "stop": "end"}
    return [(command, says.get(command, "")) for command in commands[commands.index(rank.command):]]
