from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.metrics import roc_auc_score

from graphcollab.analysis.metrics.classification import auc
from tests.raising import raises


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([-1.5, 0.0, 0.1, 2.0, float("inf"), float("-inf")]), st.integers(0, 1)),
            min_size=1,
            max_size=12,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_against_scikit_learn(rows: list[list[tuple[float, int]]]) -> None:
    width = max(map(len, rows))
    scores, targets = torch.full((len(rows), width), 5.0), torch.ones(len(rows), width)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for r, row in enumerate(rows):
        scores[r, : len(row)], targets[r, : len(row)] = torch.tensor(row).t()
        mask[r, : len(row)] = True
    for r, value in enumerate(auc(scores, targets, mask).tolist()):
        labels = targets[r, mask[r]]
        if bool(labels.any()) and not bool(labels.all()):
            finite = scores[r, mask[r]].nan_to_num(posinf=1e9, neginf=-1e9)  # scikit-learn takes no infinity
            assert value == pytest.approx(roc_auc_score(labels, finite))
        else:
            assert value != value


def test_two_logits_are_compared_by_their_difference() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 20, 2, generator=generator)
    targets = torch.randint(0, 2, (3, 20), generator=generator)
    expected = [roc_auc_score(t, s) for t, s in zip(targets, logits.double().softmax(-1)[..., 1], strict=True)]
    assert auc(logits, targets).tolist() == pytest.approx(expected)


def test_one_column_and_boolean_targets() -> None:
    scores = torch.tensor([[[0.1], [0.9], [0.5]]])
    assert auc(scores, torch.tensor([[[False], [True], [True]]])).tolist() == [1.0]


def test_outputs_laid_out_in_another_order() -> None:
    scores = torch.tensor([[0.1, 0.9], [0.9, 0.1]], dtype=torch.float64)
    assert auc(scores.t(), torch.tensor([[0, 1], [0, 1]])).tolist() == [1.0, 0.0]


def test_one_class_only_and_scores_that_are_nan() -> None:
    scores = torch.tensor([[0.1, 0.9], [float("nan"), 0.9], [0.1, 0.9]])
    values = auc(scores, torch.tensor([[1, 1], [0, 1], [0, 1]]))
    assert values.isnan().tolist() == [True, True, False]


def test_bad_inputs() -> None:
    with raises("range", "targets"):
        auc(torch.zeros(2, 3), torch.tensor([[0, 1, 1], [0, 2, 1]]))
    with raises("shape", "outputs"):
        auc(torch.zeros(1, 3, 4), torch.zeros(1, 3))
    with raises("shape", "targets"):
        auc(torch.zeros(1, 3), torch.zeros(1, 3, 2))
