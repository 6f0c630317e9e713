"""Checkpoints of several processes, and what happens when one of them fails or is killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphcollab import methods
from tests.forked import FORKS, launch, play_by_torchrun
from tests.processes.saved import found_in, play
from tests.processes.test_equal import close, torchrun
from tests.raising import raises
from tests.train.forged import manifest_of

SAVED = Path(__file__).with_name("saved.py")


def found_by(count: int, folder: Path, out: Path, names: Sequence[str], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Return what every process has found, by method; the processes start once for all of them."""
    done = launch(count, SAVED, folder, out, rounds, 0, *names)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: [torch.load(out / f"{name}-{p}.pt", weights_only=True) for p in range(count)] for name in names}


def same(found: object, expected: object, exactly: bool, what: str) -> None:
    for name, model in expected["models"].items():
        if exactly:
            assert torch.equal(found["models"][name], model), f"{what}: {name}"
        else:
            close(found["models"][name], model, f"{what}: {name}")
    for name, values in expected["values"].items():
        close(found["values"][name], values, f"{what}: {name}")


@pytest.mark.filterwarnings("ignore:.*learned weights are")  # after so few rounds
@pytest.mark.parametrize(
    ("names", "counts"),
    [
        pytest.param(("meta_l2c", "mapl"), (2, 1), id="few"),
        pytest.param(tuple(methods.__all__), (2, 1, 4), id="all", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
@pytest.mark.slow
def test_a_run_goes_on_with_any_number_of_processes(names, counts, tmp_path):
    begun = tmp_path / "begun"
    found_by(2, begun, tmp_path / "a", names, 2)
    expected = found_by(2, tmp_path / "whole", tmp_path / "b", names, 4)
    for count in counts:
        folder = shutil.copytree(begun, tmp_path / f"with-{count}")
        if count == 1:
            found = {name: [found_in(play(f"{folder}/{name}", name, 4))] for name in names}
        else:
            found = found_by(count, folder, tmp_path / f"out-{count}", names, 4)
        for name in names:
            for process in found[name]:
                for before in expected[name]:
                    common = process["models"].keys() & before["models"].keys()
                    kept = {**before, "models": {node: before["models"][node] for node in common}}
                    same(process, kept, exactly=count == 2, what=f"{name} with {count}")


@pytest.mark.slow
def test_each_process_writes_the_rows_of_its_own_nodes(tmp_path):
    found_by(2, tmp_path / "run", tmp_path / "out", ["dpsgd"], 1)
    (path,) = (tmp_path / "run" / "dpsgd").glob("round-*")
    names = ["state.safetensors", *(one["file"] for one in manifest_of(path)["content"]["rows"])]
    assert names == ["state.safetensors", "rows-00000.safetensors", "rows-00001.safetensors"]
    nodes = [load_file(path / name)["rows.nodes"].tolist() for name in names[1:]]
    assert nodes == [[0, 3, 4], [1, 2, 5]]
    assert not [key for key in load_file(path / names[0]) if re.search(r"data\.x\b|x_init", key)]


@pytest.mark.filterwarnings("ignore:.*trying the checkpoint before it")
@pytest.mark.slow
def test_damage_to_one_part_is_noticed(tmp_path):
    found_by(2, tmp_path / "run", tmp_path / "out", ["dpsgd"], 1)
    (path,) = (tmp_path / "run" / "dpsgd").glob("round-*")
    part = path / "rows-00001.safetensors"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with raises("damaged", "checkpoint", "rows-00001.safetensors"):
        play(str(tmp_path / "run" / "dpsgd"), "dpsgd", 2)


FAILING = """
import sys, torch
from graphcollab import methods, run
from graphcollab.testing import Scene
from graphcollab.engine import NonFiniteLossError
from graphcollab.train import Compute
from dataclasses import replace
scene = Scene.small()
pools = {name: replace(pool, inputs=pool.inputs.clone()) for name, pool in scene.tasks.pools.items()}
for split in scene.tasks.splits.values():
    pools[split.pool].inputs[split.of(5)] *= 1e160
tasks = replace(scene.tasks, pools=pools)
try:
    run(methods.dpsgd(lr=10.0), tasks, scene.modules, rounds=5, compute=Compute(placement=[0, 1, 1, 0, 0, 1]))
except NonFiniteLossError as error:
    print(f"told: {error}")
"""


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_told_to_all(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    done = launch(2, script, timeout=60)
    told = [line for line in done.stdout.replace("told: ", "\ntold: ").splitlines() if line.startswith("told: ")]
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(told) == 2
    assert told[0] == told[1]
    assert "'node 5'" in told[0] or "node 5" in told[0]


def started(
    folder: Path, *names: str, rounds: int = 100, seconds: float = 0.1, restarts: int = 0
) -> multiprocessing.Process:
    """Start two processes as torchrun does, whose checkpoints, results and words come into a folder."""
    arguments = [str(one) for one in (folder / "run", folder / "out", rounds, seconds, *names)]
    launcher = FORKS.Process(target=play_by_torchrun, args=(2, str(SAVED), arguments, f"{folder}/log", restarts))
    launcher.start()
    return launcher


def ended(launcher: multiprocessing.Process, seconds: float = 60.0) -> int | None:
    """Wait until what was started has ended; its exit code, or None if it goes on."""
    launcher.join(seconds)
    if launcher.is_alive():
        launcher.kill()
        return None
    return launcher.exitcode


def lives(number: int) -> bool:
    """Tell whether a process is still at work; one that has ended may wait to be taken note of."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def workers(out: Path) -> list[int]:
    """Return the processes at work that a launcher has started last, by their rank."""
    attempt = len([*out.glob("attempt-*-0")]) - 1
    found = [int(path.read_text() or 0) for path in sorted(out.glob(f"attempt-{attempt}-*"))]
    return [number for number in found if number and lives(number)]


def wait_for_round(folder: Path, round_: int) -> None:
    end = time.monotonic() + 120
    while not [*folder.glob(f"round-{round_:06d}*")]:
        assert time.monotonic() < end, "the run does not get on"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_process_ends_all_and_is_named(tmp_path):
    method = "dpsgd"
    launcher = started(tmp_path, method)
    wait_for_round(tmp_path / "run" / method, 1)
    os.kill(workers(tmp_path / "out")[1], signal.SIGKILL)
    assert ended(launcher, 30) == 1
    log = (tmp_path / "log.2").read_text()
    assert re.search(r"exitcode: -9\) local_rank: 1 \(pid: \d+\)", log), log[-3000:]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("meta_l2c",), id="one"),
        pytest.param(tuple(methods.__all__), id="all", marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
@pytest.mark.slow
def test_a_killed_run_goes_on_by_itself(names, tmp_path):
    """In the run of every method one process is killed, any of them at any moment after the first checkpoint."""
    draw = random.Random(len(names))
    whole = found_by(2, tmp_path / "whole", tmp_path / "expected", names, 6)
    folder, out, kills = tmp_path / "run", tmp_path / "out", 0
    launcher = started(tmp_path, *names, rounds=6, restarts=len(names) + 1)
    for name in names:
        wait_for_round(folder / name, 1)
        time.sleep(draw.uniform(0.0, 0.7))
        if found := workers(out):
            os.kill(draw.choice(found), signal.SIGKILL)
            kills += 1
    assert ended(launcher, 240) == 0, (tmp_path / "log.2").read_text()[-3000:]
    assert len([*out.glob("attempt-*-0")]) == 1 + kills > 1
    for name in names:
        for p, process in enumerate(whole[name]):
            same(torch.load(out / f"{name}-{p}.pt", weights_only=True), process, exactly=True, what=name)


@pytest.mark.slow
def test_control_c_finishes_the_round_and_saves(tmp_path):
    method = "dpsgd"
    launcher = started(tmp_path, method)
    wait_for_round(tmp_path / "run" / method, 2)
    os.kill(launcher.pid, signal.SIGINT)
    assert ended(launcher) is not None
    found = [torch.load(tmp_path / "out" / f"{method}-{p}.pt", weights_only=True) for p in range(2)]
    rounds = found[0]["rounds"]
    assert found[1]["rounds"] == rounds
    assert 2 <= rounds[-1] < 100
    assert [*(tmp_path / "run" / method).glob(f"round-{rounds[-1]:06d}*")]


TROUBLE = """
import os, sys, torch
from graphcollab import compare, methods
from graphcollab.comm import raise_on_all
from graphcollab.testing import Scene
rank = int(os.environ["RANK"])

def tasks(seed):
    if rank == 1 and seed == 1:
        raise ValueError("the file of node 5 is damaged")
    return Scene.small().tasks.hold_out(0.3, seed, into="test")

try:
    with raise_on_all():
        assert rank == 0, "only one of us fails"
except AssertionError as error:
    sys.stdout.write(f"told: {error}\\n")
model = lambda: torch.nn.Linear(4, 3, dtype=torch.float64)
found = compare({"local": methods.local}, tasks, model, seeds=[0, 1], rounds=2)
sys.stdout.write(f"told: {[trial.failure for trial in found.trials]}\\n")
"""


@pytest.mark.parametrize(
    "start", [pytest.param(torchrun, id="torchrun", marks=pytest.mark.slow), pytest.param(launch, id="variables")]
)
@pytest.mark.slow
def test_what_fails_in_one_process_outside_of_a_run_is_told_to_all(start, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TROUBLE)
    done = start(2, script, timeout=90)
    assert done.returncode == 0, done.stderr[-3000:]
    told = [line for line in done.stdout.replace("told: ", "\ntold: ").splitlines() if line.startswith("told: ")]
    both = ["told: only one of us fails", "told: ['', 'ValueError: the file of node 5 is damaged']"]
    assert sorted(told) == sorted(2 * both)


def by_variables(count: int, arguments: Sequence[str], port: int) -> list[subprocess.Popen[str]]:
    """Start processes as any other launcher than torchrun does."""
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **common, "PYTHONPATH": paths, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


@pytest.mark.slow
def test_a_port_in_use_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(TROUBLE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        first, second = by_variables(2, [str(script)], port)
        _, log = first.communicate(timeout=60)
        second.kill()
        second.communicate()
    assert re.search(rf"cannot meet at 127\.0\.0\.1:{port} .*another --master-port if this one is in use", log), log
