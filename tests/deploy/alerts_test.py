"""The alerts of deploy/kubernetes/components/metrics: each fires for what it is about, and for nothing else.

deploy_test.py runs these cases. promtool, of Debian's package prometheus, evaluates the rules over series of an
hour and a half; without it they are only compared with docs/metrics.md and docs/operations.md.
"""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

from deployment import DEPLOY, ROOT, golden

MINUTES = 90
PROMTOOL = shutil.which("promtool", path=f"{ROOT}/build/tools/usr/bin") or shutil.which("promtool")
POD = 'namespace="lockstep",pod="lockstep-coordinator-0"'
JOB = 'namespace="lockstep",pod="lockstep-coordinator-0",job_name="digits"'


def always(value):
    return f"{value}x{MINUTES}"


RISES = f"0+100x{MINUTES}"

# A coordinator that leads, and a job that trains: values a minute apart, as promtool writes them.
HEALTHY = {
    f"lockstep_leader{{{POD}}}": always(1),
    f"lockstep_journal_waits_for_room{{{POD}}}": always(0),
    **{f'lockstep_journal_commit_seconds_bucket{{{POD},le="{le}"}}': RISES for le in ("0.01", "2.5", "+Inf")},
    **{f'lockstep_event_seconds_bucket{{{POD},le="{le}"}}': RISES for le in ("0.001", "1", "+Inf")},
    f'lockstep_limit_refused_total{{{POD},limit="jobs"}}': always(0),
    f'lockstep_certificate_expiry_timestamp_seconds{{{POD},file="tls.crt"}}': always(30 * 86400),
    f'lockstep_epochs_ended_total{{{POD},cause="process_died"}}': always(0),
    f'lockstep_epochs_ended_total{{{POD},cause="stopped"}}': RISES,
    f'lockstep_jobs_ended_total{{{POD},outcome="failed"}}': always(0),
    f'lockstep_jobs_ended_total{{{POD},outcome="completed"}}': RISES,
    f"lockstep_job_step{{{JOB}}}": RISES,
    f"lockstep_job_paused{{{JOB}}}": always(0),
    f"lockstep_job_stalled_workers{{{JOB}}}": always(0),
    f"lockstep_job_workers{{{JOB}}}": always(2),
    f"lockstep_job_workers_wanted{{{JOB}}}": always(2),
    f"lockstep_job_saves_failed_total{{{JOB}}}": always(0),
}


def with_series(**changed):
    """HEALTHY, with other values for these metrics of the pod or the job; None: no such series."""
    series = dict(HEALTHY)
    for key, values in changed.items():
        (name,) = [one for one in HEALTHY if one.startswith(key + "{") and
                   not any(word in one for word in ("stopped", "completed"))]
        series.pop(name)
        if values is not None:
            series[name] = values
    return series


def slow(metric):
    """Nothing is done before the bucket of the largest bound."""
    return {name: always(0) if name.startswith(metric) and '+Inf' not in name else values
            for name, values in HEALTHY.items()}


FIRES = {
    "LockstepNoLeader": [
        with_series(lockstep_leader=always(0)),
        with_series(lockstep_leader=None),
        # It is gone, and another namespace has one.
        {**with_series(lockstep_leader="1x30"), 'lockstep_leader{namespace="other",pod="a"}': always(1)},
    ],
    "LockstepJournalFull": [with_series(lockstep_journal_waits_for_room=always(1))],
    "LockstepJournalSlow": [slow("lockstep_journal_commit_seconds")],
    "LockstepCoordinatorSlow": [slow("lockstep_event_seconds")],
    "LockstepRefuses": [with_series(lockstep_limit_refused_total="0x70 1x20")],
    "LockstepCertificateExpires": [
        with_series(lockstep_certificate_expiry_timestamp_seconds=always(13 * 86400))],
    "LockstepJobStandsStill": [with_series(lockstep_job_step="0+100x40 4000x50")],
    "LockstepJobStalls": [with_series(lockstep_job_stalled_workers=always(1))],
    "LockstepJobLacksWorkers": [with_series(lockstep_job_workers=always(1))],
    "LockstepEpochsEnd": [with_series(lockstep_epochs_ended_total="0x50 1 2 3 4 5x36")],
    "LockstepJobsFail": [with_series(lockstep_jobs_ended_total="0x70 1x20")],
    "LockstepSavesFail": [with_series(lockstep_job_saves_failed_total="0x50 1x40")],
}

QUIET = [
    HEALTHY,
    # Another coordinator waits.
    {**HEALTHY, 'lockstep_leader{namespace="lockstep",pod="lockstep-coordinator-1"}': always(0)},
    # It took over.
    {**with_series(lockstep_leader="1x40 0x50"),
     'lockstep_leader{namespace="lockstep",pod="lockstep-coordinator-1"}': "0x40 1x50"},
    with_series(lockstep_job_step="0+100x40 4000x50", lockstep_job_paused="0x40 1x50"),
    # What lasts a minute.
    with_series(lockstep_job_stalled_workers="0x40 1 0x48", lockstep_job_workers="2x40 1 2x48"),
    # Refused an hour ago.
    with_series(lockstep_limit_refused_total="0x10 1x79", lockstep_epochs_ended_total="0x60 1 2 3x28"),
]


def rules():
    (found,) = golden("production").all("PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def promtool(folder, *cases):
    """Runs promtool over (series, alerts that fire 80 minutes later)."""
    (Path(folder) / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules()}]}))
    (Path(folder) / "test.yaml").write_text(yaml.safe_dump({
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "80m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
            }],
        } for series, alerts in cases]}))
    return subprocess.run([PROMTOOL, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True,
                          check=False)


class AlertsTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def test_each_alert_has_a_case(self):
        self.assertEqual({rule["alert"] for rule in rules()}, set(FIRES))

    def test_each_alert_has_a_severity_and_a_summary(self):
        for rule in rules():
            self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
            self.assertTrue(rule["annotations"]["summary"])

    def test_the_manual_has_each_alert(self):
        manual = (ROOT / "docs/operations.md").read_text()
        self.assertEqual(set(re.findall(r"^\| `(Lockstep\w+)`", manual, re.M)), set(FIRES))

    def test_their_metrics_exist(self):
        """With the values of their labels."""
        manual = (ROOT / "docs/metrics.md").read_text()
        known = dict(re.findall(r"^\| `(lockstep_\w+)` \| (.*)", manual, re.M))
        for rule in rules():
            for name, matchers in re.findall(r"(lockstep_\w+)(\{[^}]*\})?", rule["expr"]):
                row = known.get(re.sub("_bucket$", "", name), "")
                self.assertTrue(row, f"{rule['alert']}: there is no {name}")
                for label, values in re.findall(r'(\w+)[!=~]+"([^"]*)"', matchers):
                    self.assertIn(f"`{label}`", row)
                    for value in values.split("|"):
                        self.assertRegex(row, rf"\b{value}\b", rule["alert"])

    def test_no_other_file_has_rules(self):
        self.assertEqual([path.parent.name for path in DEPLOY.rglob("*.yaml")
                          if "kind: PrometheusRule" in path.read_text()], ["metrics"])

    @unittest.skipUnless(PROMTOOL, "needs promtool")
    def test_each_fires_alone_for_what_it_is_about(self):
        done = promtool(self.folder, *((series, [alert]) for alert, cases in FIRES.items() for series in cases))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(PROMTOOL, "needs promtool")
    def test_none_fires_without_reason(self):
        done = promtool(self.folder, *((series, []) for series in QUIET))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(PROMTOOL, "needs promtool")
    def test_an_alert_that_is_missed_is_noticed(self):
        done = promtool(self.folder, (HEALTHY, ["LockstepNoLeader"]))
        self.assertNotEqual(done.returncode, 0)
