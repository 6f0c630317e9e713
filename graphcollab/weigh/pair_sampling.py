"""Which pairs of nodes compare their gradients in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from graphcollab.keyed import keyed_uniform
from graphcollab.piece import Piece
from graphcollab.settings import Natural, Positive

__all__ = ["PairSampling"]

_PAIR_STREAM = 118


@dataclass(frozen=True)
class PairSampling(Piece):
    r"""Draw pairs independently of each other, with a probability that may fall with time.

    The strategies of `CoBo: Collaborative Learning via Bilevel Optimization (Hashemi, He, Jaggi, NeurIPS 2024)
    <https://arxiv.org/abs/2409.05539>`_, section 4.1, for a pair of K nodes in round t (from 1):

    - ``"constant"``: :math:`\min(1, 2 / K)`, in the mean K - 1 pairs a round among all. The paper says 1/n for an
      ordered pair; a pair and its reverse are the same comparison.
    - ``"time"``: :math:`t^{-a}`. The paper says O(1/t), a = 1; the authors' code has a = ½, which is the default, since
      with the other one weights between clusters were still far from 0 after 1,000 rounds.
    - ``"mixed"``: ``"constant"`` in the first rounds, then ``"time"``.
    - ``"all"``: 1, which the paper calls no sampling.

    Args:
        kind: One of these.
        switch: Rounds of ``"mixed"`` with the constant probability. The paper's is 0.2 % of all, 80 of its 40,000 (the
            authors' code: 800); the default is that.
        decay: a, the paper's 1 or the default ½.

    Example:
        >>> PairSampling("constant").probability(1, 8), PairSampling("time").probability(4, 8)
        (0.25, 0.5)
    """

    kind: Literal["constant", "time", "mixed", "all"] = "constant"
    switch: Natural = 80
    decay: Positive = 0.5

    def probability(self, round_: int, num_nodes: int) -> float:
        """Return the probability of a pair of ``num_nodes`` nodes in a round, counted from 1."""
        if self.kind == "all":
            return 1.0
        if self.kind == "constant" or (self.kind == "mixed" and round_ <= self.switch):
            return min(1.0, 2 / num_nodes)
        return float(round_) ** -self.decay

    def draw(self, low: Tensor, high: Tensor, round_: int, played: int, num_nodes: int, seed: int) -> Tensor:
        """Return which pairs compare their gradients, a mask [M].

        Args:
            low: The smaller ``node_id`` of every pair, [M].
            high: The larger one, [M].
            round_: Round of the run, from 0.
            played: Rounds since the method began.
            num_nodes: K.
            seed: Seed of the run.
        """
        probability = self.probability(played + 1, num_nodes)
        if probability >= 1:
            return torch.ones_like(low, dtype=torch.bool)
        return keyed_uniform(seed, _PAIR_STREAM, low, high, round_) < probability
