"""What processes say where their settings differ: ``differing.py``, in several processes, prints a line for each."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch

import graphcollab.train.identity as identity
from graphcollab import methods, run
from graphcollab.testing import Scene
from graphcollab.train import Callback, Compute, WatchMetrics

RANK = int(os.environ.get("RANK", "0"))


class Meddles(Callback):
    """Changes what all should know alike, in one process."""

    def on_round(self, data: Any, history: Any) -> None:
        if RANK:
            data.node_id += 1


def over(number: int) -> torch.nn.Module:
    """Return a model whose trained layer is the same in every process, over a base that is not."""
    layers = [torch.nn.Linear(4, width, dtype=torch.float64) for width in (4, 3)]
    layers[0].requires_grad_(False).weight[0, 0] = number
    return torch.nn.Sequential(*layers)


CASES: dict[str, dict[str, Any]] = {
    "placement twice": {"compute": Compute(placement=[0, 0, 0, 0, 0, RANK])},
    "placement nobody": {"compute": Compute(placement=[0, 0, 0, 0, 1, 1 - RANK])},
    "placement idle": {"compute": Compute(placement=[0, 0, 0, 0, 0, 0])},
    "placement unknown": {"compute": Compute(placement=[0, 0, 1, 0, 2, 0])},
    "placement short": {"compute": Compute(placement=[0, 1])},
    "placement wide": {"compute": Compute(placement=torch.zeros(6, 2, dtype=torch.int64))},
    "seed": {"seed": RANK},
    "tasks": {"tasks": Scene.small().tasks.hold_out(0.2 + 0.2 * RANK, 0, into="test")},
    "clusters": {"tasks": replace(Scene.small().tasks, cluster=torch.tensor([0, 0, 0, 1, 1, RANK]))},
    "rounds": {"rounds": 1 + RANK},
    "evaluate_every": {"evaluate_every": 1 + RANK},
    "patience": {"patience": 1 + RANK},
    "chunk": {"compute": Compute(chunk=1 + RANK)},
    "backend": {"compute": Compute(backend=("vmap", "loop")[RANK])},
    "isolate": {"on_nonfinite": ("stop", "isolate")[RANK]},
    "checkpoint": {"checkpoint": tempfile.mkdtemp() if RANK else None},
    "callbacks": {"callbacks": [WatchMetrics(["brier"])] * RANK},
    "method": {"method": methods.dpsgd(lr=0.1 + RANK)},
    "graph": {"graph": torch.tensor([[0, 1, 2], [1, 2, 3 + RANK]])},
    "metric": {"tasks": replace(Scene.small().tasks, metric=("accuracy", "brier")[RANK])},
    "models": {"model": lambda: torch.nn.Linear(4, 3 + RANK, dtype=torch.float64)},
    "initial models": {"model": (torch.manual_seed(RANK), torch.nn.Linear(4, 3, dtype=torch.float64))[1]},
    "base": {"model": lambda: over(RANK)},
    "meddled": {"callbacks": [Meddles()], "rounds": 3},
    "version": {},
    "capability": {},
    "kernels": {},
}

if __name__ == "__main__":
    scene = Scene.small()
    for name in sys.argv[1:] or CASES:
        given = {"method": methods.dpsgd(), "tasks": scene.tasks, "model": scene.modules, "rounds": 1, **CASES[name]}
        if name == "version":
            identity.__version__ = f"9.{RANK}"
        if name == "capability":
            identity.__version__ = "9"
            torch.backends.cpu.get_cpu_capability = lambda: ("AVX2", "AVX512")[RANK]
        if name == "kernels":
            identity.__version__ = "9"
            torch.backends.cpu.get_cpu_capability = lambda: "AVX2"
            identity.PRODUCTS = ("dense", "compiled")[: 1 + RANK]
        try:
            run(**given)
        except Exception as error:
            sys.stdout.write(f"\n{name}: {type(error).__name__}: {error}\n")
        else:
            sys.stdout.write(f"\n{name}: nothing\n")
        sys.stdout.flush()
