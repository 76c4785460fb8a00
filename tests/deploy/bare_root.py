"""Bare Debian 12 systems in folders, into which tests install Lockstep as a user does.

    base = with_archives("base", packages)   made once, by debootstrap
    with copied(base) as root:               another one for each use
        root.install(*debs)
    with Host() as host:                     a network of its own, loopback only
        host.mount(root, read_only=True)
        host.start(root, "lockstepd", ..., user="lockstepd")

The packages come from the mirrors that apt of this machine uses. Roots are kept in build/bare:
making one takes half a minute, copying one less than a second. Mounts are made in mount
namespaces of their own, so none is left behind.
"""

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build/bare"
RELEASE = "bookworm"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Those that this machine trusts, among them perhaps that of a mirror. Packages write the file of
# that name in the root anew.
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
AUTHORITIES_THERE = "/etc/ssl/of-the-host.crt"
PROGRAMS = ("debootstrap", "unshare", "nsenter", "chroot", "ip")


class Unavailable(Exception):
    """Says why this machine cannot make a bare root."""


def require():
    if os.geteuid() != 0:
        raise Unavailable("not root, which debootstrap and chroot need")
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise Unavailable(f"not installed: {' '.join(missing)}")
    tried = subprocess.run(["unshare", "--mount", "--net", "mount", "-t", "tmpfs", "none", "/mnt"],
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise Unavailable(f"no namespaces with mounts: {tried.stderr.strip()}")
    mirrors()


@functools.cache
def mirrors():
    """[(suite, component, URI)] of the Debian 12 that apt of this machine installs from."""
    wanted = "$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"
    said = subprocess.run(["apt-get", "indextargets", "--format", wanted, "Created-By: Packages"],
                          capture_output=True, text=True, check=False)
    rows = [line.split("|") for line in said.stdout.splitlines()]
    found = sorted({(release, component, uri) for origin, release, component, uri in rows
                    if origin == "Debian" and release.partition("-")[0] == RELEASE})
    if (RELEASE, "main") not in [row[:2] for row in found]:
        raise Unavailable(f"apt knows no mirror of Debian's {RELEASE}: apt-get update, on a Debian 12")
    return found


def mirror():
    return next(uri for suite, component, uri in mirrors() if (suite, component) == (RELEASE, "main"))


def output_of(*words, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


class Root:
    """A Debian in the folder `path`."""

    def __init__(self, path):
        self.path = Path(path)

    def __truediv__(self, path):
        return self.path / str(path).lstrip("/")

    def do(self, *words, mounts=""):
        """Runs a command there, as root, with the network of this machine; returns its output.

        mounts: a script for the namespace of this command, before the change of root.
        """
        script = f'mount --bind /proc "{self.path}/proc"\n{mounts}\nexec chroot "{self.path}" "$@"'
        return output_of("unshare", "--mount", "sh", "-euc", script, "sh", *words, env=environment())

    def apt(self, *words):
        return self.do("apt-get", "-q", "-y", "--no-install-recommends", *words)

    def install(self, *debs):
        """Files of packages, with what they depend on."""
        for deb in debs:
            shutil.copy(deb, self / "tmp")
        return self.apt("install", *(f"/tmp/{Path(deb).name}" for deb in debs))


def environment():
    settings = {name: value for name, value in os.environ.items()
               if name.lower().endswith("_proxy") or name.startswith("PIP_")}
    if AUTHORITIES.exists():
        settings["PIP_CERT"] = AUTHORITIES_THERE
    return {"PATH": PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **settings}


def bootstrap(path):
    """A minimal Debian with the package lists of its mirrors, at `path`."""
    done = subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", RELEASE, path, mirror()],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment())
    if done.returncode != 0:
        raise Unavailable("debootstrap: " + " / ".join(done.stdout.splitlines()[-3:]))
    root = Root(path)
    (root / "etc/apt/sources.list").write_text(
        "".join(f"deb {uri} {suite} {component}\n" for suite, component, uri in mirrors()))
    # Proxies and such of this machine's apt.
    ours = [line for line in output_of("apt-config", "dump").splitlines() if re.match(r"Acquire::https?::", line)]
    if AUTHORITIES.exists():
        (root / AUTHORITIES_THERE).parent.mkdir(exist_ok=True)
        shutil.copy(AUTHORITIES, root / AUTHORITIES_THERE)
        ours.append(f'Acquire::https::CAInfo "{AUTHORITIES_THERE}";')
    (root / "etc/apt/apt.conf.d/90of-the-host").write_text("".join(f"{line}\n" for line in ours))
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    # Nothing here outlives a crash of the machine, and no package starts a daemon.
    (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    root.apt("update")
    return root


def cached(name, key, make):
    """The root `name`: make(path) makes it, unless it was made with the same key."""
    digest = hashlib.sha256(repr((key, mirrors(), inspect.getsource(bootstrap))).encode()).hexdigest()[:16]
    path = FOLDER / f"{name}-{digest}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for former in FOLDER.glob(f"{name}-*"):
                remove(former)
            unfinished = FOLDER / f"unfinished-{name}"
            remove(unfinished)
            make(unfinished)
            unfinished.rename(path)
    return Root(path)


def with_archives(name, *together):
    """The bare root `name`, in which apt has packages and their dependencies at hand: of each
    list, those that are installed together."""
    def make(path):
        root = bootstrap(path)
        for packages in together:
            root.apt("install", "--download-only", *packages)
    return cached(name, together, make)


def with_installed(base, packages):
    """A copy of `base` in which these packages are installed."""
    def make(path):
        copy(base.path, path)
        root = Root(path)
        root.apt("install", *packages)
        root.apt("clean")
    return cached("installed", (base.path.name, packages), make)


def copy(source, target):
    output_of("cp", "-a", "--reflink=auto", source, target)


def remove(path):
    output_of("rm", "-rf", "--one-file-system", path)


@contextlib.contextmanager
def scratch():
    for former in FOLDER.glob("scratch-*"):  # of tests that were killed
        if not Path("/proc", former.name.split("-")[1]).exists():
            remove(former)
    folder = tempfile.mkdtemp(prefix=f"scratch-{os.getpid()}-", dir=FOLDER)
    try:
        yield folder
    finally:
        remove(folder)


@contextlib.contextmanager
def copied(base):
    with scratch() as folder:
        copy(base.path, f"{folder}/root")
        yield Root(f"{folder}/root")


class Host:
    """A network of its own, loopback only, and the mounts of the roots whose programs use it."""

    def __enter__(self):
        self._started = []
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-euc", "ip link set lo up; echo up; read -r end"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "up\n":
            raise AssertionError("the namespaces could not be made")
        return self

    def __exit__(self, *_):
        for process in self._started:
            process.kill()
            process.wait()
            process.stderr.close()
        self._holder.communicate("end\n")

    def _inside(self, *words):
        return ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", *words]

    def mount(self, root, read_only=False, folders=None, writable=None):
        """Before the programs of a root. folders: {path there: folder here}, read-only;
        writable: {path there: owner}, empty folders in memory."""
        lines = [f'mount --bind "{root.path}" "{root.path}"']
        if read_only:
            lines.append(f'mount -o remount,bind,ro "{root.path}"')
        lines.append(f'mount --bind /proc "{root / "proc"}"')
        for there, here in (folders or {}).items():
            lines += [f'mount --bind "{here}" "{root / there}"', f'mount -o remount,bind,ro "{root / there}"']
        for there, owner in (writable or {}).items():
            lines.append(f'mount -t tmpfs -o mode=0700,uid={owner},gid={owner} none "{root / there}"')
        output_of(*self._inside("sh", "-euc", "\n".join(lines)))

    def _command(self, root, words, user):
        # No privileges can be gained, as in a pod.
        return self._inside("chroot", f"--userspec={user}", root.path, "setpriv", "--no-new-privs",
                            "--pdeathsig=KILL", "env", "-i", f"PATH={PATH}", *words)

    def start(self, root, *words, user):
        """user: USER:GROUP, names of that root or numbers. Standard error is a pipe."""
        process = subprocess.Popen(self._command(root, words, user), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def do(self, root, *words, user):
        return output_of(*self._command(root, words, user), timeout=60)


def wait_for_line(process, pattern):
    """Reads standard error until a line matches; returns the match."""
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"ended with {process.wait()} and never said {pattern}:\n{''.join(said)}")
