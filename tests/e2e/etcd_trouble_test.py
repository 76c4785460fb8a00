"""What goes wrong with etcd: one clear error each, and running jobs go on.

    etcd_trouble_test.py BIN_FOLDER ETCD
"""

import base64
import json
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))

from cluster import Relay  # noqa: E402
from failover_cluster import HOST, OPTIONS, PATIENCE, REST, Etcd, FailoverCase  # noqa: E402


def diagnose(etcd, *words):
    """The exit code of lockstepctl doctor, and its findings on etcd."""
    done = subprocess.run([OPTIONS.bin / "lockstepctl", "doctor", "--json", "--journal",
                           f"etcd://{etcd.addresses()}/lockstep/test", *words],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, [finding for finding in json.loads(done.stdout)["findings"]
                             if finding["check"] == "etcd"]


class TlsTest(FailoverCase):
    """etcd that speaks TLS, and admits clients of its own authority."""

    def start_etcd(self):
        self.good = self.make_certificates("good", HOST)
        self.strange = self.make_certificates("strange", HOST)
        self.elsewhere = self.folder / "elsewhere"  # of the same authority, for another host
        return Etcd(self.folder, tls=self.good / "coordinator")

    def make_certificates(self, name, host):
        made = self.folder / name
        subprocess.run([OPTIONS.bin / "lockstepctl", "certs", "init", made, "--host", host],
                       check=True, capture_output=True, timeout=PATIENCE)
        return made

    def assert_refused(self, etcd, tls, *words):
        """One line, and exit code 1."""
        flags = ["--etcd_tls", tls] if tls else []
        daemon = self.start_daemon(port=7003, etcd=etcd.addresses(), flags=flags)
        self.assertEqual(daemon.process.wait(PATIENCE), 1, daemon.log())
        self.assertEqual(len(daemon.complaints()), 1, daemon.log())
        for word in words:
            self.assertIn(word, daemon.complaints()[0])

    def mix(self, name, **files):
        """A TLS folder of files of others."""
        made = self.folder / name
        made.mkdir(mode=0o700)
        for file, source in files.items():
            target = made / file.replace("_", ".")
            target.write_bytes((source / target.name).read_bytes())
            target.chmod(0o600)
        return made

    def test_wrong_certificates_are_said_once_and_a_job_goes_on(self):
        self.start_pair(flags=["--etcd_tls", self.good / "worker"])
        self.start_job()
        worker, strange = self.good / "worker", self.strange / "worker"
        self.assert_refused(self.etcd, strange, "not signed by the authority", "etcd at")
        # It knows etcd's authority, and etcd does not know its own.
        both = self.mix("both", tls_crt=strange, tls_key=strange, ca_crt=strange)
        (both / "ca.crt").write_bytes((strange / "ca.crt").read_bytes() +
                                      (worker / "ca.crt").read_bytes())
        self.assert_refused(self.etcd, both, "it refuses this client's certificate", "etcd at")
        self.assert_refused(self.etcd, None, "serves TLS", "--etcd_tls")
        self.assert_refused(self.etcd, self.mix("no-key", tls_crt=worker, ca_crt=worker), "tls.key")
        plain = Etcd(self.folder, name="plain", port=2479)
        self.addCleanup(plain.end)
        self.await_that(lambda: self.answers(plain), "etcd answers")
        self.assert_refused(plain, worker, "serves plaintext", "--etcd_tls")
        self.assert_diagnosed(self.etcd, worker, "ok", "has a leader")
        self.assert_diagnosed(self.etcd, strange, "error", "not signed by the authority")
        self.assert_diagnosed(plain, worker, "error", "serves plaintext")
        self.await_progress()
        self.change_something()
        self.stop_job()

    def assert_diagnosed(self, etcd, tls, severity, words):
        _, (found,) = diagnose(etcd, "--etcd-tls", tls)
        self.assertEqual(found["severity"], severity, found)
        self.assertIn(words, found["what"])

    def answers(self, etcd):
        try:
            return etcd.leader() == 0
        except (urllib.error.URLError, json.JSONDecodeError):
            return False

    def test_clients_may_have_another_authority_and_new_files_are_used(self):
        server, worker = self.good / "coordinator", self.strange / "worker"
        client = self.mix("client", ca_crt=server, tls_crt=worker, tls_key=worker)
        etcd = Etcd(self.folder, tls=self.mix("server", ca_crt=worker, tls_crt=server, tls_key=server),
                    name="apart", port=2479)
        self.addCleanup(etcd.end)
        leader, standby = self.start_pair(etcd.addresses(), etcd.addresses(), flags=["--etcd_tls", client])
        etcd.kill()
        self.assertEqual(leader.process.wait(PATIENCE), 1, leader.log())
        self.await_that(lambda: "no member of etcd answers" in standby.log(), "etcd is away")
        renewed = self.make_certificates("renewed", HOST) / "worker"
        for file in ("tls.crt", "tls.key"):
            (client / file).write_bytes((renewed / file).read_bytes())
        (self.folder / "server" / "ca.crt").write_bytes((renewed / "ca.crt").read_bytes())
        etcd.start()
        self.await_that(standby.leads, "the standby leads")

    def test_a_certificate_for_another_host_is_said(self):
        other = self.make_certificates("other", "etcd.example")
        etcd = Etcd(self.folder, tls=other / "coordinator", name="other", port=2479)
        self.addCleanup(etcd.end)
        self.assert_refused(etcd, other / "worker", "is for", "etcd.example", f"and not for {HOST}")


class ThreeMembersTest(FailoverCase):
    members = 3

    def start_etcd(self):
        etcd = super().start_etcd()
        self.etcd = etcd
        self.await_that(self.has_leader, "etcd has a leader")
        return etcd

    def has_leader(self):
        try:
            return self.etcd.leader() >= 0
        except (urllib.error.URLError, ValueError, KeyError):
            return False

    def leader_and_first(self):
        """The leader of etcd, and the addresses of its members with one that does not lead first."""
        leader = self.etcd.leader()
        first = (leader + 1) % 3
        order = [first, *(member for member in range(3) if member != first)]
        return leader, first, ",".join(self.etcd.address(member) for member in order)

    def test_members_die_and_the_job_goes_on(self):
        leader, first, addresses = self.leader_and_first()
        self.start_pair(addresses, addresses)
        self.start_job()
        self.etcd.kill(first)
        self.await_progress()
        self.change_something()
        self.etcd.start(first)
        self.await_that(self.has_leader, "all members answer")
        self.etcd.kill(self.etcd.leader())
        self.await_progress()
        self.change_something()
        self.stop_job()

    def test_doctor_says_which_member_fails_and_whether_there_is_a_majority(self):
        # On a loaded machine the members elect another leader now and then.
        self.await_that(lambda: self.severities() == (0, ["ok"] * 3), "all members agree")
        leader, first, _ = self.leader_and_first()
        revision = self.revision()
        self.etcd.kill(first)
        self.await_that(lambda: self.severities() == (0, ["ok", "ok", "warning"]), "one member fails")
        bad, = (one for one in self.found if one["severity"] != "ok")
        self.assertIn(f"is reached at {self.etcd.address(first)}", bad["what"])
        self.assertEqual(self.revision(leader), revision, "nothing is written")
        self.etcd.signal(signal.SIGSTOP, leader)
        code, found = diagnose(self.etcd)
        self.etcd.signal(signal.SIGCONT, leader)
        self.assertEqual((code, [one["severity"] for one in found]), (1, ["error"] * 3), found)
        said = {one["what"].split(self.etcd.address(member))[-1].split(":")[0]
                for member in range(3) for one in found if self.etcd.address(member) in one["what"]}
        self.assertEqual(len(said), 3, found)
        self.assertIn(" accepts connections and does not answer", said)
        self.assertIn(" answers, and no majority confirms what it says", said)

    def severities(self):
        code, self.found = diagnose(self.etcd)
        return code, sorted(one["severity"] for one in self.found)

    def revision(self, member=0):
        return self.etcd.ask("kv/range", member, key="AA==")["header"]["revision"]

    def test_a_silent_member_delays_no_failover(self):
        """The best of some tries: on a loaded machine each step may take seconds longer."""
        _, first, addresses = self.leader_and_first()
        daemon, standby = self.start_pair(addresses, addresses)
        took = []
        while not took or (min(took) >= 4.5 and len(took) < 4):
            self.etcd.signal(signal.SIGSTOP, first)
            daemon.process.kill()
            begin = time.monotonic()
            self.await_that(standby.leads, "the standby leads")
            took.append(time.monotonic() - begin)
            self.etcd.signal(signal.SIGCONT, first)
            daemon, standby = standby, self.start_daemon(etcd=addresses)
            self.await_that(standby.waits, "the next one waits")
        print(f"the standby leads {min(took):.2f} s after the leader and the member of etcd that both "
              "asked went silent")
        self.assertLess(min(took), 4.5)

    def test_a_leader_keeps_its_lease_though_a_member_is_silent(self):
        """Unless the machine is so loaded that the other members do not answer in 1.3 s."""
        _, first, addresses = self.leader_and_first()
        leader = self.start_daemon(port=7001, etcd=addresses)
        self.await_that(leader.leads, "it leads")
        self.start_job()
        for _ in range(4):
            self.etcd.signal(signal.SIGSTOP, first)
            time.sleep(4)  # two leases
            self.etcd.signal(signal.SIGCONT, first)
            if leader.process.poll() is None:
                break
            self.assertIn("could not be renewed in time", leader.complaints()[0])
            leader = self.start_daemon(port=7001, etcd=addresses)
            self.await_that(leader.leads, "the next one leads")
            self.await_progress()
        self.assertIsNone(leader.process.poll(), leader.log())
        self.await_progress()
        self.change_something()
        self.stop_job()


class NetworkTest(FailoverCase):
    """Each coordinator asks etcd through a listener of a relay."""

    def setUp(self):
        super().setUp()
        self.relay = Relay()
        self.addCleanup(self.end_relay)

    def end_relay(self):
        self.relay.end()
        self.relay.process.stdin.close()
        self.relay.process.stdout.close()

    def through(self, name):
        return f"{HOST}:{self.relay.ask('listen', name, HOST, self.etcd.address())}"

    def test_a_leader_that_is_cut_off_from_etcd_ends_and_another_one_leads(self):
        leader, standby = self.start_pair(self.through("a"), self.through("b"))
        self.start_job()
        self.relay.ask("hold", "a")
        begin = time.monotonic()
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        ended = time.monotonic() - begin
        self.assertEqual(len([line for line in leader.complaints() if " error " in line]), 1)
        self.assertIn("this coordinator leads no more", leader.complaints()[0])
        self.await_that(standby.leads, "the standby leads")
        print(f"the leader ended {ended:.2f} s after it was cut off from etcd, the standby led "
              f"{time.monotonic() - begin:.2f} s after")
        at = lambda daemon, text: next(line[:23] for line in daemon.log().splitlines() if text in line)
        self.assertLess(at(leader, "leads no more"), at(standby, "with term"),
                        "it stops before another one may lead")
        self.await_progress()
        self.stop_job()

    def test_a_slow_etcd_is_waited_for(self):
        slow = self.through("a")
        self.relay.ask("delay", "a", 0.1, 0.15)
        leader = self.start_daemon(etcd=slow)
        self.await_that(leader.leads, "it leads")
        self.start_job()
        self.change_something()
        time.sleep(3)  # longer than a lease
        self.await_progress()
        self.assertEqual(leader.complaints(), [])
        self.stop_job()

    def test_an_etcd_that_becomes_too_slow_ends_the_leader_and_not_the_job(self):
        leader, standby = self.start_pair(self.through("a"), self.through("b"))
        self.start_job()
        self.relay.ask("delay", "a", 2, 2.5)
        self.assertEqual(leader.process.wait(PATIENCE), 1)
        self.assertIn("could not be renewed in time", leader.complaints()[0])
        self.await_that(standby.leads, "the standby leads")
        self.await_progress()
        self.stop_job()

    def test_an_etcd_that_is_too_slow_at_a_start_is_said_once(self):
        slow = self.through("a")
        self.relay.ask("delay", "a", 2, 2.5)
        daemon = self.start_daemon(etcd=slow)
        self.await_that(daemon.complaints, "it is said")
        time.sleep(3)
        self.assertEqual(len(daemon.complaints()), 1, daemon.log())
        self.assertIn("no member of etcd answers", daemon.complaints()[0])
        self.relay.ask("delay", "a", 0, 0)
        self.await_that(daemon.leads, "it leads")


class AbsentTest(FailoverCase):
    def start_etcd(self):
        return Etcd(self.folder, members=0)

    def test_an_etcd_that_is_absent_at_a_start_is_said_once(self):
        daemon = self.start_daemon(etcd=self.etcd.address())
        self.await_that(daemon.complaints, "it is said")
        time.sleep(3)
        self.assertEqual(len(daemon.complaints()), 1, daemon.log())
        self.assertIn("no member of etcd answers", daemon.complaints()[0])
        self.assertIn(self.etcd.address(), daemon.complaints()[0])
        self.etcd.end()
        self.etcd = Etcd(self.folder)
        self.addCleanup(self.etcd.end)
        self.await_that(daemon.leads, "it leads")


class FullTest(FailoverCase):
    etcd_flags = ("--quota-backend-bytes=4194304",)

    def fill(self):
        big = "x" * (1 << 20)
        for number in range(8):
            try:
                self.etcd.put(f"filler/{number}", big)
            except urllib.error.HTTPError:
                return
        self.fail("etcd takes more than its quota")

    def make_room(self):
        """As docs/high-availability.md says."""
        gone = self.etcd.ask("kv/deleterange", key=base64.b64encode(b"filler/").decode(),
                             range_end=base64.b64encode(b"filler0").decode())
        self.etcd.ask("kv/compaction", revision=gone["header"]["revision"])
        self.etcd.ask("maintenance/defragment")
        alarm = self.etcd.ask("maintenance/alarm", action="GET")["alarms"][0]
        self.etcd.ask("maintenance/alarm", action="DEACTIVATE", alarm=alarm["alarm"],
                      memberID=alarm["memberID"])

    def test_a_full_etcd_is_said_and_the_job_goes_on(self):
        leader, _ = self.start_pair()
        self.start_job()
        self.fill()
        paused = self.ctl("pause", "trained")
        self.assertEqual(paused.returncode, 1, paused.stdout)
        self.assertIn("has no room", paused.stderr)
        described = self.ctl("describe", "trained").stdout
        self.assertIn("has no room", described)
        self.assertEqual(len(leader.complaints()), 1, leader.log())
        self.assertIn("etcd", leader.complaints()[0])
        self.assertIn("space", leader.complaints()[0])
        self.assertIsNone(leader.process.poll())
        code, found = diagnose(self.etcd)
        self.assertEqual((code, [one["severity"] for one in found]), (1, ["ok", "error"]), found)
        self.assertIn("NOSPACE", found[1]["what"])
        self.make_room()
        self.await_that(lambda: "has room again" in leader.log(), "it has room")
        self.assertEqual(self.ctl("resume", "trained").returncode, 0)
        self.await_progress()
        self.stop_job()


class ForeignKeyTest(FailoverCase):
    KEY = "lockstep/test/leader"

    def test_a_leaders_key_that_no_coordinator_wrote_is_said(self):
        self.await_that(self.put_foreign, "etcd answers")
        daemon = self.start_daemon()
        self.await_that(daemon.complaints, "it is said")
        time.sleep(2.5)
        self.assertEqual(len(daemon.complaints()), 1, daemon.log())
        for word in (self.KEY, "has no lease", "an operator's note", "etcdctl del"):
            self.assertIn(word, daemon.complaints()[0])
        self.etcd.delete(self.KEY)
        self.await_that(daemon.leads, "it leads")

    def put_foreign(self):
        try:
            return bool(self.etcd.put(self.KEY, "an operator's note"))
        except urllib.error.URLError:
            return False

    def test_a_coordinator_that_waits_says_that_its_port_is_taken(self):
        leader = self.start_daemon(port=7001)
        self.await_that(leader.leads, "the first one leads")
        standby = self.start_daemon(port=7001)
        self.await_that(lambda: "Address already in use; it could not serve if it led now" in standby.log(),
                        "the second one says so")
        self.assertTrue(standby.waits())

    def test_a_leader_whose_key_is_overwritten_says_that_it_leads_no_more(self):
        leader, standby = self.start_pair()
        self.start_job()
        self.etcd.put(self.KEY, "overwritten")
        self.assertEqual(leader.process.wait(PATIENCE), 1, "it looks at its key")
        self.await_that(lambda: "has no lease" in standby.log(), "the standby says it")
        self.assertEqual(len([line for line in leader.complaints() if " error " in line]), 1,
                         leader.log())
        self.assertIn("leads no more", leader.complaints()[0])
        self.etcd.delete(self.KEY)
        self.await_that(standby.leads, "the standby leads")
        self.await_progress()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *REST])
