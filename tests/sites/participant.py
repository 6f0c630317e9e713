"""A user of this machine that plays one part in a deployment, with a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.sites import page
from tests.sites.page import ROOT


def needed_folders() -> list[Path]:
    """Where the interpreter, its packages and this project lie."""
    found = {Path(sys.prefix), Path(sys.base_prefix).resolve(), Path(sys.executable).resolve().parents[1], ROOT}
    return sorted(path for path in found if not any(other in path.parents for other in found))


def hidden_folders() -> list[Path]:
    """Folders on the way to those that other users cannot enter."""
    above = {parent for path in needed_folders() for parent in path.parents}
    closed = {path for path in above if not path.stat().st_mode & 0o001}
    return sorted(path for path in closed if not closed & set(path.parents))


def private_view(hold: Path) -> str:
    """Shell commands for a process that sees, of folders it could not enter, only what it needs."""
    lines = ["set -e", "mount --make-rprivate /"] if hidden_folders() else ["set -e"]
    for number, closed in enumerate(hidden_folders()):
        inside = [path for path in needed_folders() if closed in path.parents]
        for place, path in enumerate(inside):
            lines += [f"mkdir -p {hold}/{number}/{place}", f"mount --bind {path} {hold}/{number}/{place}"]
        lines += [f"mount -t tmpfs -o mode=755,size=64k none {closed}"]
        for place, path in enumerate(inside):
            lines += [f"mkdir -p {path}", f"mount --move {hold}/{number}/{place} {path}"]
    return "\n".join(lines)


class Participant:
    """A server, a site or the admin: a user with a folder that no one else can read.

    Args:
        name: its name in the project.
        kit: its startup kit, and where its files are.
        user: the number of its user.
        environment: what its processes are told besides the usual.
        view: shell commands before it becomes that user.
    """

    def __init__(self, name: str, kit: Path, user: int, environment: Mapping[str, str], view: str):
        self.name, self.kit, self.user, self.view = name, kit, user, view
        self.private = kit / "private"
        self.output = kit.with_name(f"{name}.out")  # all that it prints
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(kit),
            "TMPDIR": str(kit),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self._started: list[subprocess.Popen] = []

    def own(self) -> None:
        """Make all of its files its own."""
        for folder, _, files in os.walk(self.kit):
            for path in (folder, *(os.path.join(folder, file) for file in files)):
                os.chown(path, self.user, self.user)
        self.kit.chmod(0o700)

    def launch(self, command: str, **options) -> subprocess.Popen:
        """Start a command as this user in its folder."""
        become = f"exec setpriv --reuid {self.user} --regid {self.user} --clear-groups --no-new-privs {command}"
        script = "\n".join([self.view, f"cd {self.kit}", "umask 077", become])
        with self.output.open("ab") as output:
            outputs = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **options}
            process = subprocess.Popen(
                ["unshare", "-m", "bash", "-c", script], env=self.environment, start_new_session=True, **outputs
            )
        self._started.append(process)
        return process

    def start(self) -> None:
        """Start it as the page's unit does: without FLARE's watchdog, which would start it again when it is killed."""
        self.launch(page.unit()["ExecStart"])

    def processes(self) -> dict[int, str]:
        """The command lines of its processes, by number."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == self.user:
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def working(self) -> list[int]:
        """Its processes that play a job."""
        marks = (".worker_process ", ".runner_process ")
        return [number for number, command in self.processes().items() if any(mark in command for mark in marks)]

    def send(self, number: int, only_job: bool = False) -> None:
        """Send a signal to all of its processes, or to those of a job only."""
        for process in self.working() if only_job else self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self, only_job: bool = False) -> None:
        """Kill it, as when the machine fails; `only_job`: only the process that plays the job."""
        if only_job:
            self.send(signal.SIGKILL, only_job)
            return
        while self.processes():
            self.send(signal.SIGKILL)
            time.sleep(0.02)
        for process in self._started:  # else the dead count as alive for those that look after them
            process.wait()

    def freeze(self) -> None:
        """Let it do nothing until `thaw`, as when its line is dead."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def log(self) -> str:
        """All that it and its jobs have logged, by file; the end of a job's log comes last."""
        return "\n".join(path.read_text() for path in sorted(self.kit.rglob("log.txt"), key=os.path.getmtime))
