"""Edge weights by a formula: from the graph and sample counts, or from similarities."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, scatter

from graphcollab._base.errors import DisconnectedError, MissingError, RangeError
from graphcollab._base.piece import Origin, updated
from graphcollab._base.settings import Finite, Fraction, Positive
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher
from graphcollab.nn.functional.by_receiver import receives, shares
from graphcollab.nn.functional.projections import project_simplex


@dataclass(frozen=True)
class Formula(Weigher):
    """Base of weighers that compute all weights of a round by a formula, defined by a subclass."""

    @abstractmethod
    def weights(self, data: Data, env: Env) -> Tensor:
        """Return one weight per edge, [E], computed in the models' number type: mixing repeats its rounding."""

    def __call__(self, data: Data, env: Env) -> Data:
        return updated(data, edge_weight=self.weights(data, env).to(data.x.dtype))


@dataclass(frozen=True)
class NoWeights(Formula):
    """All edges have weight 0."""

    origin: ClassVar[Origin] = "fixed"

    def weights(self, data: Data, env: Env) -> Tensor:
        return torch.zeros(data.edge_index.shape[1])


@dataclass(frozen=True)
class SampleCounts(Formula):
    """Weights by sample counts: w_ij = n_j / Σ n over i's in-neighbors, with self-loops i too (McMahan et al. 2017)."""

    origin: ClassVar[Origin] = "fixed"

    def weights(self, data: Data, env: Env) -> Tensor:
        sender, receiver = data.edge_index
        return shares(env.engine.tasks.sizes("train")[sender].to(data.x.dtype), receiver, data.num_nodes)


@dataclass(frozen=True)
class Uniform(Formula):
    """Equal weights: w_ij = 1 / (number of nodes that i hears, including itself if it has a self-loop)."""

    origin: ClassVar[Origin] = "fixed"

    def weights(self, data: Data, env: Env) -> Tensor:
        receiver = data.edge_index[1]
        return 1.0 / torch.bincount(receiver, minlength=data.num_nodes).to(data.x.dtype)[receiver]


@dataclass(frozen=True)
class Metropolis(Formula):
    """Metropolis-Hastings weights: w_ij = 1 / (1 + max(d_i, d_j)), w_ii = 1 − Σ_j w_ij.

    The weights are symmetric, so rows and columns sum to 1. d counts neighbors without self-loops (Xiao, Boyd, Kim
    2007). The graph must be undirected, and every node should have a self-loop.
    """

    origin: ClassVar[Origin] = "fixed"

    def init(self, data: Data, env: Env) -> Data:
        if not is_undirected(data.edge_index, num_nodes=data.num_nodes):
            cure = "let those hear each site, by listeners=, that it hears,"
            raise DisconnectedError(
                "graph",
                "Metropolis weights need an undirected graph (an edge back for every edge): "
                f"{cure if env.plane.cross_silo else 'use an undirected topology'} or Uniform weights",
            )
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        sender, receiver = data.edge_index
        loops = sender == receiver
        degree = torch.bincount(receiver[~loops], minlength=data.num_nodes).to(data.x.dtype)
        weight = (1.0 / (1 + torch.maximum(degree[sender], degree[receiver]))).masked_fill(loops, 0)
        rest = 1 - scatter(weight, receiver, dim_size=data.num_nodes)
        return torch.where(loops, rest[receiver], weight)


@dataclass(frozen=True)
class KeepWeights(Formula):
    """Keep the edge weights: those an earlier phase has learned, or those of the given graph.

    Weights of a graph (`Graph`) are kept if no other phase comes before. Edges that came without weights, and
    self-loops that `WithSelfLoops` adds, have weight 0.
    """

    origin: ClassVar[Origin] = "kept"

    def weights(self, data: Data, env: Env) -> Tensor:
        weight: Tensor = data.edge_weight
        return weight


def require_self_loops(data: Data, env: Env, what: str) -> None:
    """Check that every node has a self-loop; ``what`` begins the message of the ``ValueError``."""
    sender, receiver = data.edge_index
    lacking = ~receives(sender == receiver, receiver, data.num_nodes)
    if bool(lacking.any()):
        node = env.engine.tasks.names[int(lacking.nonzero()[0])]
        raise DisconnectedError("graph", f"{what}, and {node} has no self-loop: use prepare=WithSelfLoops()")


@dataclass(frozen=True)
class SimilarityWeights(Formula):
    r"""Weights proportional to similarity, or to its exponential, and a weight for the own model.

    .. math::
        w_{ij} = \frac{a_{ij}}{a_{ii} + \sum_{l \ne i} a_{il}}, \qquad
        a_{ij} = \max(s_i(j), 0) \quad \text{or} \quad a_{ij} = e^{\tau s_i(j)}

    The own model's weight may be

    - ``"most"``: :math:`a_{ii} = \max_l a_{il}`, from *With a Little Help from My Friends: A Comparative Study of
      Decentralized Deep Learning Strategies* (Hagander & Ihre-Thomason 2024), eq. 2.11 to 2.13, which calls this
      FedSim, the name that Pillutla et al. (2022) use for another method (`graphcollab.methods.fedsim`). Our additions:
      a receiver without a self-loop has no share of its own; if all similarities are 0, it keeps its own model if it
      has a self-loop, else its neighbors have equal weights.
    - ``"alike"``: that of a peer with similarity 1. With ``"most"``, a node that has met only dissimilar peers takes
      half of its model from them; here it keeps its own (our addition).
    - a number: :math:`w_{ii}` itself. The others share the rest; a node that hears no other node keeps its own model.
    - ``"rest"``: :math:`w_{ij} = a_{ij}` and :math:`w_{ii} = 1 - \sum_{l \ne i} a_{il}` (with τ,
      :math:`a_{ij} = e^{\tau (s_i(j) - 1)}`). If similarities are symmetric, so are the weights, and columns sum to 1
      too. If the others' sum is above 1, they are divided by it, and the own model has weight 0.

    Args:
        own: ``"most"``, ``"alike"``, ``"rest"``, or a weight. The last two need a self-loop at every node.
        tau: τ, for similarities of at most 1, such as cosines. None: proportional to the similarity itself.
        by: ``"score"``: the similarities measured in the round; ``"prior"``: the probabilities with which receivers
            chose the senders. A peer that was drawn despite a low believed similarity then changes a model little.

    Shapes:
        Reads ``edge_score`` or ``edge_prior`` [E] (self-loops' values are ignored); writes ``edge_weight`` [E].

    Raises:
        ValueError: If there is no such field, or a value is not finite, above 1 with τ, or negative without (priors).

    Example:
        >>> data = Data(num_nodes=3, edge_index=torch.tensor([[0, 1, 2], [0, 0, 0]]))
        >>> data.edge_score = torch.tensor([torch.nan, 0.5, 0.25])
        >>> for own in ("most", "alike", "rest", 0.4):
        ...     print([round(weight, 4) for weight in SimilarityWeights(own).weights(data, env=None).tolist()])
        [0.4, 0.4, 0.2]
        [0.5714, 0.2857, 0.1429]
        [0.25, 0.5, 0.25]
        [0.4, 0.4, 0.2]
        >>> [round(weight, 4) for weight in SimilarityWeights("alike", tau=10).weights(data, env=None).tolist()]
        [0.9928, 0.0067, 0.0005]
    """

    own: Literal["most", "alike", "rest"] | Fraction = "most"
    tau: Positive | None = None
    by: Literal["score", "prior"] = "score"

    @property
    def reads_scores(self) -> bool:
        return self.by == "score"

    def init(self, data: Data, env: Env) -> Data:
        if self.own == "rest":
            require_self_loops(data, env, "SimilarityWeights gives a node's own model what the others leave")
        elif not isinstance(self.own, str):
            require_self_loops(data, env, f"SimilarityWeights gives a node's own model the weight own={self.own:g}")
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        (sender, receiver), many = data.edge_index, data.num_nodes
        loop = sender == receiver
        value = self._values(data, loop)
        if self.own == "rest":
            amount = value if self.tau is None else torch.exp(self.tau * (value - 1))
            total = scatter(amount.masked_fill(loop, 0), receiver, dim_size=many)[receiver]
            return torch.where(loop, (1 - total).clamp(min=0), amount / total.clamp(min=1))
        # Amounts relative to the largest, which becomes 1, so that no sum overflows.
        value = value.masked_fill(loop, 1.0 if self.own == "alike" else torch.finfo(value.dtype).min)
        greatest = scatter(value, receiver, dim_size=many, reduce="max")[receiver]
        if self.tau is None:
            amount = value / torch.where(greatest > 0, greatest, 1.0)
        else:
            amount = torch.exp(self.tau * (value - greatest))
        if self.own == "most":
            nothing = (greatest == 0) & ~receives(loop, receiver, many)[receiver]  # all heard nodes are dissimilar
            amount = amount.masked_fill(loop | nothing, 1.0)
        if isinstance(self.own, str):
            return shares(amount, receiver, many)
        total = scatter(amount.masked_fill(loop, 0), receiver, dim_size=many)[receiver]
        own = torch.full_like(amount, self.own).masked_fill(total == 0, 1.0)  # where(…, own, 1.0) would be float32
        return torch.where(loop, own, (1 - self.own) * amount / total.where(total > 0, 1.0))

    def _values(self, data: Data, loop: Tensor) -> Tensor:
        """Return the similarities, [E]; without τ none is negative."""
        if f"edge_{self.by}" not in data:
            raise MissingError(
                "by",
                f"SimilarityWeights needs `edge_{self.by}` [E], got none: give PeerWeights a metric (by='score'), "
                "draw peers by DAC (by='prior'), or weigh by SampleCounts()",
            )
        value: Tensor = data[f"edge_{self.by}"].masked_fill(loop, 0)
        if self.tau is None and self.reads_scores:
            value = value.clamp(min=0)
        least, most = (0.0, torch.inf) if self.tau is None else (-torch.inf, 1 + 1e-9)  # with τ these are cosines
        bad = ~(value.isfinite() & (value >= least) & (value <= most))
        if bool(bad.any()):
            edge = int(bad.nonzero()[0])
            sender, receiver = data.edge_index[:, edge].tolist()
            wanted = "numbers of at least 0" if self.tau is None else "cosines, at most 1, or no tau"
            what = f"similarity {float(value[edge]):g} of edge {edge} ({sender} -> {receiver})"
            raise RangeError(f"edge {edge}", f"{what}: weights by similarity need {wanted}")
        return value


@dataclass(frozen=True)
class SimplexWeights(Formula):
    r"""The best compromise between weights on similar nodes and weights by sample counts.

    .. math::
        w_i = \operatorname*{argmin}_{w \ge 0,\, \sum_j w_j = 1} \; -\sum_j w_j s_i(j) + \alpha \sum_j (w_j - p_j)^2
            = \Pi_\Delta \Big( p + \frac{s_i}{2 \alpha} \Big), \qquad s_i(i) = 1

    over the senders that i hears in the round, including itself, with :math:`p_j = n_j / \sum_l n_l` of their training
    samples. The projection is exact. Rows become sparse, and are not symmetric. α → ∞ gives weights by sample counts;
    for α → 0 all weight is on the most similar nodes, the node itself among them.

    Args:
        alpha: α.
        snap: Similarities above it count as 1, so a row jumps when a similarity crosses it; None: disabled.

    Shapes:
        Reads ``edge_score`` [E], at most 1; every node needs a self-loop.
    """

    reads_scores: ClassVar[bool] = True

    alpha: Positive = 0.8
    snap: Finite | None = None

    def init(self, data: Data, env: Env) -> Data:
        require_self_loops(data, env, "SimplexWeights gives a node's own model a similarity of 1")
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        sender, receiver = data.edge_index
        share = shares(env.engine.tasks.sizes("train")[sender].double(), receiver, data.num_nodes)
        score = data.edge_score.double().masked_fill(sender == receiver, 1.0)
        if self.snap is not None:
            score = torch.where(score > self.snap, 1.0, score)
        return project_simplex(share + score / (2 * self.alpha), receiver, data.num_nodes)
