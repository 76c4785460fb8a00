"""The hosts' actions in the model of GPU steps (gpu_step.py): what rank r's host may do in this world.

An action yields (label, next world, broken promise or None), for explore().
"""

from gpu_promises import at_enqueue, at_recovery
from gpu_world import (
    NOT_BEGUN, aborted, applied, decided, drained, effect_in, journal_position, launches_in, with_rank,
)


def host_actions(rules, job, world, r):
    rank = world.ranks[r]
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


def enqueue(rules, job, world, r):
    rank = world.ranks[r]
    number = len(rank.launches)
    if number == launches_in(rules, job, world) or number > rank.seen + rules.run_ahead:
        return
    launch = NOT_BEGUN[job.lanes]._replace(changed=rank.told and number >= rules.late)
    yield (f"rank {r} enqueues launch {number}" + (", changed" if launch.changed else ""),
           with_rank(world, r, launches=rank.launches + (launch,)), at_enqueue(world, r, number, launch))


def see(rules, job, world, r):
    """The host reads a verdict once its commit word is visible. It goes on after a step that passed or was void.

    Without an effect it makes no difference when it does so; it then reads only what it must, as late as it can.
    """
    rank = world.ranks[r]
    if rank.seen == len(rank.launches):
        return
    needed = (rank.seen + rules.run_ahead < len(rank.launches)
              or len(rank.launches) == launches_in(rules, job, world))
    gate = rank.launches[rank.seen].gate
    if gate in ("passed", "void", "skipped", "commit") and (needed or effect_in(job, world)):
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
        yield f"rank {r}'s host aborts its communicators", aborted(world, r), None


def report(rules, world, r):
    rank = world.ranks[r]
    if not rank.stop or rank.report >= 0 or (rules.aborts and not rank.abort):
        return
    steps = journal_position(rules, world, rank)
    if rules.report_from == "host":
        steps = world.base + sum(launch.gate == "passed" for launch in rank.launches[:rank.seen])
    done = 0 <= rank.begun <= decided(rank) if rules.replayed else drained(rank)
    if done or rules.drain == "skipped":
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
