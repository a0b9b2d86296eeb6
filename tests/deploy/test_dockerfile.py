"""The Dockerfile without Docker: its steps run in a Debian of their own, and its command as Docker would run it.

The base image is what Debian's images are made of, a minimal installation by debootstrap. Each stage is a copy of it,
and commands run in it with namespaces of their own: RUN as root, the command as the user of the image, with a file
system that can only be read, apart from the volume. All of it is in memory, and gone with the process that holds it.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deploying import DEPLOY, ROOT, needs_files, visits
from serving import free_port


def missing() -> str | None:
    """What this machine lacks to run the steps."""
    if os.geteuid() != 0:
        return "it takes root to run the steps of a Dockerfile without Docker"
    if shutil.which("debootstrap") is None:
        return "there is no debootstrap (package debootstrap)"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode:
        return "this machine allows no namespaces"
    return None


pytestmark = [needs_files, pytest.mark.integrations, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

# Nothing of this machine's files is mounted: what is installed there changes what it finds.
ENTER = """
mount -t proc proc "$0/proc"
mount -t tmpfs tmpfs "$0/tmp"
mount -t tmpfs -o mode=755 tmpfs "$0/dev"
for one in null zero full random urandom; do touch "$0/dev/$one"; mount --bind "/dev/$one" "$0/dev/$one"; done
ln -s /proc/self/fd "$0/dev/fd"
"""
READ_ONLY = """
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount --bind {volume} "$0"{mounted}
"""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
SLIM = """\
force-unsafe-io
path-exclude /usr/share/doc/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
"""
# How this machine reaches the package registries, and nothing else of its environment.
PASSED = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
if CERTIFICATES.exists():
    PASSED["PIP_CERT"] = "/var/certificates.crt"


class Space:
    """A folder in memory that only its own processes see."""

    folder = "/tmp"

    def __init__(self) -> None:
        command = f"mount -t tmpfs -o mode=755 tmpfs {self.folder} && echo ready && exec sleep infinity"
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"

    @property
    def path(self) -> Path:
        """The folder, as it is seen from outside."""
        return Path(f"/proc/{self.holder.pid}/root{self.folder}")

    def command(self, words: list[str]) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--wd=/", *words]

    def run(self, words: list[str]) -> None:
        done = subprocess.run(self.command(words), capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    def end(self) -> None:
        self.holder.kill()
        self.holder.communicate()


@dataclass
class Stage:
    """A file system, and what the instructions have set."""

    space: Space
    name: str
    folder: str = "/"
    user: str = "root"
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    volume: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.space.path / self.name

    def inside(self, words: list[str], script: str = ENTER) -> list[str]:
        """Return a command that runs words in the file system, and ends all that it has started when it ends."""
        root = f"{self.space.folder}/{self.name}"
        chroot = ["chroot", f"--userspec={self.user}", root, "env", "-C", self.folder, "-i"]
        chroot += [f"{name}={value}" for name, value in (PASSED | self.environment).items()]
        enter = f"set -e\n{script}\nexec {shlex.join([*chroot, *words])}"
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, root]
        return self.space.command(own)

    def run(self, line: str) -> None:
        done = subprocess.run(self.inside(["/bin/sh", "-c", line]), capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"RUN {line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    def copy(self, sources: list[Path], to: str) -> None:
        """Copy files to a file or a folder, and the content of folders."""
        place = self.root / (to if to.startswith("/") else f"{self.folder}/{to}").lstrip("/")
        into = to.endswith("/") or len(sources) > 1
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True, ignore=IGNORED)
            else:
                target = place / source.name if into else place
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)


IGNORED = shutil.ignore_patterns("__pycache__")  # as Dockerfile.dockerignore has it


def instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        yield name, rest.strip()


def built(text: str, space: Space) -> Stage:
    """Carry out the instructions of a Dockerfile; return the last stage."""
    bases: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage = Stage(space, "")
    for name, rest in instructions(text):
        if name == "FROM":
            image, _, called = rest.partition(" AS ")
            if image not in bases:
                bases[image] = debian(image, space)
            stage = stages[called] = Stage(space, f"stage-{len(stages)}")
            space.run(["cp", "-a", bases[image], f"{space.folder}/{stage.name}"])
            shutil.copy("/etc/resolv.conf", stage.root / "etc/resolv.conf")
            if CERTIFICATES.exists():  # a copy
                shutil.copy(CERTIFICATES, stage.root / "var/certificates.crt")
        elif name == "RUN":
            stage.run(rest)
        elif name == "COPY":
            *sources, to = rest.split()
            whence, below = ROOT, stage
            if sources[0].startswith("--from="):
                below = stages[sources.pop(0).removeprefix("--from=")]
                whence = below.root
            stage.copy([whence / source.lstrip("/") for source in sources], to)
        elif name == "ENV":
            variable, _, value = rest.partition("=")
            stage.environment[variable] = value
        elif name == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("[") :])
        elif name in ("USER", "VOLUME"):
            setattr(stage, name.lower(), rest)
        elif name == "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        elif name == "CMD":
            stage.command = json.loads(rest)
        else:
            assert name == "EXPOSE", f"this test does not know {name}"
    return stage


def debian(image: str, space: Space) -> str:
    """Install the Debian of an image such as debian:trixie-slim, with its settings of dpkg; return where."""
    suite = image.removeprefix("debian:").removesuffix("-slim")
    settings = space.path / suite / "etc/dpkg/dpkg.cfg.d"
    settings.mkdir(parents=True)
    (settings / "slim").write_text(SLIM)
    space.run(["debootstrap", "--variant=minbase", suite, f"{space.folder}/{suite}"])
    return f"{space.folder}/{suite}"


@dataclass
class Container:
    """An image with a volume, which may be run."""

    image: Stage
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        """Make the volume, with what the image has there, as Docker does."""
        place = f"{self.image.space.folder}/{self.image.name}{self.image.volume}"
        self.image.space.run(["cp", "-a", place, f"{self.image.space.folder}/volume"])

    @property
    def volume(self) -> Path:
        return self.image.space.path / "volume"

    def inside(self, words: list[str]) -> list[str]:
        volume, mounted = f"{self.image.space.folder}/volume", self.image.volume
        return self.image.inside(words, READ_ONLY.format(volume=volume, mounted=mounted) + ENTER)

    def start(self, **tokens: str) -> None:
        self.image.environment |= tokens
        command = self.inside([*self.image.entrypoint, *self.image.command, "--port", str(self.port)])
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, text=True)

    def healthy(self) -> bool:
        words = [word.replace("8000", str(self.port)) for word in self.image.health]
        return subprocess.run(self.inside(words), capture_output=True).returncode == 0

    def children(self) -> list[int]:
        """Processes in it, but for the first, which has only opened it."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in tasks.read_text().split()]

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def wait(self, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if self.ask("GET", "/health", {})[0] == 200:
                    return
            except OSError:
                pass
            said = self.log.read_text()
            assert self.process is not None
            assert self.process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.1)

    def stop(self) -> int:
        """Stop it as Docker does: SIGTERM to the command."""
        assert self.process is not None
        (command,) = self.children()
        os.kill(command, 15)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def image() -> Iterator[Stage]:
    space = Space()
    try:
        yield built((DEPLOY / "Dockerfile").read_text(), space)
    finally:
        space.end()


@pytest.fixture
def container(image: Stage, tmp_path: Path) -> Iterator[Container]:
    found = Container(image, tmp_path / "log.txt")
    yield found
    if found.process is not None and found.process.poll() is None:
        found.process.kill()
        found.process.wait()


def test_the_image_serves_as_an_ordinary_user_and_writes_to_its_volume_only(container: Container) -> None:
    container.start()
    assert container.process is not None
    assert container.process.wait(60) == 2  # it listens on all addresses, so it wants tokens
    assert "make tokens" in container.log.read_text()
    assert not container.healthy()

    container.start(INFERL_READ_TOKEN="a token to read with", INFERL_WRITE_TOKEN="a token to write with")
    container.wait()
    assert container.healthy()
    rows = b"\n".join(json.dumps(row).encode() for row in visits(50, seed=0))
    sent = {"Inferl-Client": "web", "Inferl-Sequence": "1", "Content-Type": "application/x-ndjson"}
    path = "/v1/experiments/shop/transitions"
    assert container.ask("POST", path, sent, rows)[0] == 401
    sent["Authorization"] = "Bearer a token to write with"
    assert container.ask("POST", path, sent, rows)[0] == 200
    (command,) = container.children()
    status = Path(f"/proc/{command}/status").read_text()
    uids = status.partition("\nUid:")[2].partition("\n")[0].split()
    assert set(uids) == {"10001"}
    root = (Path(f"/proc/{command}/mounts").read_text()).splitlines()
    assert any(line.split()[1] == "/" and line.split()[3].startswith("ro") for line in root)
    assert container.stop() == 0
    assert (container.volume / "shop/run.inferl").exists()

    container.start()
    container.wait()
    said = {"Authorization": "Bearer a token to read with"}
    assert container.ask("GET", "/v1/experiments/shop", said)[1]["rows"] == rows.count(b"\n") + 1
    assert container.stop() == 0


def test_the_image_has_the_compiled_kernel_and_no_compiler(image: Stage) -> None:
    script = "from inferl.engine import active; assert active().name.startswith('native'), active().name"
    image.run(f"python3 -c {shlex.quote(script)}")
    assert not (image.root / "usr/bin/g++").exists()
    assert not (image.root / "source").exists()
