"""Every run of the models of the step agreement keeps its promises, and each rule is needed.

    agreement_test.py              all cases
    agreement_test.py CASE ...     some: agreement_test.py without_drain
    agreement_test.py --names      prints the names of the cases, one a line: they are registered as tests

A case of KEPT explores all runs of a model. A case of BROKEN is one of KEPT without one rule: some run must break the
named promise, and a shortest one is printed.
"""

import gc
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import host_step  # noqa: E402
from explore import PROGRESS, explore  # noqa: E402
from gpu_promises import ALIKE, CONTRIBUTED, EFFECT, FORWARD, HEARD, READ, SAME, SCOPED, TRUE  # noqa: E402
from gpu_step import GpuStep  # noqa: E402
from gpu_world import Job, Rules  # noqa: E402
from host_step import GradualEnd, InstantEnd  # noqa: E402

BOTH = frozenset({"pack", "transfer"})


def ahead(launches, **job):
    return Rules(run_ahead=launches), Job(**job)


def replayed(rules={}, **job):
    return Rules(replayed=True, bucket_sets=1, kept="asks failed", journal_depth=2, entries_after_failure=False,
                 snapshots=2, **rules), Job(**job)


GPU_KEPT = {
    "run_ahead_0": ahead(0),
    "run_ahead_1": ahead(1),
    "run_ahead_2": ahead(2),
    "three_ranks_run_ahead_0": ahead(0, ranks=3, steps=2),
    "three_ranks_run_ahead_1": ahead(1, ranks=3, steps=2, faults=1),
    "two_lanes": ahead(1, steps=2, lanes=2, faults=1),
    "late_effects_run_ahead_0": ahead(0, effect="switch", faults=1),
    "late_effects_run_ahead_1": ahead(1, effect="switch", faults=1),
    "late_effects_run_ahead_2": ahead(2, effect="switch", faults=1),
    "void_steps_run_ahead_0": ahead(0, steps=2, effect="out of data", faults=1),
    "void_steps_run_ahead_1": ahead(1, steps=2, effect="out of data", faults=1),
    "void_steps_run_ahead_2": ahead(2, steps=2, effect="out of data", faults=1),
    "direct_writes_run_ahead_0": (Rules(run_ahead=0, direct_writes=True), Job()),
    "direct_writes_run_ahead_1": (Rules(run_ahead=1, direct_writes=True), Job(faults=1)),
    "one_bucket_set_that_failed_holds":
        (Rules(bucket_sets=1, buckets="packed", held_by_failed=BOTH), Job(steps=2)),
    "one_bucket_set_and_copied_state":
        (Rules(bucket_sets=1, lagging="copies", closing_void=True), Job(steps=2)),
    "overruns_and_checksums": (Rules(overruns=True, compares_sums=True), Job(faults=1)),
    "one_bucket_set_and_a_copy": (Rules(bucket_sets=1, kept="asks failed"), Job(steps=2)),
    "direct_writes_and_a_copy_run_ahead_0":
        (Rules(run_ahead=0, bucket_sets=1, kept="asks failed", direct_writes=True), Job()),
    "direct_writes_and_a_copy_run_ahead_1":
        (Rules(run_ahead=1, bucket_sets=2, kept="asks failed", direct_writes=True), Job(faults=1)),
    "launched_by_the_program": replayed(steps=2),
    "launched_by_three_programs": replayed(ranks=3, steps=1, faults=1),
    "launched_in_two_lanes": replayed(steps=1, lanes=2, faults=1),
    "launched_behind_the_last_step": replayed(steps=1, more=2),
    "launched_without_faults": replayed(steps=2, more=2, faults=0),
    "launched_during_a_pause": replayed(steps=3, more=0, faults=1, command="pause"),
    "launched_until_a_stop": replayed(steps=2, more=0, faults=1, command="stop"),
    "launched_with_direct_writes_and_held_transfers":
        replayed(dict(direct_writes=True, behind_failure="hold", overruns=True), steps=2, faults=1),
    "launched_with_direct_writes_and_waits":
        replayed(dict(direct_writes=True, behind_failure="wait", overruns=True), steps=2, faults=1),
    "launched_with_direct_writes_and_checksums":
        replayed(dict(direct_writes=True, compares_sums=True, overruns=True), steps=2, faults=1),
}


class Broken(NamedTuple):
    of: str  # the case of GPU_KEPT that differs in one rule
    rule: dict
    promise: str


GPU_BROKEN = {
    # The summary and the gate
    "sum_of_stamps": Broken("run_ahead_1", {"gate": "sum of stamps"}, TRUE),
    "gate_checks_its_own_record": Broken("run_ahead_1", {"gate": "own record"}, TRUE),
    "record_without_step": Broken("run_ahead_1", {"hash": "nothing"}, TRUE),
    "record_without_sequence": Broken("void_steps_run_ahead_1", {"hash": "step"}, TRUE),
    "record_without_checksum": Broken("run_ahead_1", {"checksum": False}, TRUE),
    # Contribution
    "record_behind_one_lane": Broken("two_lanes", {"record_behind": "the first lane"}, TRUE),
    "contribution_ignores_stop": Broken("run_ahead_1", {"record_asks": frozenset({"failed"})}, TRUE),
    "contribution_ignores_failed": Broken("run_ahead_1", {"record_asks": frozenset({"stop"})}, CONTRIBUTED),
    "abort_before_stop": Broken("run_ahead_1", {"abort_after_stop": False}, TRUE),
    # Journal, drain, report
    "commit_before_journal": Broken("late_effects_run_ahead_1", {"commit_after_journal": False}, EFFECT),
    "journal_too_small_run_ahead_0": Broken("run_ahead_0", {"journal_depth": 1}, SAME),
    "journal_too_small_run_ahead_1": Broken("run_ahead_1", {"journal_depth": 2}, SAME),
    "report_from_the_hosts_memory": Broken("run_ahead_1", {"report_from": "host"}, SAME),
    "without_drain": Broken("run_ahead_1", {"drain": "skipped"}, SAME),
    "unbounded_drain": Broken("run_ahead_1", {"drain": "unbounded"}, PROGRESS),
    "without_abort": Broken("run_ahead_1", {"aborts": False}, PROGRESS),
    "lost_rank_reports": Broken("run_ahead_1", {"lost_reports": True}, SAME),
    "leavers_do_not_count": Broken("run_ahead_0", {"counts_leavers": False}, SAME),
    # What a roll forward and a replay need
    "one_set_of_views": Broken("run_ahead_1", {"bucket_sets": 1}, FORWARD),
    "two_sets_of_views_run_ahead_2": Broken("run_ahead_2", {"bucket_sets": 2}, FORWARD),
    "packs_are_not_held": Broken("one_bucket_set_that_failed_holds", {"held_by_failed": BOTH - {"pack"}}, FORWARD),
    "only_packs_are_held": Broken("one_bucket_set_that_failed_holds", {"held_by_failed": BOTH - {"transfer"}}, FORWARD),
    "no_spare_set_for_direct_writes_run_ahead_0": Broken("direct_writes_run_ahead_0", {"bucket_sets": 1}, TRUE),
    "no_spare_set_for_direct_writes_run_ahead_1": Broken("direct_writes_run_ahead_1", {"bucket_sets": 2}, TRUE),
    "copied_state_of_a_rank_that_left": Broken("one_bucket_set_and_copied_state", {"closing_void": False}, SAME),
    "one_snapshot": Broken("run_ahead_1", {"snapshots": 1}, SCOPED),
    "overruns": Broken("run_ahead_1", {"overruns": True}, TRUE),
    "direct_writes_and_one_set_run_ahead_1": Broken("direct_writes_and_a_copy_run_ahead_1", {"bucket_sets": 1}, TRUE),
    # A graph of the whole step that the program launches: the copy of the reduced gradients
    "copies_do_not_ask_failed": Broken("launched_by_the_program", {"kept": "asks nothing"}, FORWARD),
    "launched_without_a_copy": Broken("launched_by_the_program", {"kept": ""}, FORWARD),
    "direct_writes_behind_a_failure": Broken("launched_by_the_program", {"direct_writes": True}, TRUE),
    "direct_writes_behind_a_failure_two_sets":
        Broken("launched_by_the_program", {"direct_writes": True, "bucket_sets": 2}, TRUE),
    "overruns_behind_a_failure": Broken("launched_by_the_program", {"overruns": True}, TRUE),
    "update_reads_the_bucket":
        Broken("launched_with_direct_writes_and_held_transfers", {"update_reads": "bucket"}, TRUE),
    # The journal
    "journal_full_on_one_rank": Broken("launched_by_the_program", {"full_journal": "void on this rank"}, ALIKE),
    "entries_of_all_failed_gates": Broken("launched_by_the_program", {"entries_after_failure": True}, READ),
    "no_entry_reserved_for_a_failure": Broken("launched_by_the_program", {"reserved": 0}, READ),
    # The step_scoped state
    "snapshots_go_on": Broken("launched_by_the_program", {"snapshots_ask_failed": False}, SCOPED),
    "no_snapshot_behind_the_backward_pass": Broken("launched_by_the_program", {"snapshots": 1}, SCOPED),
    "void_launches_change_state": Broken("launched_by_the_program", {"void_restores": False}, SCOPED),
    # Pauses
    "pause_by_its_own_record": Broken("launched_during_a_pause", {"pause_by": "own record"}, ALIKE),
    "pause_behind_a_void_launch": Broken("launched_during_a_pause", {"pause_begins": "any launch"}, HEARD),
    # The last step
    "leaver_does_not_abort": Broken("launched_without_faults", {"leaves_by_abort": False}, PROGRESS),
    "copied_state_of_a_program_that_left": Broken("launched_without_faults", {"lagging": "copies"}, SAME),
    "programs_that_left_do_not_count": Broken("launched_without_faults", {"counts_leavers": False}, SAME),
    # The report
    "stop_read_before_begun_is_published": Broken("launched_by_the_program", {"publishes": "after stop"}, SAME),
    "begun_read_before_stop_is_set": Broken("launched_by_the_program", {"reads_begun": "before stop"}, SAME),
    "decided_before_the_entry": Broken("launched_by_the_program", {"commit_after_journal": False}, SAME),
    # Late effects
    "effects_one_step_later": Broken("late_effects_run_ahead_1", {"effects_after": 1}, EFFECT),
    "effects_two_steps_later_run_ahead_2": Broken("late_effects_run_ahead_2", {"effects_after": 2}, EFFECT),
    "one_void_step_run_ahead_2": Broken("void_steps_run_ahead_2", {"effects_after": 2}, EFFECT),
    "void_step_advances_the_cursor": Broken("void_steps_run_ahead_1", {"void_advances": True}, TRUE),
}

PAIRS = ((0, 1), (2, 3))

HOST_KEPT = {
    "host_one_group_of_2": InstantEnd([(0, 1)]),
    "host_one_group_of_3": InstantEnd([(0, 1, 2)]),
    "host_two_groups_of_2": InstantEnd(PAIRS),
    "host_four_groups_of_1": InstantEnd([(0,), (1,), (2,), (3,)]),
    "host_groups_of_2_and_3": InstantEnd([(0, 1), (2, 3, 4)]),
    "host_reports_2_ranks": GradualEnd(2),
    "host_reports_3_ranks": GradualEnd(3),
    "host_leavers_2_ranks": GradualEnd(2, leaves=True),
    "host_leavers_3_ranks": GradualEnd(3, leaves=True),
}

HOST_BROKEN = {
    "host_without_world_verdict": (InstantEnd(PAIRS, world_verdict=False), host_step.GRADIENTS),
    "host_without_quiescing": (GradualEnd(3, quiesces=False), host_step.REPORTED),
    "host_leavers_do_not_count": (GradualEnd(3, leaves=True, counts_leavers=False), host_step.LEFT),
}


def models():
    """Of each case: the model, and the promise that it breaks."""
    for name, (rules, job) in GPU_KEPT.items():
        yield name, GpuStep(rules, job), None
    for name, (of, rule, promise) in GPU_BROKEN.items():
        rules, job = GPU_KEPT[of]
        yield name, GpuStep(replace(rules, **rule), job), promise
    for name, model in HOST_KEPT.items():
        yield name, model, None
    for name, (model, promise) in HOST_BROKEN.items():
        yield name, model, promise


class AgreementTest(unittest.TestCase):

    def check(self, name, model, promise):
        outcome = explore(model)
        print(f"{name}: {outcome}")
        self.assertEqual(outcome.promise, promise, f"{name}: {outcome}")


def add_case(name, model, promise):
    def case(self):
        self.check(name, model, promise)

    setattr(AgreementTest, name, case)


CASES = list(models())
for arguments in CASES:
    add_case(*arguments)

if __name__ == "__main__":
    names = [name for name, _, _ in CASES]
    if sys.argv[1:] == ["--names"]:
        print("\n".join(names))
        sys.exit()
    chosen = sys.argv[1:] or names
    if not set(chosen) <= set(names):
        sys.exit(f"no such case: {' '.join(sorted(set(chosen) - set(names)))}; --names lists them")
    gc.disable()  # states are tuples: nothing is cyclic, and the collector would visit all of them
    suite = unittest.TestSuite(AgreementTest(name) for name in chosen)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
