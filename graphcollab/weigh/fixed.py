"""Edge weights that are not learned: sample counts, uniform, Metropolis, those there are, none."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab.ops.by_receiver import receives, shares
from graphcollab.piece import Weigher
from graphcollab.typing import Env

__all__ = ["KeepWeights", "Metropolis", "NoWeights", "SampleCounts", "Uniform", "require_self_loops"]


@dataclass(frozen=True)
class NoWeights(Weigher):
    """No edge weighs anything."""

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return zeros."""
        return torch.zeros(data.edge_index.shape[1], device=data.edge_index.device)


@dataclass(frozen=True)
class SampleCounts(Weigher):
    """Weights by sample counts: w_ij = n_j / Σ n over those i hears, with self-loops itself (McMahan et al. 2017)."""

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return sample counts, normalised per receiver."""
        sender, receiver = data.edge_index
        return shares(env.engine.tasks.sizes("train")[sender].to(data.x.dtype), receiver, data.num_nodes)


@dataclass(frozen=True)
class Uniform(Weigher):
    """Equal weights: w_ij = 1 / (number of nodes i hears, itself included where it has a self-loop)."""

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return inverse degrees."""
        receiver = data.edge_index[1]
        return 1.0 / torch.bincount(receiver, minlength=data.num_nodes).to(data.x.dtype)[receiver]


@dataclass(frozen=True)
class Metropolis(Weigher):
    """Metropolis-Hastings weights: w_ij = 1 / (1 + max(d_i, d_j)), w_ii = 1 − Σ_j w_ij.

    They are symmetric, so rows and columns sum to 1. d counts neighbours without self-loops (Xiao, Boyd, Kim 2007).

    Raises:
        ValueError: If the graph is not undirected. It should have a self-loop everywhere.
    """

    def init(self, data: Data, env: Env) -> Data:
        """Check that every edge has one back."""
        sender, receiver = data.edge_index
        there = (sender * data.num_nodes + receiver).sort().values
        back = (receiver * data.num_nodes + sender).sort().values
        if not torch.equal(there, back):
            raise ValueError(
                "Metropolis weights need an undirected graph (an edge back for every edge): use an undirected topology "
                "or Uniform weights"
            )
        return data

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the doubly stochastic weights."""
        sender, receiver = data.edge_index
        loops = sender == receiver
        degree = torch.bincount(receiver[~loops], minlength=data.num_nodes).to(data.x.dtype)
        weight = (1.0 / (1 + torch.maximum(degree[sender], degree[receiver]))).masked_fill(loops, 0)
        rest = 1 - scatter(weight, receiver, dim_size=data.num_nodes)
        return torch.where(loops, rest[receiver], weight)


@dataclass(frozen=True)
class KeepWeights(Weigher):
    """Edges weigh what they weighed before: the weights an earlier phase has learned, or the graph came with."""

    def weights(self, data: Data, env: Env) -> Tensor:
        """Return the weights there are."""
        weight: Tensor = data.edge_weight
        return weight


def require_self_loops(data: Data, env: Env, what: str) -> None:
    """Check that every node hears itself; else raise a ``ValueError`` that begins with ``what`` needs it."""
    sender, receiver = data.edge_index
    lacking = ~receives(sender == receiver, receiver, data.num_nodes)
    if bool(lacking.any()):
        node = env.engine.tasks.names[int(lacking.nonzero()[0])]
        raise ValueError(f"{what}, and {node} has no self-loop: use prepare=WithSelfLoops()")
