"""Processes that have nothing of each other's nodes find what one process finds, under every method."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
from torch import nn

from graphcollab import Phases, methods
from graphcollab.testing import Scene
from graphcollab.testing.planes import check_planes
from tests.golden.cases import ELASTIC, PARTS, SIZES
from tests.methods.quick import quick

# Batch normalisation of batches of one or two samples amplifies rounding: one process that computes other chunks at a
# time differs from itself by as much, 1e-9 to 3e-6 after three rounds.
AMPLIFIED = 1e-4
UNEVEN = [torch.tensor([0]), torch.tensor([1, 2, 4]), torch.tensor([3]), torch.tensor([5])]


def scene_of(method, **fields):
    return Scene.small(sizes=SIZES, embeds=method.embeds).replace(**fields)


def plain(name):
    method = quick(name)
    return method, scene_of(method)


def defaults(name):
    method = methods.get_method(name)()
    return method, scene_of(method)


def parts(name):
    method = quick(name)
    return method, scene_of(method, edge_index=torch.cat([PARTS, PARTS.flip(0)], 1))


def elastic(name):
    method = quick(name)
    return method, scene_of(method, attend=ELASTIC)


def phases(name):
    method = Phases(quick("local"), 1, quick(name, warmup=2, explore_rounds=2, learn_rounds=2))
    return method, scene_of(method)


def architectures(name):
    method = quick(name, part="head")
    return method, Scene.small(sizes=SIZES, shared_head=True, embeds=method.embeds)


def isolate(name):
    """Node 0 diverges, if it trains."""
    method = quick(name)
    scene = scene_of(method, isolate=True)
    pool, first = scene.tasks.pools["train"], scene.tasks.splits["train"].of(0)
    inputs = pool.inputs.index_copy(0, first, 1e6 * pool.inputs[first])
    return method, scene.replace(tasks=replace(scene.tasks, pools={"train": replace(pool, inputs=inputs)}))


def buffers(name):
    method = quick(name, buffers="average")
    scene = Scene.small(sizes=SIZES, shared_head=method.embeds, embeds=method.embeds)
    if method.embeds:  # these models normalise batches
        return method, scene.replace(modules=[scene.modules[0]], architecture=None)
    backbone = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())
    return method, scene.replace(modules=[nn.Sequential(OrderedDict(backbone=backbone, head=nn.Linear(5, 3))).double()])


def check(method, scene, **how):
    normalises = any(isinstance(layer, nn.BatchNorm1d) for module in scene.modules for layer in module.modules())
    check_planes(method, scene, rounds=3, **{"tolerance": AMPLIFIED} if normalises else {}, **how)


KINDS = {f.__name__: f for f in (plain, defaults, parts, elastic, phases, architectures, isolate, buffers)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", methods.__all__)
def test_processes_find_what_one_process_finds(name, kind):
    check(*KINDS[kind](name))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", methods.__all__)
def test_four_processes_of_uneven_shares(name):
    """The first owns no node of the second architecture."""
    check(*architectures(name), owners=UNEVEN)
