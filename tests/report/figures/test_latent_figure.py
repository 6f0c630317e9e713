from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from torch import nn

from graphcollab.methods import local
from graphcollab.report import latent_figure
from graphcollab.report.figures._style import COLORS
from graphcollab.tasks import Tasks
from graphcollab.train import run
from graphcollab.typing import Embedded
from tests.raising import raises


class Passing(nn.Module):
    """Latents are the inputs, less their mean for projections."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, inputs, embed=False):
        logits = self.head(inputs)
        return Embedded(logits, inputs, inputs - inputs.mean()) if embed else logits


def made(nodes=4, each=10, inputs=None, targets=None, cluster=(0, 0, 1, 1), model=Passing, **kwargs):
    """Samples lie near a corner of their class's own."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(each) % 3 if targets is None else targets
    samples = []
    for _ in range(nodes):
        x = 10 * nn.functional.one_hot(torch.arange(each) % 3, 3) + torch.randn(each, 3, generator=draw)
        samples.append((x.float() if inputs is None else inputs, y))
    cluster = None if cluster is None else torch.tensor(cluster)
    tasks = Tasks.from_samples(samples, val=samples, test=samples, cluster=cluster, **kwargs)
    return run(local(lr=1e-6), tasks, model(), rounds=1)


def points(panel):
    shown = panel.collections[0]
    shown.update_scalarmappable()
    return np.asarray(shown.get_offsets()), shown.get_facecolors()


def legend(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def test_samples_of_a_class_lie_together():
    figure = latent_figure(made(), title="local")
    by_node, by_class = figure.axes
    assert (by_node.get_title(), by_class.get_title(), figure.get_suptitle()) == ("by node", "by class", "local")
    assert legend(by_node) == ["node 0", "node 1", "node 2", "node 3"]
    assert legend(by_class) == ["0", "1", "2"]
    place, colors = points(by_class)
    assert place.shape == (40, 2)
    np.testing.assert_array_equal(points(by_node)[0], place)
    groups = [(colors == to_rgba(COLORS[c])).all(1) for c in range(3)]
    assert [int(group.sum()) for group in groups] == [16, 12, 12]  # classes 0, 1, 2, 0, … of ten samples
    for group in groups:
        spread = np.linalg.norm(place[group] - place[group].mean(0), axis=1).max()
        away = np.linalg.norm(place[~group] - place[group].mean(0), axis=1).min()
        assert spread < away
    nodes = points(by_node)[1]
    assert [int((nodes == to_rgba(COLORS[k])).all(1).sum()) for k in range(4)] == [10] * 4


def test_a_few_samples_of_each_node():
    assert len(points(latent_figure(made(), per_node=6).axes[0])[0]) == 24


def test_it_is_the_same_every_time():
    result = made()
    one, two = (points(latent_figure(result, per_node=5).axes[0])[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_another_split():
    assert np.isfinite(points(latent_figure(made(), split="train").axes[0])[0]).all()


def test_many_nodes_have_no_legend():
    result = made(nodes=25, each=2, cluster=None)
    panel = latent_figure(result).axes[0]
    assert panel.get_legend() is None
    assert panel.get_xlabel() == "25 nodes"
    assert len({tuple(colour) for colour in points(panel)[1].tolist()}) == 25
    assert len(legend(latent_figure(made(nodes=12, each=3, cluster=None)).axes[0])) == 12


def test_four_samples_are_enough():
    assert len(points(latent_figure(made(nodes=2, each=2, cluster=None)).axes[0])[0]) == 4


def test_pyplot_is_left_alone():
    before = "matplotlib.pyplot" in sys.modules
    latent_figure(made())
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ({"nodes": 1, "each": 3, "cluster": None}, ("too-few", "split", "4")),
        ({"inputs": torch.ones(10, 3)}, ("value", "result")),
        ({"model": lambda: nn.Linear(3, 3)}, ("missing", "node 'node 0'")),
        ({"targets": torch.ones(10, 3), "loss": "mse", "metric": "mse"}, ("shape", "targets", "40")),
    ],
)
def test_refusals(scene, message):
    result = made(**scene)
    with raises(*message):
        latent_figure(result)


def test_a_latent_that_is_not_finite():
    class Broken(Passing):
        def forward(self, inputs, embed=False):
            found = super().forward(inputs, embed)
            return found._replace(latent=found.latent / 0) if embed else found

    with raises("not-finite", "node 'node 0'"):
        latent_figure(made(model=Broken))
