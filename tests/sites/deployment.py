"""A real deployment on this machine: a server and sites as users of their own, with certificates, over localhost.

    with deployment(["Cleveland", "Hungary"], files={"Cleveland": {"own.csv": path}, ...}) as deployed:
        job = deployed.submit(folder)
        deployed.sites["Hungary"].kill()
        deployed.sites["Hungary"].start()
        deployed.wait(job)

Everything lies in a temporary folder; afterwards there are no processes and files left. Provisioning takes a second,
the start of a server and four sites ten (two cores).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from graphcollab.sites import allow
from tests.sites import page
from tests.sites.participant import Participant, hidden_folders, private_view

ADMIN = page.ADMIN
SERVER = "localhost"


def lacking() -> str | None:
    """Why there can be no deployment here, or None."""
    if importlib.util.find_spec("nvflare") is None:
        return "needs NVIDIA FLARE: pip install 'graphcollab[nvflare]'"
    if os.geteuid() != 0:
        return "needs root: every site runs as a user of its own"
    absent = [tool for tool in ("bash", "setpriv", "unshare") if shutil.which(tool) is None]
    if absent:
        return f"needs {', '.join(absent)} (util-linux)"
    if hidden_folders() and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return f"other users cannot enter {hidden_folders()[0]}, where Python is, and mounts are not allowed here"
    return None


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def wait_for(ready: Callable[[], object], seconds: float, what: str, every: float = 0.1) -> object:
    """What `ready` says as soon as it is true."""
    end = time.monotonic() + seconds
    while not (said := ready()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {seconds} s")
        time.sleep(every)
    return said


def provision(folder: Path, sites: Sequence[str], port: int) -> Path:
    """Make keys, certificates and kits of all, as the page tells the one who owns a project; the folder of the kits."""
    project = page.project(SERVER, port, sites)
    (folder / "project.yml").write_text(json.dumps(project))  # JSON is YAML
    told = page.commands("nvflare provision")[0]
    done = subprocess.run([sys.executable, "-m", "nvflare.cli", *told[1:]], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"provisioning failed: {done.stdout}{done.stderr}")
    (folder / "made").chmod(0o700)  # it holds the key that signs certificates
    return folder / "made" / project["name"] / "prod_00"


class Deployment:
    """A server, its admin and sites, as `deployment` makes them.

    Args:
        folder: an empty folder that others can enter.
        sites: names of the sites.
        files: of each site (or "localhost", the server), what lies in its private folder: text, or a file to copy.
        environment: what processes are told; "{private}" in it is the participant's private folder, "{name}" its name.
        resources: called with a name and the resources of its kit (``local/resources.json``), which it may change.
        allowed: class paths or packages that jobs may name besides those of `allow`.
        port: the server's port; None: a free one.
        line: whether sites reach the server over a line that `throttle` makes slow.
    """

    def __init__(
        self,
        folder: Path,
        sites: Sequence[str],
        files: Mapping[str, Mapping[str, str | Path]] | None = None,
        environment: Mapping[str, str] | None = None,
        resources: Callable[[str, dict], None] | None = None,
        allowed: Sequence[str] = (),
        port: int | None = None,
        line: bool = False,
    ):
        self.folder, self.port = folder, port or free_port()
        self._doors = {name: free_port() if line else self.port for name in sites}
        self._admin: subprocess.Popen | None = None
        self._line: subprocess.Popen | None = None
        kits = provision(folder, sites, self.port)
        users = 1_000_000 + 100 * secrets.randbelow(20_000_000)
        view = private_view(folder / "hold")
        self.everyone: dict[str, Participant] = {}
        for number, name in enumerate([SERVER, *sites, ADMIN]):
            kit = folder / name
            shutil.move(kits / name, kit)
            words = {"private": kit / "private", "name": name}
            told = {variable: text.format(**words) for variable, text in (environment or {}).items()}
            participant = self.everyone[name] = Participant(name, kit, users + number, told, view)
            participant.private.mkdir()
            for file, content in (files or {}).get(name, {}).items():
                text = content.read_text() if isinstance(content, Path) else content
                (participant.private / file).write_text(text)
            if name != ADMIN:
                self._settle(participant, allowed, resources)
            participant.own()
        self.server, self.admin = self.everyone[SERVER], self.everyone[ADMIN]
        self.sites = {name: self.everyone[name] for name in sites}

    def _settle(
        self, participant: Participant, allowed: Sequence[str], change: Callable[[str, dict], None] | None
    ) -> None:
        """Write what a participant decides for itself: which classes jobs may name, where its files are."""
        path = allow(participant.kit)
        resources = json.loads(path.read_text())
        resources["class_allow_list"] += allowed
        if participant.name != SERVER:
            client = participant.kit / "startup" / "fed_client.json"
            door = self._doors[participant.name]
            client.write_text(client.read_text().replace(f"{SERVER}:{self.port}", f"{SERVER}:{door}"))
        if change is not None:
            change(participant.name, resources)
        path.write_text(json.dumps(resources, indent=2))

    def start(self) -> None:
        """Start all, and wait until all sites are connected."""
        if set(self._doors.values()) != {self.port}:
            pairs = [f"{door}:{self.port}" for door in self._doors.values()]
            command = [sys.executable, str(Path(__file__).with_name("line.py")), *pairs]
            self._line = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._line.stdout.readline()
        for participant in (self.server, *self.sites.values()):
            participant.start()
        command = f"{sys.executable} -m tests.sites.admin {ADMIN} {self.admin.kit}"
        self._admin = self.admin.launch(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.connected(self.sites)

    def throttle(self, mbit: float, delay_ms: float) -> None:
        """From now on, each site's line carries `mbit` Mbit/s in each direction, and one way takes `delay_ms`."""
        self._line.stdin.write(f"{mbit} {delay_ms}\n")
        self._line.stdin.flush()
        self._line.stdout.readline()

    def ask(self, method: str, *arguments: object):
        """Let the admin's session do something (``nvflare.fuel.flare_api``)."""
        self._admin.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._admin.stdin.flush()
        line = self._admin.stdout.readline()
        told = json.loads(line) if line else {"error": f"the session ended: {self.admin.output.read_text()[-2000:]}"}
        if "error" in told:
            raise RuntimeError(told["error"])
        return told["result"]

    def connected(self, names: Sequence[str], seconds: float = 90.0) -> None:
        """Wait until these sites are connected."""
        wait_for(lambda: set(names) <= set(self.ask("clients")), seconds, f"sites {sorted(names)} connect")

    def submit(self, folder: Path) -> str:
        """Submit a job's folder; the job's number."""
        copy = self.admin.kit / "transfer" / f"{time.time_ns()}"
        shutil.copytree(folder, copy)
        self.admin.own()
        return self.ask("submit_job", str(copy))

    def status(self, job: str) -> str:
        """What FLARE says of a job: RUNNING, FINISHED:COMPLETED, ..."""
        return self.ask("get_job_meta", job)["status"]

    def wait(self, job: str, seconds: float = 120.0) -> str:
        """Wait until a job has ended; its status."""
        end = time.monotonic() + seconds
        while not (status := self.status(job)).startswith("FINISHED"):
            if time.monotonic() > end:
                raise TimeoutError(f"job {job} is {status} after {seconds} s\n{self.server.log()[-5000:]}")
            time.sleep(0.25)
        return status

    def result(self, job: str) -> Path:
        """The folder of what the server's part of a job that has ended has written."""
        return Path(self.ask("download_job_result", job)) / "workspace"

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for participant in self.everyone.values():
            participant.kill()
        for process in filter(None, (self._admin, self._line)):
            process.kill()
            process.wait()
            for stream in filter(None, (process.stdin, process.stdout)):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def deployment(sites: Sequence[str], start: bool = True, **options) -> Iterator[Deployment]:
    """A deployment as `Deployment` says, started, and removed in the end; skips a test where there can be none."""
    reason = lacking()
    if reason:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="graphcollab-sites-"))
    folder.chmod(0o711)
    try:
        deployed = Deployment(folder, sites, **options)
        try:
            if start:
                deployed.start()
            yield deployed
        except BaseException:
            for participant in deployed.everyone.values():  # pytest shows it below the error
                print(f"==== {participant.name} ====\n{participant.output.read_text()[-4000:]}")
            raise
        finally:
            deployed.close()
    finally:
        shutil.rmtree(folder)
