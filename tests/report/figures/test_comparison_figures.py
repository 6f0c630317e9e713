from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphcollab.methods import l2c, local
from graphcollab.report import comparison_figures, save_figure
from graphcollab.tasks import Tasks
from graphcollab.train import Comparison, RecordGraph, compare
from tests.raising import raises


@pytest.fixture(scope="module")
def compared() -> Comparison:
    draw = torch.Generator().manual_seed(0)
    samples = [(torch.randn(10, 2, generator=draw), torch.arange(10) % 2 + node % 2) for node in range(4)]
    tasks = Tasks.from_samples(samples, test=samples)
    return compare(
        {"local": local, "l2c": l2c},
        lambda seed: tasks,
        lambda: torch.nn.Linear(2, 3),
        seeds=[0, 1],
        rounds=3,
        callbacks=[RecordGraph([1, 3])],
    )


def test_a_real_comparison_end_to_end(compared: Comparison, tmp_path: Path) -> None:
    figures = comparison_figures(compared, ["l2c"], "four nodes")
    assert list(figures) == ["weights_l2c", "weight_by_overlap", "accuracy"]
    assert [axes.get_title() for axes in figures["weight_by_overlap"].axes] == ["l2c, round 1", "l2c, round 3"]
    for name, figure in figures.items():
        assert save_figure(figure, tmp_path / f"{name}.png").stat().st_size > 1000


def test_bad_input(compared: Comparison) -> None:
    with raises("unknown", "weights_of", "'fedavg'", "'l2c'", "'local'"):
        comparison_figures(compared, ["fedavg"])
    result = compared.results["l2c"]
    graphs, result.history.graphs = result.history.graphs, {}
    with raises("missing", "method 'l2c'"):
        comparison_figures(compared, ["l2c"])
    result.history.graphs = graphs
