"""Hosts on this machine, one for each worker: network and mount namespaces, routed by this one.

    ┌ outside: test, lockstepd ┐
    │ 10.77.255.1              ├── h0 ──── 10.77.0.2 │ host 0
    │ forwards between hosts   ├── h1 ──── 10.77.1.2 │ host 1
    └──────────────────────────┘

cut(N) drops all packets from and to host N: a black hole, in which no connection is closed.
"""

import os
import shutil
import subprocess
import sys

OUTSIDE = "10.77.255.1"
SKIPPED = 77
INSIDE = "LOCKSTEP_TEST_HOSTS_INSIDE"
RULES = """
table ip cable {
  set dead { type ifname; }
  chain forwarded { type filter hook forward priority 0; iifname @dead drop; oifname @dead drop; }
  chain received { type filter hook input priority 0; iifname @dead drop; }
  chain sent { type filter hook output priority 0; oifname @dead drop; }
}
"""


def which(tool):
    return shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def enter():
    """Restarts this program in namespaces of its own; exits with 77 where that is impossible."""
    if os.environ.get(INSIDE):
        return
    missing = [tool for tool in ("unshare", "nsenter", "ip", "nft") if not which(tool)]
    if missing:
        print(f"skipped: there is no {', '.join(missing)} (packages util-linux, iproute2, nftables)")
        sys.exit(SKIPPED)
    # --kill-child and the PID namespace end all that this process started.
    command = [which("unshare"), "-Urnmpf", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        print(f"skipped: namespaces cannot be made here: {tried.stderr.strip()}")
        sys.exit(SKIPPED)
    os.environ[INSIDE] = "1"
    os.execv(command[0], [*command, sys.executable, *sys.argv])


def run(*words, text=None):
    done = subprocess.run([which(words[0]), *words[1:]], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


class SeparateHosts:
    def __init__(self, count):
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", f"{OUTSIDE}/32", "dev", "lo")
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as forward:
            forward.write("1")
        run("nft", "-f", "-", text=RULES)
        self.holders, self.dead = [], None
        for host in range(count):
            self._add(host)

    def _add(self, host):
        # A process whose namespaces are the host.
        holder = subprocess.Popen([which("unshare"), "-nm", "sh", "-c", "echo; exec cat"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holders.append(holder)
        holder.stdout.readline()
        run("ip", "link", "add", "name", f"h{host}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        run("ip", "addr", "add", f"10.77.{host}.1/24", "dev", f"h{host}")
        run("ip", "link", "set", f"h{host}", "up")
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"10.77.{host}.2/24", "dev", "eth0"),
                      ("link", "set", "eth0", "up"), ("route", "add", "default", "via", f"10.77.{host}.1")):
            run(*self.prefix(host), which("ip"), *words)

    @staticmethod
    def address(host):
        return f"10.77.{host}.2"

    def prefix(self, host):
        """Of the command of a process on this host."""
        return [which("nsenter"), "-t", str(self.holders[host].pid), "-n", "-m"]

    def cut(self, host):
        self.dead = host
        run("nft", "add", "element", "ip", "cable", "dead", "{", f"h{host}", "}")

    def heal(self):
        run("nft", "delete", "element", "ip", "cable", "dead", "{", f"h{self.dead}", "}")

    def end(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
