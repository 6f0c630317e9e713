"""Measure, choose, weigh, charge: pieces that are put together in ways that no method has yet."""

from __future__ import annotations

import pytest

from graphcollab import Method
from graphcollab.components import (
    BestPeers,
    CosineWeights,
    DistanceKernel,
    DoubleGreedy,
    Exchange,
    Fit,
    InverseLoss,
    PeerWeights,
    SimilarityWeights,
    SimplexWeights,
)
from graphcollab.testing import Scene, check_contract
from graphcollab.testing.claims import dense
from graphcollab.transforms import WithSelfLoops
from tests.raising import raises

PUT_TOGETHER = {
    "the best two by a kernel": PeerWeights(DistanceKernel(scale=0.3), BestPeers(2), SimilarityWeights("rest")),
    "losses on a simplex": PeerWeights(InverseLoss("val", "mean"), merge=SimplexWeights(5.0)),
    "cosines with a constant own weight": PeerWeights(CosineWeights(), merge=SimilarityWeights(0.3, 10.0)),
    "a search, weighed by cosines": PeerWeights(CosineWeights(), DoubleGreedy(3, every=1), SimilarityWeights()),
}


@pytest.mark.parametrize("weigh", PUT_TOGETHER.values(), ids=PUT_TOGETHER)
def test_contract(weigh):
    local = Fit(epochs=1, batch_size=4)
    skipped = check_contract(
        Method("put together", local=local, weigh=weigh, exchange=Exchange(), prepare=WithSelfLoops())
    )
    assert skipped == {}


def test_two_are_chosen_and_everybody_who_was_looked_at_is_charged():
    method = Method(
        "m",
        local=Fit(epochs=1),
        weigh=PUT_TOGETHER["the best two by a kernel"],
        exchange=Exchange(),
        prepare=WithSelfLoops(),
    )
    data, _ = Scene.small().play(method, rounds=1)
    assert (dense(data) > 0).sum(1).tolist() == [3] * 6
    assert data.bytes_sent.tolist() == [4.0 * 5 * data.x.specs[0].num_parameters] * 6
    assert int(data.messages_sent.sum()) == 12


@pytest.mark.parametrize(
    "pieces", [{"choose": BestPeers(2)}, {"merge": SimplexWeights()}, {"merge": SimilarityWeights("alike", 30.0)}]
)
def test_without_a_metric_there_is_nothing_to_choose_or_weigh_by(pieces):
    with raises("missing", "metric"):
        PeerWeights(**pieces)
