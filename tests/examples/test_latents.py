from __future__ import annotations

import numpy as np
import torch
from matplotlib.colors import to_rgba
from torch import nn

from examples._latents import latent_figure, node_latents
from graphcollab import Tasks, run
from graphcollab._base.typing import Embedded
from graphcollab.methods import local
from graphcollab.report.figures._style import COLORS


class Passing(nn.Module):
    """Latents are the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, inputs, embed=False):
        logits = self.head(inputs)
        return Embedded(logits, inputs, inputs) if embed else logits


def corner_tasks(sizes=(10, 10, 10, 10)):
    """Samples lie near a corner of their class's own."""
    draw, samples = torch.Generator().manual_seed(0), []
    for size in sizes:
        y = torch.arange(size) % 3
        samples.append(((10 * nn.functional.one_hot(y, 3) + torch.randn(size, 3, generator=draw)).float(), y))
    tasks = Tasks.from_samples(samples, val=samples, test=samples)
    return run(local(lr=1e-6), tasks, Passing(), rounds=1), samples


def points(panel):
    shown = panel.collections[0]
    shown.update_scalarmappable()
    return np.asarray(shown.get_offsets()), shown.get_facecolors()


def legend(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def test_every_nodes_model_on_some_of_its_own_samples():
    result, samples = corner_tasks((60, 3, 60))
    values, node, target = node_latents(result)
    assert node.bincount().tolist() == [50, 3, 50]
    assert torch.equal(values[50:53], samples[1][0])
    for k in (0, 2):
        every = samples[k][0][:, 0].tolist()
        place = [every.index(one) for one in values[node == k, 0].tolist()]
        assert place == sorted(set(place))  # no sample twice, in the order of the samples
        assert target[node == k].tolist() == [p % 3 for p in place]


def test_samples_of_a_class_lie_together():
    by_node, by_class = latent_figure(corner_tasks()[0]).axes
    assert (by_node.get_title(), by_class.get_title()) == ("by node", "by class")
    assert legend(by_node) == ["node 0", "node 1", "node 2", "node 3"]
    assert legend(by_class) == ["0", "1", "2"]
    place, colors = points(by_class)
    np.testing.assert_array_equal(points(by_node)[0], place)
    groups = [(colors == to_rgba(COLORS[c])).all(1) for c in range(3)]
    assert [int(group.sum()) for group in groups] == [16, 12, 12]  # classes 0, 1, 2, 0, … of ten samples
    for group in groups:
        spread = np.linalg.norm(place[group] - place[group].mean(0), axis=1).max()
        away = np.linalg.norm(place[~group] - place[group].mean(0), axis=1).min()
        assert spread < away
