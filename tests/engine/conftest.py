"""Nodes with unequal numbers of samples, for any module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphcollab import Tasks
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import Engine, Stacks
from graphcollab.engine.stack import ParamSpec

SIZES = (7, 4, 10, 5)


@pytest.fixture
def make_engine():
    """Return a function that makes an engine and one random model per node."""

    def make(
        module=None,
        shape=(4,),
        sizes=SIZES,
        loss="cross_entropy",
        targets=None,
        inputs=None,
        dtype=torch.float64,
        **settings,
    ):
        draw = torch.Generator().manual_seed(0)
        total = sum(sizes)
        if inputs is None:
            inputs = torch.randn(total, *shape, generator=draw, dtype=torch.float64).to(dtype)
        if targets is None:
            targets = torch.randint(3, (total,), generator=draw)
        index = list(torch.arange(total).split(list(sizes)))
        splits = {"train": Split.from_lists("all", index), "val": Split.from_lists("all", index[::-1])}
        tasks = Tasks({"all": Pool(inputs, targets)}, splits, loss=loss, metric="mse" if loss == "mse" else "accuracy")
        module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)) if module is None else module
        module = module.to(dtype)
        spec = ParamSpec.from_module(module)
        rows = spec.flatten(module).repeat(len(sizes), 1)
        noise = torch.randn(len(sizes), spec.num_parameters, generator=draw, dtype=torch.float64)
        rows[:, : spec.num_parameters] = 0.3 * noise.to(dtype)
        return Engine(tasks, [module], [spec], **settings), Stacks.single(spec, rows)

    return make
