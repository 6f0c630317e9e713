"""How well the loss of a site's model tells which samples it was trained on, as docs/threat_model.md says."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphcollab import Tasks, build_model, load_dataset, methods, run
from graphcollab.data.partition import class_clusters
from graphcollab.train import Result


def losses(tasks: Tasks, result: Result, node: int, split: str) -> Tensor:
    """Return the losses of a node's samples at its model."""
    held = tasks.splits[split]
    pool, rows = tasks.pools[held.pool], held.of(node)
    outputs = result.model(tasks.names[node])(pool.inputs[rows]).detach()
    return cross_entropy(outputs, pool.targets[rows], reduction="none")


def auc(members: Tensor, others: Tensor) -> Tensor:
    """Return how often the loss of a member is the smaller one."""
    return (members[:, None] < others).double().mean() + (members[:, None] == others).double().mean() / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rounds", "mean", "most"),
    [
        ("local", 4, 0.64, 0.74),
        ("local", 12, 0.71, 0.81),
        ("meta_l2c", 12, 0.54, 0.61),
        ("l2c", 12, 0.54, 0.6),
        ("dpsgd", 12, 0.52, 0.59),
    ],
)
def test_losses_tell_who_was_trained_on(name, rounds, mean, most):
    found = []
    for seed in (0, 1):
        data = load_dataset("digits", seed=0)
        tasks = class_clusters(data, nodes=10, clusters=2, per_class=6, val=1, test=10, seed=seed)
        model = partial(build_model, "mlp", tasks.input_shape, 10, hidden=32)  # made from the seed
        result = run(getattr(methods, name)(lr=0.1), tasks, model, rounds=rounds, seed=seed)
        found += [auc(*(losses(tasks, result, node, split) for split in ("train", "test"))) for node in range(10)]
    assert float(torch.stack(found).mean()) == pytest.approx(mean, abs=0.02)
    assert float(torch.stack(found).max()) == pytest.approx(most, abs=0.04)
