"""Comparisons and a benefit for pages, small and quick."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graphcollab import Tasks, benefit, compare, methods
from graphcollab.analysis import Benefit, Comparison
from graphcollab.train import RecordGraph

HOSTILE = "<script>alert('x')</script> & \"Bern\""
NAMES = (HOSTILE, "Genf", "Zug", "Chur", "Uri")


def two_class_tasks(names: Sequence[str], seed: int, samples: int = 12) -> Tasks:
    """Draw two classes that a line parts, another line at every other node."""
    generator = torch.Generator().manual_seed(seed)

    def node(k: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(samples, 2, generator=generator)
        return x, (x[:, k % 2] > 0).long()

    train, test = ([node(k) for k in range(len(names))] for _ in range(2))
    return Tasks.from_samples(train, test=test, names=list(names))


def compared(names: Sequence[str] = NAMES, rounds: int = 6, seeds: int = 2) -> Comparison:
    """Compare three methods, one of which learns who listens to whom."""
    made = {"local": methods.local, "fedavg": methods.fedavg, "l2c": methods.l2c}
    grids = {"*": {"lr": [0.2], "epochs": [1]}}
    keep = [RecordGraph()]
    return compare(
        made,
        lambda seed: two_class_tasks(names, seed),
        lambda: torch.nn.Linear(2, 2),
        range(seeds),
        grids=grids,
        rounds=rounds,
        budget="rounds",
        evaluate_every=2,
        callbacks=keep,
    )


def gained() -> Benefit:
    """Ask what four sites of two kinds gain by collaborating."""
    generator = torch.Generator().manual_seed(0)
    samples = []
    for k in range(4):
        x = torch.randn(20, 2, generator=generator)
        samples.append((x, x @ torch.tensor([[1.0], [k % 2]]) + 0.1 * torch.randn(20, 1, generator=generator)))
    tasks = Tasks.from_samples(samples, loss="mse", metric="mse", names=[HOSTILE, "Genf", "Zug", "Chur"])
    return benefit(tasks, torch.nn.Linear(2, 1), methods={}, repeats=3, rounds=3, lrs=[0.1])
