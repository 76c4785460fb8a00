"""Two coordinators with one journal in etcd: one leads, and the other one follows when it dies.

    failover_test.py BIN_FOLDER ETCD [--kills N]

With --kills it kills the leader N times while a job trains, and prints how long
it took until a worker was told something by the next one.
"""

import argparse
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

from failover_cluster import HOST, OPTIONS, PATIENCE, REST, FailoverCase

KILLS = argparse.ArgumentParser()
KILLS.add_argument("--kills", type=int, default=0)
CHOSEN, UNKNOWN = KILLS.parse_known_args(REST)


class FailoverTest(FailoverCase):
    def test_the_next_one_leads_when_the_leader_is_killed(self):
        leader, standby = self.start_pair()
        self.start_job()
        term = leader.term()
        leader.process.kill()
        leader.process.wait()
        self.assert_a_command_finds_the_next_one()
        self.assertTrue(standby.leads())
        self.assertGreater(standby.term(), term)
        self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
        self.await_progress()
        self.stop_job()

    def test_a_leader_that_goes_down_in_order_hands_over_at_once(self):
        leader, standby = self.start_pair()
        self.start_job()
        begin = time.monotonic()
        leader.process.terminate()
        self.assertEqual(leader.process.wait(PATIENCE), 0)
        ended = time.monotonic()
        self.await_that(standby.leads, "the standby leads")
        print(f"the standby leads {time.monotonic() - ended:.2f} s after the leader ended, which "
              f"took {ended - begin:.2f} s")
        self.await_progress()
        self.stop_job()

    def test_a_leader_that_was_stopped_changes_nothing_afterwards(self):
        leader, standby = self.start_pair()
        self.start_job()
        leader.process.send_signal(signal.SIGSTOP)
        self.assert_a_command_finds_the_next_one()
        self.assertTrue(standby.leads())
        self.asked = f"{HOST}:{standby.port}"  # the other one answers late, or never
        self.await_progress()
        leader.process.send_signal(signal.SIGCONT)
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        self.assertRegex(leader.log(), "this coordinator leads no more: "
                         "(its lease in etcd has ended: this process did not run for a while|another coordinator)")
        self.await_progress()
        self.stop_job()
        self.assertNotIn("error", standby.log())

    def test_watches_and_workers_go_on_with_the_next_one(self):
        """Nothing closes the connections to a leader that is stopped, or whose machine is gone."""
        leader, standby = self.start_pair()
        self.start_job()
        lines = self.start_watch()
        self.await_that(lambda: self.last_step(lines) > 0, "the watch begins")
        for fault in (signal.SIGKILL, signal.SIGSTOP):
            begin = time.monotonic()
            leader.process.send_signal(fault)
            self.addCleanup(leader.process.send_signal, signal.SIGKILL)
            self.await_that(standby.leads, "the standby leads")
            self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
            print(f"{fault.name}: both workers resumed after {time.monotonic() - begin:.2f} s")
            self.asked = f"{HOST}:{standby.port}"  # the other one answers late, or never
            step = self.step()
            self.await_that(lambda: self.last_step(lines) > step, "the watch goes on")
            leader.process.send_signal(signal.SIGKILL)
            leader.process.wait()
            leader, standby = standby, self.start_daemon()
            self.await_that(standby.waits, "the next one waits")
        self.stop_job()
        self.assertEqual(self.watch.wait(PATIENCE), 0, "the job is over")

    def assert_a_command_finds_the_next_one(self):
        begin = time.monotonic()
        asked = self.ctl("describe", "trained")
        self.assertEqual(asked.returncode, 0, asked.stderr)
        print(f"a command was answered after {time.monotonic() - begin:.2f} s")

    def start_watch(self):
        path = self.folder / "watched"
        with open(path, "w", encoding="utf-8") as lines:
            self.watch = subprocess.Popen([OPTIONS.bin / "lockstepctl", "--address", self.addresses(), "watch",
                                           "trained"], stdout=lines, stderr=subprocess.STDOUT)
        self.addCleanup(self.watch.wait)
        self.addCleanup(self.watch.kill)
        return path

    @staticmethod
    def last_step(lines):
        steps = re.findall(r" step (\d+)", lines.read_text(encoding="utf-8"))
        return int(steps[-1]) if steps else 0

    def test_one_name_may_stand_for_all_coordinators(self):
        """As that of a headless Service: those that wait refuse connections."""
        first, second, *rest = HOST.split(".")
        other = ".".join([first, str(int(second) + 64), *rest])
        hosts = self.folder / "hosts"
        hosts.write_text(f"{HOST} coordinators\n{other} coordinators\n", encoding="utf-8")
        self.inside = ["unshare", "-Urm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts]
        if not shutil.which("unshare") or subprocess.run([*self.inside, "true"], check=False,
                                                         capture_output=True).returncode != 0:
            self.skipTest("no namespaces here")
        self.asked = "coordinators:7001"
        leader = self.start_daemon(port=7001, host=other)
        self.await_that(leader.leads, "the first one leads")
        self.start_job()
        for host in (HOST, other):
            standby = self.start_daemon(port=7001, host=host)
            self.await_that(standby.waits, "the next one waits")
            leader.process.kill()
            leader.process.wait()
            self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
            self.await_progress()
            leader = standby
        self.stop_job()

    def test_a_rolling_restart_loses_no_step(self):
        """Three coordinators are replaced one after the other, as an upgrade does."""
        coordinators = {port: self.start_daemon(port=port) for port in (7001, 7002, 7003)}
        self.await_that(lambda: any(one.leads() for one in coordinators.values()), "one leads")
        self.start_job()
        terms = set()
        for port, old in coordinators.items():
            terms |= {old.term()} if old.leads() else set()
            old.process.terminate()
            self.assertEqual(old.process.wait(PATIENCE), 0, old.log())
            coordinators[port] = new = self.start_daemon(port=port)
            self.await_that(lambda: new.leads() or new.waits(), "the new one leads or waits")
            self.await_progress()  # in epoch 1
            self.change_something()
        last = next(one for one in coordinators.values() if one.leads())
        self.assertTrue(terms, "the one that led was replaced")
        self.assertGreater(last.term(), max(terms))
        self.stop_job()
        for daemon in self.daemons:
            self.assertEqual(daemon.complaints(), [], daemon.log())

    def test_etcd_may_be_away(self):
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.kill()
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        self.await_that(lambda: "no member of etcd answers" in standby.log(), "an error is logged")
        self.etcd.start()
        self.await_that(standby.leads, "the standby leads")
        self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
        self.await_progress()
        self.stop_job()

    def test_a_leader_ends_though_a_request_waits_for_etcd(self):
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.kill()
        asked = subprocess.Popen(
            [OPTIONS.bin / "lockstepctl", "--address", self.addresses(), "pause", "trained"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(asked.wait)
        self.addCleanup(asked.kill)
        begin = time.monotonic()
        self.assertEqual(leader.process.wait(PATIENCE), 1, "etcd is still away")
        print(f"the leader ended {time.monotonic() - begin:.2f} s after etcd was killed")
        self.etcd.start()
        self.await_that(standby.leads, "the standby leads")
        self.await_progress()

    def test_a_standby_ends_when_it_is_told_to(self):
        _, standby = self.start_pair()
        standby.process.terminate()
        self.assertEqual(standby.process.wait(PATIENCE), 0)

    def test_a_command_that_was_sent_is_not_sent_again(self):
        """The next leader may have other jobs of the same name when it asks."""
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.signal(signal.SIGSTOP, 0)  # so the answer waits for a record
        asked = subprocess.Popen(
            [OPTIONS.bin / "lockstepctl", "--address", self.addresses(), "pause", "trained"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asked.kill)
        time.sleep(0.5)
        leader.process.kill()
        self.etcd.signal(signal.SIGCONT, 0)
        _, error = asked.communicate(timeout=PATIENCE)
        self.assertEqual(asked.returncode, 3, error)
        self.assertIn("may have carried it out", error)
        self.await_that(standby.leads, "the standby leads")
        self.assertIn(self.ctl("resume", "trained").returncode, (0, 1))
        self.await_progress()
        self.stop_job()

    def test_a_restored_etcd_gets_terms_above_those_that_workers_have_heard(self):
        """The revisions of restored data begin where those of the copy ended; here, the base goes down."""
        base = "lockstep/test/term-base"
        self.etcd.await_up()
        self.etcd.put(base, "1000")
        leader, standby = self.start_pair()
        self.assertGreater(leader.term(), 1000)
        self.start_job()
        for data, words in (("1", "has heard a coordinator with term 10"), ("5000", "resumes")):
            for daemon in (standby, leader):
                daemon.process.terminate()
                daemon.process.wait(PATIENCE)
            self.etcd.put(base, data)
            leader, standby = self.start_pair()
            self.await_that(lambda: words in leader.log(), words)
        self.await_progress()
        self.stop_job()

    def test_a_base_of_terms_that_is_no_number_is_refused(self):
        self.etcd.await_up()
        self.etcd.put("lockstep/test/term-base", "many")
        daemon = self.start_daemon()
        self.assertEqual(daemon.process.wait(PATIENCE), 1)
        self.assertIn('term-base in etcd is "many", and must be a number', daemon.log())

    def test_a_standby_keeps_the_certificates_that_it_has_read(self):
        folder = self.folder / "certs"
        subprocess.run([OPTIONS.bin / "lockstepctl", "certs", "init", folder, "--host", HOST],
                       check=True, capture_output=True, timeout=PATIENCE)
        leader, standby = self.start_pair(flags=("--tls", folder / "coordinator"))
        (folder / "coordinator" / "tls.crt").write_text("", encoding="utf-8")
        self.await_that(lambda: "there is no PEM certificate in it" in standby.log(), "a warning")
        leader.process.kill()
        self.await_that(standby.leads, "the standby leads")
        self.assertIsNone(standby.process.poll())

    def test_other_machines_are_not_asked_in_plaintext(self):
        for where, words in (("etcd://10.0.0.1:2379/a", "--etcd_tls"),
                             ("etcd://10.0.0.1/a", "is no HOST:PORT"),
                             ("etcd://127.0.0.1:2379", "it has no PREFIX"),
                             ("etcd://127.0.0.1:2379/a b", "PREFIX"),
                             ("etcd://127.0.0.1:2379/a/snapshot", "is \"snapshot\""),
                             ("etcd://127.0.0.1:2379/record/a", "is \"record\"")):
            done = subprocess.run([OPTIONS.bin / "lockstepd", "--journal", where],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


class FailoverTimes(FailoverTest):
    """Each leader is killed; the next one was waiting."""

    def test_times(self):
        leader, standby = self.start_pair()
        self.start_job()
        times = []
        for _ in range(CHOSEN.kills):
            begin = time.time()
            leader.process.kill()
            leader.process.wait()
            self.await_that(lambda: " resumes" in standby.log(), "a worker resumes")
            lines = standby.log().splitlines()
            at = {word: next(line for line in lines if word in line)
                  for word in (" info leads the coordinators", " resumes")}
            seconds = {word: time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")) +
                       float(line[19:23]) - begin for word, line in at.items()}
            times.append((seconds[" info leads the coordinators"], seconds[" resumes"]))
            self.await_that(lambda: standby.log().count(" resumes") == 2, "both workers resume")
            leader, standby = standby, self.start_daemon()
            self.await_that(standby.waits, "the next one waits")
            self.await_progress()
        self.stop_job()
        for name, values in (("until the next one leads (etcd's lease)", [t[0] for t in times]),
                             ("until a worker resumed", [t[1] for t in times])):
            values.sort()
            print(f"{name}: median {statistics.median(values):.2f} s, p99 "
                  f"{values[min(len(values) - 1, int(0.99 * len(values)))]:.2f} s, most "
                  f"{values[-1]:.2f} s, of {len(values)} kills")


if __name__ == "__main__":
    chosen = "FailoverTimes.test_times" if CHOSEN.kills else "FailoverTest"
    unittest.main(argv=[sys.argv[0], chosen, *UNKNOWN])
