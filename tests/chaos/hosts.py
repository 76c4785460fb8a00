"""Two hosts on this machine: namespaces of the test's own, with a virtual cable between them.

    ┌ host 0: this process, relay, lockstepd ┐                 ┌ host 1 ┐
    │ 10.77.0.1                              ├── hosta hostb ──┤ 10.77.0.2
    └────────────────────────────────────────┘                 └────────┘

All connections between the hosts go through the relay: those of workers to the coordinator because
they are told its address, those between workers because nft redirects them.
"""

import os
import shutil
import subprocess
import sys

ADDRESSES = ("10.77.0.1", "10.77.0.2")
SKIPPED = 77
INSIDE = "LOCKSTEP_CHAOS_INSIDE"
RULES = """
table ip chaos {{
  set control {{ type inet_service; }}
  chain redirect_out {{
    type nat hook output priority -100;
    meta mark 7 return
    ip daddr 10.77.0.2 meta l4proto tcp redirect to :{port}
  }}
  chain redirect_in {{
    type nat hook prerouting priority -100;
    iifname "hosta" tcp dport != @control redirect to :{port}
  }}
  chain from_host_1 {{ type filter hook input priority 0; }}
  chain to_host_1 {{ type filter hook output priority 0; }}
}}
"""


def enter():
    """Restarts this program in namespaces of its own; exits with 77 where that is impossible."""
    if os.environ.get(INSIDE):
        return
    missing = [tool for tool in ("unshare", "nsenter", "ip", "tc", "nft", "mount") if not which(tool)]
    if missing:
        skip(f"there is no {', '.join(missing)} (packages util-linux, iproute2, nftables, mount)")
    # Whatever happens to this process, --kill-child and the PID namespace end all that it started.
    command = [which("unshare"), "-Urnmpf", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        skip(f"namespaces cannot be made here: {tried.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execv(command[0], [*command, sys.executable, *sys.argv])


def which(tool):
    return shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def skip(why):
    print(f"skipped: {why}", flush=True)
    sys.exit(SKIPPED)


class Unavailable(Exception):
    """This kernel lacks something."""


def run(*words, text=None):
    done = subprocess.run([which(words[0]), *words[1:]], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    def __init__(self, relay):
        self.relay = relay
        self.second = subprocess.Popen([which("unshare"), "-nm", "sh", "-c", "echo; exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.second.stdout.readline()
        run("ip", "link", "add", "name", "hosta", "type", "veth", "peer", "name", "hostb", "netns",
            str(self.second.pid))
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "hosta")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "set", "hosta", "up")
        self.run_on_second("ip", "addr", "add", "10.77.0.2/24", "dev", "hostb")
        self.run_on_second("ip", "link", "set", "lo", "up")
        self.run_on_second("ip", "link", "set", "hostb", "up")
        port = relay.ask("transparent", "data", "0.0.0.0")
        run("nft", "-f", "-", text=RULES.format(port=port))

    def prefix(self, host):
        """Of the command of a process on this host."""
        return [which("nsenter"), "-t", str(self.second.pid), "-n", "-m"] if host else []

    def run_on_second(self, tool, *words):
        return run("nsenter", "-t", str(self.second.pid), "-n", "-m", which(tool), *words)

    def is_control(self, port):
        run("nft", "add", "element", "ip", "chaos", "control", "{", str(port), "}")

    # --- Faults of the cable ---

    def data(self, verdict):
        """Applies a verdict of nft to what the hosts send each other, except control connections."""
        run("nft", "-f", "-", text=f"""
            add rule ip chaos from_host_1 iifname "hosta" tcp dport != @control {verdict}
            add rule ip chaos to_host_1 oifname "hosta" tcp sport != @control {verdict}""")

    def all(self, verdict):
        run("nft", "-f", "-", text=f"""
            add rule ip chaos from_host_1 iifname "hosta" {verdict}
            add rule ip chaos to_host_1 oifname "hosta" {verdict}""")

    def slow(self, rate):
        bucket = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        run("tc", "qdisc", "replace", "dev", "hosta", *bucket)
        self.run_on_second("tc", "qdisc", "replace", "dev", "hostb", *bucket)

    def heal(self):
        run("nft", "-f", "-", text="flush chain ip chaos from_host_1\nflush chain ip chaos to_host_1")
        for on, device in ((run, "hosta"), (self.run_on_second, "hostb")):
            if "tbf" in on("tc", "qdisc", "show", "dev", device):
                on("tc", "qdisc", "del", "dev", device, "root")

    def end(self):
        self.second.kill()
        self.second.wait()
