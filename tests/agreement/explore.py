"""Explores every reachable state of a model, breadth first.

A model has

    start                  its first state
    actions(state)         every (label, next state, broken promise or None) that can happen next
    final(state)           whether nothing has to happen any more
    canonical(state)       one name for states that differ only in the numbers of the ranks

A label whose text begins with "?" is an event that may happen and need not: a fault, or garbage that arrives. A
state that is not final and has no other action is a deadlock.
"""

from collections import deque
from typing import NamedTuple

PROGRESS = "when no more faults happen, every run ends"


class Outcome(NamedTuple):
    promise: str | None  # the first promise that a run breaks; None if all are kept
    steps: tuple[str, ...]  # the labels of a shortest such run
    states: int  # explored until then

    def __str__(self):
        if self.promise is None:
            return f"all promises are kept ({self.states} states)"
        run = "\n".join(f"  {number:2}. {label}" for number, label in enumerate(self.steps, 1))
        return f"not kept: {self.promise} ({self.states} states)\n{run}"


def explore(model):
    start = model.canonical(model.start)
    came_from = {start: None}
    todo = deque([start])
    while todo:
        state = todo.popleft()
        goes_on = model.final(state)
        for label, after, broken in model.actions(state):
            if broken:
                return Outcome(broken, _run(model, came_from, state, label), len(came_from))
            goes_on = goes_on or not label.startswith("?")
            after = model.canonical(after)
            if after not in came_from:
                came_from[after] = state
                todo.append(after)
        if not goes_on:
            return Outcome(PROGRESS, _run(model, came_from, state, None), len(came_from))
    return Outcome(None, (), len(came_from))


def _run(model, came_from, last, label):
    """The labels from the start to `last`, with the ranks' numbers of one run, and then one that breaks a promise."""
    path = [last]
    while came_from[path[-1]] is not None:
        path.append(came_from[path[-1]])
    state, labels = model.start, []
    for wanted in reversed(path[:-1]):
        step, state = next((step, after) for step, after, broken in model.actions(state)
                           if not broken and model.canonical(after) == wanted)
        labels.append(step)
    if label is None:
        return tuple(labels) + ("nothing can happen",)
    return tuple(labels) + tuple(step for step, _, broken in model.actions(state) if broken)[:1]
