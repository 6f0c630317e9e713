"""Several processes find what one finds: models, weights, bytes, messages, history and decisions."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.forked import launch
from tests.processes.scenes import QUICK, SCENES, found_by

ROOT = Path(__file__).parents[2]

TOLERANCE = 1e-6  # of sums in another order, after some rounds of Adam
SHARED = 1e-13  # of bytes: a message for several nodes counts in parts, whose sum ends in another last digit


def torchrun(count: int, *arguments: object, timeout: float) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={count}",
    ]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False, env=env
    )


def found_together(count: int, names: Sequence[str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what every process has found, by scene; the processes start once for all scenes."""
    done = launch(count, Path(__file__).with_name("play.py"), folder, *names)
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        name: [torch.load(folder / f"{number}-{p}.pt", weights_only=True) for p in range(count)]
        for number, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("count", "names"),
    [
        pytest.param(2, QUICK, id="2 processes"),
        pytest.param(2, tuple(SCENES), id="2 processes, all", marks=pytest.mark.slow),
        pytest.param(4, tuple(SCENES), id="4 processes, all", marks=pytest.mark.slow),
    ],
)
def test_processes_find_what_one_finds(count, names, tmp_path):
    together = found_together(count, names, tmp_path)
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = found_by(SCENES[name])
        compare(name, alone, together[name])


def compare(name: str, alone: dict[str, Any], together: Sequence[dict[str, Any]]) -> None:
    for found in together:
        assert "error" not in found, f"{name}: {found['error']}"
        for exact in ("rounds", "returned", "isolated", "findings"):
            assert found[exact] == alone[exact], f"{name}: {exact}"
        assert torch.equal(found["values"]["messages_sent"], alone["values"]["messages_sent"]), f"{name}: messages"
        close(found["values"]["bytes_sent"], alone["values"]["bytes_sent"], f"{name}: bytes", SHARED)
        assert torch.equal(found["edges"], alone["edges"]), f"{name}: edges"
        assert found["values"].keys() == alone["values"].keys(), name
        for what, values in alone["values"].items():
            close(found["values"][what], values, f"{name}: {what}")
        close(found["weight"], alone["weight"], f"{name}: weights")
        close(found["scores"], alone["scores"], f"{name}: scores")
        assert found["graphs"].keys() == alone["graphs"].keys(), name
        for round_, (edges, weight) in alone["graphs"].items():
            assert torch.equal(found["graphs"][round_][0], edges), f"{name}: graph of round {round_}"
            close(found["graphs"][round_][1], weight, f"{name}: weights of round {round_}")
        assert found["samples"] < alone["samples"], f"{name}: a process has all samples"
    models = {node: model for found in together for node, model in found["models"].items()}
    assert sum(len(found["models"]) for found in together) == len(models) == len(alone["models"]), name
    for node, model in alone["models"].items():
        close(models[node], model, f"{name}: model of {node}")


def close(found: torch.Tensor, expected: torch.Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    message = f"{what}: {found} is not {expected}"
    assert torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True), message
