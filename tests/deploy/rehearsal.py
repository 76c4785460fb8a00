"""Runs what the manifests start, on this host: their flags, with other addresses and folders."""

import contextlib
import os
import re
import resource
import secrets
import subprocess
import tempfile
import time
from pathlib import Path

from deployment import container_of, environment_of, port_of

# Where the manifests, the image and the unit look for secrets.
SECRETS = "/etc/lockstep"
# As the secrets of a pod are mounted; base/secret_file.h wants 0400 of others than root.
SECRET_MODE = 0o440 if os.geteuid() == 0 else 0o400
PATIENCE = 60


class Daemon:
    """lockstepd with the given flags."""

    def __init__(self, program, words, folder):
        self._port_file = Path(folder) / "port"
        self._port_file.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [program, *rehearsed(words, folder), "--port_file", self._port_file],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def port(self):
        """Once it serves."""
        while not self._port_file.exists():
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate()[1])
            time.sleep(0.01)
        return port_of(self._port_file.read_text())


@contextlib.contextmanager
def running_daemon(program, words, folder):
    daemon = Daemon(program, words, folder)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.communicate()


def rehearsed(words, folder):
    """The flags with free ports, and journal, certificates and tokens in `folder`; an etcd that is away."""
    line = re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+", r"\1:0", " ".join(words))
    line = re.sub(r"(--journal[ =])(?!etcd:)\S+", rf"\1{folder}/journal", line)
    line = line.replace("$(ETCD_MEMBERS)", "127.0.0.1:1").replace(f"{SECRETS}/etcd-tls", f"{folder}/certs/worker")
    line = line.replace(f"{SECRETS}/tls", f"{folder}/certs/coordinator")
    return line.replace(f"{SECRETS}/tokens", f"{folder}/tokens").split()


def make_secrets(lockstepctl, folder):
    """Certificates and tokens, as docs/kubernetes.md makes them, and mounted as in a pod."""
    folder = Path(folder)
    made = folder / "made"
    subprocess.run([lockstepctl, "certs", "init", made, "--host", "lockstep-coordinator,localhost"],
                   check=True, capture_output=True)
    for role in ("coordinator", "worker", "operator"):
        mount_secret(folder / "certs" / role, {file.name: file.read_text() for file in (made / role).iterdir()})
    mount_tokens(lockstepctl, folder)


def mount_tokens(lockstepctl, folder):
    folder = Path(folder)
    tokens = {who: secrets.token_hex(32) + "\n" for who in ("operator", "worker")}
    mount_secret(folder / "tokens", tokens)
    join = subprocess.run([lockstepctl, "token", "digits", "--worker-token-file", folder / "tokens/worker"],
                          check=True, capture_output=True, text=True).stdout
    mount_secret(folder / "token", {"token": join})


def mount_secret(folder, files):
    """As the kubelet does: links to files in a folder that it replaces as a whole."""
    data = folder / "..2026_01_01_00_00_00.1"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, text in files.items():
        (data / name).touch(mode=0o600)
        (data / name).write_text(text)
        (data / name).chmod(SECRET_MODE)
        (folder / name).symlink_to(f"..data/{name}")


class Pod:
    """One pod of the workers' Job: its container's command, on this host."""

    def __init__(self, programs, job, index, folder, port, steps, limits=()):
        container = container_of(job)
        known = {**environment_of(container), "NODE_RANK": str(index), "POD_ADDRESS": "127.0.0.1"}
        line = "\n".join(container["args"])
        for name, value in known.items():
            line = line.replace(f"$({name})", value)
        line = re.sub(r"--address=\S+", f"--address=localhost:{port}", line)
        line = re.sub(r"--steps=\d+", f"--steps={steps}", line)
        for mounted, here in ((f"{SECRETS}/tls", f"{folder}/certs/worker"), (f"{SECRETS}/token/", f"{folder}/token/"),
                              (f"{SECRETS}/job/", f"{folder}/"), ("/var/lib/lockstep-state/", f"{folder}/")):
            line = line.replace(mounted, here)
        # No folder of the image is writable, and there is no home.
        environment = {"PATH": ":".join({str(path.parent) for path in programs.values()}), "TMPDIR": "/nonexistent"}
        self._output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([programs[container["command"][0]], *line.split("\n")], env=environment,
                                        stdout=self._output, stderr=subprocess.STDOUT,
                                        preexec_fn=lambda: [resource.setrlimit(*limit) for limit in limits])

    def said(self):
        self._output.seek(0)
        return self._output.read()

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.said()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"never said {pattern}:\n{self.said()}")
            time.sleep(0.02)

    def end(self):
        """The exit code, and the largest resident memory in bytes of one of its processes."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, usage.ru_maxrss << 10

    def stop(self):
        self.process.kill()
        self.process.wait()
        self._output.close()


def issue(certificates, folder):
    """What cert-manager makes of these Certificates, made by openssl, in `folder`/SECRET."""
    folder = Path(folder)
    folder.mkdir()

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
    openssl("req", "-new", "-x509", "-key", "ca.key", "-subj", "/CN=lockstep-authority", "-days", "1", "-out", "ca.crt")
    names = {"server auth": "serverAuth", "client auth": "clientAuth"}
    for spec in certificates:
        units = "".join(f"/OU={unit}" for unit in spec.get("subject", {}).get("organizationalUnits", []))
        usages = ",".join(names[usage] for usage in spec["usages"] if usage in names)
        lines = ["keyUsage=digitalSignature", f"extendedKeyUsage={usages}"]
        if spec.get("dnsNames"):
            lines.append("subjectAltName=" + ",".join(f"DNS:{name}" for name in spec["dnsNames"]))
        (folder / "extensions").write_text("\n".join(lines) + "\n")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "tls.key")
        openssl("req", "-new", "-key", "tls.key", "-subj", f"{units}/CN={spec['commonName']}", "-out", "request")
        openssl("x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "1", "-extfile", "extensions", "-out", "tls.crt")
        mount_secret(folder / spec["secretName"],
                     {name: (folder / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key")})
    return folder
