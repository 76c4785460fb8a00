"""The promises of GPU steps (gpu_step.py). Each function checks those that one event may break, and names one."""

from gpu_world import (
    applied, begun, can_roll_forward, can_update, entries, has_failed, is_void, pauses, scoped, scoped_is_right, shows,
)

SAME = "no two survivors apply different updates for a step"
TRUE = "every applied update is the true sum of that step's gradients of all ranks, each sample once"
CONTRIBUTED = "a rank that contributed to step s+1 has passed step s"
APART = "survivors are never more than one step apart"
FORWARD = "a roll forward applies the same bytes"
SCOPED = "step_scoped state is that of the step that follows the decision"
ALIKE = "a launch is void on all ranks or on none"
READ = "the journal has every verdict of a step that passed until the host has read it"
HEARD = "a pause begins behind a step that passed: its verdict tells the hosts"
EFFECT = "no host effect takes place at different steps on different ranks"
# explore.PROGRESS: when no more faults happen, every run ends


def at_contribution(rank, number):
    if any(launch.gate == "failed" for launch in rank.launches[:number]):
        return CONTRIBUTED
    return None


def at_pass(rules, job, world, r, number, whole):
    """Rank r's gate of launch `number` passes; `whole`: all records that it read are those of this launch."""
    rank = world.ranks[r]
    if not whole or not can_update(rules, world, rank, number) or is_void(rules, job, world, rank, number):
        return TRUE
    if rules.replayed and applied(world, rank) == job.steps:
        return TRUE  # behind the last step
    skipped = rules.void_advances and any(launch.gate == "void" for launch in rank.launches)
    if skipped or rank.recovered:
        return TRUE  # samples that nobody used, or an update applied again
    others = [applied(world, other) for q, other in enumerate(world.ranks) if q != r and other.fate == "runs"]
    if rank.fate == "runs" and any(applied(world, rank) > steps for steps in others):
        return APART
    if rules.replayed:
        state, _, _, passed = scoped(rules, rank.launches[:number])
        return None if state == passed else SCOPED
    return None


def at_gate(rules, world, r, number, text):
    """The same, of a replayed step whose gate decides `text`."""
    rank = world.ranks[r]
    others = {other.launches[number].gate for other in world.ranks if number < len(other.launches)}
    if {"passed", "skipped"} <= others | {text}:
        return ALIKE
    written = entries(rules, rank)
    replaced = len(written) - rules.depth
    writes = text == "passed" or (text == "failed" and (rules.entries_after_failure or not has_failed(rank)))
    if writes and replaced >= rank.seen and rank.launches[written[replaced]].gate == "passed":
        return READ
    if text == "skipped" and pauses(rules, world, rank, number):
        read = [earlier for earlier in written if earlier < number]
        if not read or not shows(world, read[-1], "pause"):
            return HEARD
    return None


def at_leave(rules, rank):
    return None if scoped_is_right(rules, rank, rolls_forward=False) else SCOPED


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
    going_on = next((number for number, launch in enumerate(rank.launches)
                     if launch.gate not in ("passed", "void", "skipped")), len(rank.launches))
    if own < target and rules.lagging == "copies":
        return None
    if own < target:
        if going_on == len(rank.launches) or not can_roll_forward(rules, world, rank, going_on):
            return FORWARD
        going_on += 1
    if rules.replayed:
        return None if scoped_is_right(rules, rank, rolls_forward=own < target) else SCOPED
    if begun(rank) > going_on and going_on < begun(rank) - rules.copies:
        return SCOPED
    return None


def at_enqueue(world, r, number, launch):
    for q, other in enumerate(world.ranks):
        if q != r and number < len(other.launches) and other.launches[number].changed != launch.changed:
            return EFFECT
    return None
