"""The step agreement where the host reads each verdict before the stream goes on: the specification, as two models.

docs/architecture.md, "Step agreement", explains it. gpu_step.py has the model in which the device decides.

    computing ─▶ contributed ─▶ reduced ─▶ in the verdict ─▶ passed: computing the next step
                 to the transfers  its gradients

A rank has its reduced gradients only if each rank of its group contributed, and passes only if each rank of the world
entered the verdict. Contributions before a death count: a collective may complete on some ranks and not on others.
"""

from typing import NamedTuple

PHASES = ("computing", "contributed", "reduced", "in the verdict")

APART = "survivors are never more than one step apart"
GRADIENTS = "a survivor that is behind has the gradients that it must apply"
REPORTED = "a rank passes no step after it has reported"
LEFT = "no survivor falls behind a rank that left cleanly"


class Rank(NamedTuple):
    fate: str  # "runs" | "dead" | "left"
    step: int
    phase: int  # of the step
    report: tuple  # (step, phase); empty: none yet


class World(NamedTuple):
    ranks: tuple
    ending: bool


def reached(rank, step, phase):
    return (rank.step, rank.phase) >= (step, PHASES.index(phase))


def with_rank(world, r, **changes):
    rank = world.ranks[r]._replace(**changes)
    return world._replace(ranks=world.ranks[:r] + (rank,) + world.ranks[r + 1:])


def advance(world, r, steps, group, verdict_group):
    """Rank r's next phase, if its peers allow it."""
    rank = world.ranks[r]
    if rank.step == steps:
        return
    phase = PHASES[rank.phase]
    if phase == "contributed" and not all(reached(world.ranks[q], rank.step, "contributed") for q in group):
        return
    if phase == "in the verdict":
        if all(reached(world.ranks[q], rank.step, phase) for q in verdict_group):
            yield f"rank {r} passes step {rank.step}", with_rank(world, r, step=rank.step + 1, phase=0)
        return
    yield f"rank {r} is {PHASES[rank.phase + 1]}, step {rank.step}", with_rank(world, r, phase=rank.phase + 1)


class InstantEnd:
    """The epoch may end in every reachable state, and all survivors report at once."""

    def __init__(self, groups, steps=2, world_verdict=True):
        self.steps, self.world_verdict = steps, world_verdict
        self.group_of = {r: group for group in groups for r in group}
        self.start = World((Rank("runs", 0, 0, ()),) * len(self.group_of), False)

    def actions(self, world):
        alive = sum(rank.fate == "runs" for rank in world.ranks)
        for r, rank in enumerate(world.ranks):
            if rank.fate != "runs":
                continue
            group = self.group_of[r]
            verdict_group = self.group_of if self.world_verdict else group
            for label, after in advance(world, r, self.steps, group, verdict_group):
                yield label, after, self.broken(after)
            if alive > 1:
                yield f"? rank {r} dies", with_rank(world, r, fate="dead"), None

    def broken(self, world):
        alive = [rank for rank in world.ranks if rank.fate == "runs"]
        low, high = min(rank.step for rank in alive), max(rank.step for rank in alive)
        if high - low > 1:
            return APART
        if any(rank.step < high and not reached(rank, rank.step, "reduced") for rank in alive):
            return GRADIENTS
        return None

    def final(self, world):
        """A wait for a dead rank ends with the epoch, which this model does not have."""
        return True

    def canonical(self, world):
        return world


class GradualEnd:
    """Survivors report one by one while others still advance. Who is not lost decides; a clean leaver has passed all."""

    def __init__(self, ranks, steps=2, quiesces=True, leaves=False, counts_leavers=True):
        self.steps, self.quiesces, self.leaves, self.counts_leavers = steps, quiesces, leaves, counts_leavers
        self.start = World((Rank("runs", 0, 0, ()),) * ranks, False)

    def actions(self, world):
        members = [r for r, rank in enumerate(world.ranks) if rank.fate == "runs"]
        if self.decided(world):
            return
        for r in members:
            rank = world.ranks[r]
            if not rank.report or not self.quiesces:
                everyone = range(len(world.ranks))
                for label, after in advance(world, r, self.steps, everyone, everyone):
                    yield label, after, None
            if self.leaves and rank.step == self.steps:
                yield self.judged(f"rank {r} leaves", with_rank(world, r, fate="left"))
            if world.ending and not rank.report:
                yield self.judged(f"rank {r} reports step {rank.step}, {PHASES[rank.phase]}",
                                  with_rank(world, r, report=(rank.step, rank.phase)))
            if len(members) > 1:
                dead = with_rank(world, r, fate="dead")
                yield self.judged(f"? rank {r} dies", dead._replace(ending=True))

    def decided(self, world):
        """All members that are not lost have reported."""
        members = [rank for rank in world.ranks if rank.fate == "runs"]
        return world.ending and bool(members) and all(rank.report for rank in members)

    def judged(self, label, world):
        if not self.decided(world):
            return label, world, None
        members = [rank for rank in world.ranks if rank.fate == "runs"]
        left = [rank.step for rank in world.ranks if rank.fate == "left"]
        high = max([rank.report[0] for rank in members] + (left if self.counts_leavers else []))
        for rank in members:
            step, phase = rank.report
            if step < high and PHASES[phase] not in PHASES[2:]:
                return label, world, GRADIENTS
            if step == high and rank.step != high:
                return label, world, REPORTED
        return label, world, LEFT if any(step > high for step in left) else None

    def final(self, world):
        members = [rank for rank in world.ranks if rank.fate == "runs"]
        return self.decided(world) or all(rank.step == self.steps for rank in members)

    def canonical(self, world):
        return world._replace(ranks=tuple(sorted(world.ranks)))
