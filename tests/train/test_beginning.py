"""The models that nodes begin with."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

from graphcollab import methods, run
from graphcollab.methods import fedavg
from graphcollab.testing import Scene
from graphcollab.train import Callback
from tests.methods.quick import early


class Mixed(Callback):
    """Whether the exchange of any round changes models, which began as their nodes' own initial ones."""

    found = own = False

    def on_start(self, data, history, rounds):
        self.own = torch.equal(rows(data.x), rows(data.x_init))

    def before_mixing(self, data, env):
        self.before = rows(data.x)

    def after_mixing(self, data, env):
        received = "received" in data  # and is mixed in the next round
        self.found |= received or not torch.allclose(rows(data.x), self.before)


def rows(stacks):
    return torch.cat([stacks.select(torch.tensor([k])).tensors[0] for k in range(stacks.num_nodes)])


@pytest.mark.slow
@pytest.mark.parametrize("name", methods.__all__)
def test_copies_of_an_architecture_that_do_not_start_alike_are_named(name):
    method, seen = early(name, epochs=1, fraction=1.0), Mixed()
    scene = Scene.small(torch.float32, embeds=method.embeds)
    copies = [copy.deepcopy(scene.modules[0]) for _ in range(6)]
    for k, module in enumerate(copies):
        for parameter in module.parameters():
            parameter.data *= 1 + k
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(method, scene.tasks, copies, architecture=range(6), rounds=3, callbacks=[seen])
    told = [text for text in (str(one.message) for one in caught) if "are copies of one" in text]
    assert len(told) == (seen.found and seen.own)
    for text in told:
        assert text.startswith(f"{method.name} mixes models, and architectures 0, 1, 2, 3, 4, 5 (")


def test_other_architectures_and_equal_starts_are_not_mentioned():
    scene = Scene.small(torch.float32)
    copies = [copy.deepcopy(scene.modules[0]) for _ in range(6)]
    run(fedavg(epochs=1), scene.tasks, copies, architecture=range(6), rounds=1)
    two = Scene.small(torch.float32, shared_head=True)
    run(fedavg(epochs=1, part="head"), two.tasks, two.modules, architecture=two.architecture, rounds=1)
