"""Processes that run a script, forked from one that has loaded PyTorch and the package: loading them takes seconds."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "graphcollab", "graphcollab.report", "scipy.stats"])


def play(script: str, arguments: Sequence[str], env: Mapping[str, str], told: str) -> None:
    """Run a script as ``python -W ignore script …`` does, in a process of its own; what it prints goes into files."""
    print_into(told)
    os.environ.update(env)
    sys.argv = [script, *arguments]
    warnings.simplefilter("ignore")
    code: object = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.exit(code)


def print_into(told: str) -> None:
    """Let what this process and those that it starts print go into files, ``told.1`` and ``told.2``."""
    for stream in (1, 2):
        os.dup2(os.open(f"{told}.{stream}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)


def play_by_torchrun(count: int, script: str, arguments: Sequence[str], told: str, restarts: int) -> None:
    """Run a script in several processes as ``torchrun --standalone`` does, which are forked in place of begun."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    print_into(told)
    given = {"run_id": uuid.uuid4().hex, "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    config = LaunchConfig(1, 1, count, max_restarts=restarts, start_method="fork", **given)
    elastic_launch(config, play)(script, arguments, {}, told)


def launch(count: int, script: Path, *arguments: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes that are told by variables how to meet, and wait for all of them."""
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    told = [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return _play_all(told, script, arguments, timeout)


def interpret(
    script: Path, *arguments: object, env: Mapping[str, str] | None = None, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, with some more variables in its environment, and wait for it."""
    return _play_all([env or {}], script, arguments, timeout)


def _play_all(
    variables: Sequence[Mapping[str, str]], script: Path, arguments: Sequence[object], timeout: float
) -> subprocess.CompletedProcess[str]:
    given = [*map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number, env in enumerate(variables):
            started.append(FORKS.Process(target=play, args=(str(script), given, env, f"{folder}/{number}")))
            started[-1].start()
        end = time.monotonic() + timeout
        for process in started:
            process.join(max(end - time.monotonic(), 0))
        late = [process.kill() for process in started if process.is_alive()]
        for process in started:
            process.join()
        codes = [process.exitcode for process in started]
        files = [[Path(f"{folder}/{number}.{stream}") for number in range(len(started))] for stream in (1, 2)]
        said = ["".join(file.read_text() for file in of_stream) for of_stream in files]
    assert not late, f"{script} with {given} was not done after {timeout} s:\n{said[1][-3000:]}"
    return subprocess.CompletedProcess([str(script), *given], next(filter(None, codes), 0), *said)


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
