"""The stages of deploy/Dockerfile, made by their own scripts in bare Debians, serve a job.

    images_test.py        everything: the stage build compiles the source tree (./run long images)

packages_test.py runs these cases in CI, with packages and an example that are built already.
There is no container engine here: `docker build` itself is not tested.
"""

import os
import shlex
import shutil
import signal
import sys
import unittest
from pathlib import Path

import bare_root
from bare_root import FOLDER, Host, output_of, wait_for_line
from dockerfile import PROGRAMS, Dockerfile

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "deploy/container"
# What install.sh installs besides the packages and their dependencies.
IMAGE_PACKAGES = ("systemd-standalone-sysusers",)
COORDINATOR_MIB_MAX = 40  # more than its base


class ImagesTest(unittest.TestCase):
    base = None  # a bare Debian
    parts = None  # what build.sh makes: a folder

    @classmethod
    def setUpClass(cls):
        cls.file = Dockerfile()
        cls.images = {stage: cls.enterClassContext(bare_root.copied(cls.base)) for stage in PROGRAMS}
        for stage, root in cls.images.items():
            words, mounted = cls.file.install(stage)
            root.do(*words, mounts=f'mount --bind "{cls.parts}" "{root / mounted}"')

    def start(self, host, stage, *arguments):
        return host.start(self.images[stage], *(arguments or self.file.command(stage)),
                          user=self.file.one(stage, "USER"))

    def run_in(self, stage, *words):
        return self.images[stage].do(*words)

    def test_a_worker_s_image_trains_on_the_coordinator_s_with_read_only_roots(self):
        users = {stage: self.file.one(stage, "USER").partition(":")[0] for stage in PROGRAMS}
        self.assertNotIn("0", users.values())
        certificates = self.certificates(users)
        with Host() as host:
            for stage in PROGRAMS:
                (self.images[stage] / "etc/lockstep/tls").mkdir(parents=True, exist_ok=True)
            host.mount(self.images["coordinator"], read_only=True,
                       folders={"/etc/lockstep/tls": certificates / "coordinator"},
                       writable={"/var/lib/lockstep": users["coordinator"]})
            host.mount(self.images["worker"], read_only=True,
                       folders={"/etc/lockstep/tls": certificates / "worker"})
            daemon = self.start(host, "coordinator", *self.file.command("coordinator"),
                                "--journal", "/var/lib/lockstep/journal")
            wait_for_line(daemon, r"listening on")
            self.assertNotEqual(self.writes(host, "coordinator"), 0, "the root is not read-only")
            launcher = self.start(host, "worker", *self.file.command("worker"), "--address", "localhost:7070",
                                  "--tls", "/etc/lockstep/tls", "run", "-n", "2", "--", "digits", "--steps", "20")
            said = launcher.communicate(timeout=60)[1]
            self.assertEqual(launcher.returncode, 0, said)
            daemon.send_signal(signal.SIGTERM)
            said = daemon.communicate(timeout=30)[1]
            self.assertEqual(daemon.returncode, 0, said)
            self.assertIn("completed", said)

    def certificates(self, users):
        """{coordinator, worker}, each of the user that reads it."""
        root = self.images["worker"]
        root.do("lockstepctl", "certs", "init", "/srv/certs", "--host", "localhost")
        for stage, user in users.items():
            root.do("chown", "-R", f"{user}:{user}", f"/srv/certs/{stage}")
        kept = Path(self.enterContext(bare_root.scratch()))
        shutil.move(root / "srv/certs", kept)
        return kept / "certs"

    def writes(self, host, stage):
        process = self.start(host, stage, "touch", "/tmp/file")
        process.communicate(timeout=60)
        return process.returncode

    def test_each_has_its_programs(self):
        for stage, programs in PROGRAMS.items():
            for program in programs:
                with self.subTest(stage, program=program):
                    self.run_in(stage, "sh", "-c", f"command -v {program}")

    def test_the_coordinator_is_small_and_knows_nothing_of_cuda(self):
        image = self.images["coordinator"]
        found = [path for path in image.path.rglob("*") if path.name.startswith(("libnccl", "libcuda", "systemctl"))]
        self.assertEqual(found, [])
        grown = size_of(image) - size_of_base_without_lists(self.base)
        self.assertLess(grown >> 20, COORDINATOR_MIB_MAX)

    def test_the_worker_finds_its_nccl_and_all_that_nccl_links(self):
        known = self.run_in("worker", "ldconfig", "--print-cache").splitlines()
        self.assertEqual([line.partition(" => ")[2] for line in known if "libnccl" in line],
                         ["/usr/local/lib/libnccl.so.2"])
        self.assertNotIn("not found", self.run_in("worker", "ldd", "/usr/local/lib/libnccl.so.2"))
        licences = list((self.images["worker"] / "usr/local/share/doc/nccl").iterdir())
        self.assertNotEqual(licences, [])

    def test_an_image_without_a_name_is_refused(self):
        words, mounted = self.file.install("worker")
        with self.assertRaisesRegex(AssertionError, "exit 2\n.*no image is called 'trainer'"):
            self.images["worker"].do(words[0], "trainer", mounted,
                                     mounts=f'mount --bind "{self.parts}" "{self.images["worker"] / mounted}"')


def size_of(root, *excluded):
    options = [f"--exclude={root.path}/{path}" for path in ("proc", *excluded)]
    return int(output_of("du", "-s", "--block-size=1", *options, root.path).split()[0])


def size_of_base_without_lists(base):
    return size_of(base, "var/lib/apt/lists", "var/cache/apt")


def parts_of(debs, digits):
    """The folder that build.sh would make, of packages and a program that exist already, with
    NCCL of the pinned wheel."""
    nccl = FOLDER / "nccl"
    pins = (CONTAINER / "nccl.txt").read_text()
    if not (nccl / "pins").exists() or (nccl / "pins").read_text() != pins:
        bare_root.remove(nccl)
        output_of(CONTAINER / "wheels.sh", nccl, CONTAINER / "nccl.txt")
        (nccl / "pins").write_text(pins)
    out = FOLDER / "parts"
    bare_root.remove(out)
    out.mkdir()
    for file in (*debs, CONTAINER / "install.sh"):
        shutil.copy(file, out)
    output_of("install", "--strip", digits, out)
    os.link(nccl / "nvidia/nccl/lib/libnccl.so.2", out / "libnccl.so.2")  # 200 MiB
    (licences,) = nccl.glob("nvidia_nccl_cu13-*.dist-info/licenses")
    shutil.copytree(licences, out / "nccl-licence")
    return out


def build_stage(root):
    """The instructions of the stage build, one after the other; the folder that it fills. Objects come
    from the compiler cache of this machine if it has them."""
    cache = output_of("ccache", "--get-config", "cache_dir").strip()
    tree = output_of("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    file, folder = Dockerfile(), None
    (root / "ccache").mkdir()
    for word, rest in file.stages["build"]:
        print(f"{word} {rest}", flush=True)
        if word == "WORKDIR":
            folder = rest
            (root / folder).mkdir(parents=True)
        elif word == "COPY":
            *sources, target = shlex.split(rest)
            copy_of_tree([name for name in tree if name], sources, target, root / folder)
        elif word == "RUN":
            root.do("env", "CCACHE_DIR=/ccache", "CCACHE_DEPEND=1", "sh", "-c", f"cd {folder} && {rest}",
                    mounts=f'mount --bind "{cache}" "{root / "ccache"}"')
        else:
            raise AssertionError(f"a stage for building has no {word}")
    return root / file.out()


def copy_of_tree(tree, sources, target, folder):
    for source in sources:
        for name in tree:
            if source == "." or name == source or name.startswith(source + "/"):
                into = folder / name if source == "." or target == source else folder / target / Path(name).name
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, into)


def main():
    try:
        bare_root.require()
        ImagesTest.base = bare_root.with_archives("plain", IMAGE_PACKAGES)
    except bare_root.Unavailable as why:
        print(f"skipped: no bare Debian 12 can be made here: {why}")
        return 77
    with bare_root.copied(ImagesTest.base) as root:
        ImagesTest.parts = build_stage(root)
        return 0 if unittest.main(exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
