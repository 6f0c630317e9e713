from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab.metrics import class_overlap
from graphcollab.tasks.class_counts import class_windows
from tests.raising import raises


def classes_of(*groups: object, count: int = 10) -> torch.Tensor:
    return torch.tensor([[c in group for c in range(count)] for group in groups])  # type: ignore[operator]


def test_overlapping_clusters_of_the_paper() -> None:
    """4 of 7 classes are in common; in the figure of the appendix 2 of 6."""
    assert class_overlap(classes_of(*class_windows(10, 2, 4))).tolist() == [[1, 4 / 7], [4 / 7, 1]]
    assert class_overlap(classes_of(*class_windows(10, 2, 2))).tolist() == [[1, 2 / 6], [2 / 6, 1]]
    assert class_overlap(classes_of(*class_windows(10, 2))).tolist() == [[1, 0], [0, 1]]


def test_it_is_the_receivers_share() -> None:
    found = class_overlap(classes_of({0, 1, 2, 3}, {3}, {4, 5}, set()))
    assert found[:3].tolist() == [[1, 0.25, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]
    assert found[3].isnan().all()


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=6))
def test_shares_of_sets(groups: list[set[int]]) -> None:
    expected = [[len(own & other) / len(own) for other in groups] for own in groups]
    assert class_overlap(classes_of(*groups)).tolist() == expected


@pytest.mark.parametrize("classes", [torch.ones(3, 2), torch.ones(3).bool()])
def test_refusals(classes: torch.Tensor) -> None:
    with raises("shape", "classes"):
        class_overlap(classes)
