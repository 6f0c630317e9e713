from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab.engine import SGD, Adam, LocalSteps, Rows


class Count(TorchDispatchMode):
    """Count dispatched operators."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.total += 1
        return func(*args, **(kwargs or {}))


def operators(make_engine, nodes, sizes, **settings):
    engine, models = make_engine(
        sizes=(sizes * nodes)[:nodes], backend="vmap", chunk=64, dtype=torch.float32, **settings
    )
    counts = []
    for work in (
        lambda: engine.fit(Rows.own(models), LocalSteps(2, None, 5, Adam()), seed=0, round_=0),
        lambda: engine.loss(Rows.own(models), "val"),
        lambda: engine.grad(Rows.own(models), "val"),
    ):
        with Count() as count:
            work()
        counts.append(count.total)
    return counts


@pytest.mark.parametrize("sizes", [(10,), (10, 7)], ids=["equal", "unequal"])
def test_as_many_operators_for_8_nodes_as_for_32(make_engine, sizes):
    few, many = (operators(make_engine, nodes, sizes) for nodes in (8, 32))
    assert few == many


def test_as_many_operators_with_a_users_loss(make_engine):
    """In training; on whole splits it is called node by node, for it cannot weigh samples."""
    few, many = (operators(make_engine, nodes, (10, 7), loss=F.cross_entropy) for nodes in (8, 32))
    assert few[0] == many[0]


def test_batch_norm_groups_by_batch_length(make_engine):
    """Padding would enter the statistics of the batch, so the nodes of a group have batches of one length."""
    few, many = (
        operators(
            make_engine, nodes, (10, 7), module=nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        )
        for nodes in (8, 32)
    )
    assert few == many


def test_rows_that_are_done_leave_the_stack(make_engine):
    """A node with few samples takes few steps: later steps compute with the others only."""
    engine, models = make_engine(sizes=(12, 3, 3), backend="vmap")
    seen = []
    original = engine.backends[0].loss

    def watch(judge, params, *rest):
        seen.append(len(params[0]))
        return original(judge, params, *rest)

    engine.backends[0].loss = watch
    engine.fit(Rows.own(models), LocalSteps(batch_size=3, optimizer=SGD(momentum=0.5)), seed=0, round_=0)
    assert seen == [3, 1, 1, 1]
