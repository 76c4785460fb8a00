"""The promises of GPU steps (gpu_step.py). Each function checks those that one event may break, and names one."""

from gpu_world import applied, begun, intact, is_void

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
