"""A job in FLARE's simulator: every site is a process of the same user, without certificates."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace

from graphcollab.sites.deploying import CLASSES
from tests.forked import interpret


def simulate(
    job: Path, sites: Sequence[str], workspace: Path, env: dict[str, str], allowed: Sequence[str] = ()
) -> subprocess.CompletedProcess:
    """Play a job to its end (10 s without training).

    Args:
        job: the job's folder.
        sites: names of the sites.
        workspace: is made; what the job's parts write is in ``server/simulate_job`` and ``<site>/simulate_job``.
        env: variables of the sites' processes beside this one's.
        allowed: as for `Deployment`.
    """
    local = workspace / "local"
    local.mkdir(parents=True)
    resources = {"format_version": 2, "class_allow_list": [*CLASSES, *allowed]}
    (local / "resources.json").write_text(json.dumps(resources))
    return interpret(Path(__file__), job, workspace, ",".join(sites), env=env)


class Nursery:
    """Forks processes that run a module from one that has loaded it, and has no threads yet."""

    def __init__(self) -> None:
        self._asks, asked = multiprocessing.Pipe()
        self._turn = threading.Lock()  # the simulator starts its sites from a thread for each
        if os.fork() == 0:
            self._asks.close()
            self._serve(asked)
        asked.close()

    def start(self, command: Sequence[str], env: Mapping[str, str], **_: object) -> Started:
        """Start ``python -m module arguments``, in place of `subprocess.Popen`."""
        with self._turn:
            self._asks.send((command[2:], dict(env)))
            return Started(self._asks.recv())

    def _serve(self, asked: Connection) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is gone
        with contextlib.suppress(EOFError):
            while True:
                (module, *arguments), env = asked.recv()
                if (number := os.fork()) == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    asked.close()
                    os.setsid()
                    os.environ.clear()
                    os.environ.update(env)
                    sys.argv = [module, *arguments]
                    runpy.run_module(module, run_name="__main__", alter_sys=True)
                    sys.exit()
                asked.send(number)
        os._exit(0)


class Started:
    """What the simulator asks of a `subprocess.Popen`."""

    def __init__(self, number: int) -> None:
        self.number, self.returncode = number, None

    def poll(self) -> int | None:
        """Return None while it lives."""
        try:
            os.kill(self.number, 0)
        except ProcessLookupError:
            self.returncode = 0
        return self.returncode

    def wait(self, timeout: float) -> None:
        """Wait until it has ended."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.number), timeout)
            time.sleep(0.05)

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.number, number)

    def kill(self) -> None:
        """End it."""
        self.terminate(signal.SIGKILL)


if __name__ == "__main__":
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.simulator import simulator_runner, simulator_worker  # noqa: F401, one for the nursery

    class Runner(simulator_runner.SimulatorRunner):
        """The simulator without its 3 s for what others may still be doing in the end."""

        def run_process(self, return_dict):
            status = MainProcessMonitor.run(
                main_func=self.simulator_run_main, run_dir=self.workspace, shutdown_grace_time=0.1, cleanup_grace_time=6
            )
            return_dict["run_status"] = status

    multiprocessing.set_start_method("fork", force=True)  # as in a process that was not forked from a server
    simulator_runner.subprocess = SimpleNamespace(Popen=Nursery().start, TimeoutExpired=subprocess.TimeoutExpired)
    job, workspace, names = sys.argv[1:]
    count = len(names.split(","))
    sys.exit(Runner(job_folder=job, workspace=workspace, clients=names, n_clients=count, threads=count).run())
