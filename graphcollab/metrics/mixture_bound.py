"""How well a mixture of models can do: the generalisation bound of directed collaboration graphs, with its terms."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab.errors import InvalidValueError, RangeError, TooFewError, UnsupportedError
from graphcollab.metrics.edges import check_edges, measure
from graphcollab.settings import Count, NonNegative, Real
from graphcollab.tasks import Tasks

__all__ = ["label_distance", "mixture_bound"]


@measure
def mixture_bound(
    edge_index: Tensor,
    edge_weight: Tensor,
    *,
    risk: Tensor,
    empirical_risk: Tensor,
    disagreement: Tensor,
    edge_distance: Tensor,
    num_samples: Tensor,
    dimension: NonNegative,
    delta: Annotated[float, Real(above=0, below=1)] = 0.05,
    constant: NonNegative = 1.0,
    lipschitz: NonNegative = 1.0,
    bound: NonNegative = 1.0,
    num_models: Count | Literal["mixed"] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return the generalisation bound of mixtures of models, term by term.

    It is equation (4.5) of *Learning Directed Collaboration Graphs for Peer-to-Peer Personalized Learning* (Zheng,
    Ohio State University, 2021): with probability at least 1 - delta,

    .. math::
        L_{D_i}(\bar h_i) \le N a_{ii}^2 \Big[L_{D_i}(h_i^*) + 2 C \sqrt{\tfrac{d + \log(1/\delta)}{m_i}}
            + G \lambda_H(S_i)\Big] + N \sum_{j \ne i} a_{ij}^2 \Big[\hat L_{D_j}(\hat h_j^*)
            + C \sqrt{\tfrac{d + \log(1/\delta)}{m_j}} + B \|D_i - D_j\|_1\Big]

    The proof is for the squared hinge loss, and for mixtures of *predictions*: h̄_i(x) = Σ_j a_ij h_j(x) with weights
    that are not negative and sum to 1. Mixing parameters is the same for models that are linear in them; for neural
    networks the bound says what plays a part (how much is given to oneself, samples, distances), not a number to rely
    on. C is a constant whose value the theorem leaves open.

    Args:
        edge_index: Edges j -> i, [2, E], with a self-loop where a node gives weight to its own model.
        edge_weight: a_ij, [E].
        risk: The smallest true risk of node i's own models, L_Di(h_i*), such as a test loss, [K].
        empirical_risk: The loss of node j's model on its training samples, [K].
        disagreement: lambda_H(S_i), the largest mean difference of two models' predictions on i's training samples,
            [K].
        edge_distance: ||D_i - D_j||_1, from 0 to 2, such as `label_distance`, [E].
        num_samples: Training samples m_i, [K].
        dimension: The VC dimension d.
        delta: How likely the bound may fail.
        constant: C.
        lipschitz: G, the Lipschitz constant of the loss.
        bound: B, the largest value of the loss.
        num_models: N. Default: K, as in the paper. The inequality needs only the number of models that are mixed, the
            own included: ``"mixed"`` takes that of each receiver, which is tighter in sparse graphs.

    Returns:
        The bound, [K], and its terms, each times N a²; those of a receiver's own model, [3, K] (risk, complexity,
        disagreement), and of the models its edges bring, [3, E] (empirical risk, complexity, distance; 0 at
        self-loops).

    Raises:
        ValueError: If shapes do not belong together, a receiver's weights are negative or do not sum to 1, or another
            value is out of its range.
    """
    count = num_samples.numel()
    check_edges(edge_index, edge_weight, count)
    given = {"risk": risk, "empirical_risk": empirical_risk, "disagreement": disagreement, "num_samples": num_samples}
    for name, value in (given | {"edge_distance": edge_distance}).items():
        size = edge_weight.numel() if name == "edge_distance" else count
        if value.shape != (size,) or not bool((value >= 0).all()):
            raise InvalidValueError(
                name, f"{name} must be {size} numbers that are not negative, got shape {list(value.shape)}"
            )
    if not bool((num_samples > 0).all()):
        raise TooFewError(
            "num_samples", f"node {int((num_samples <= 0).nonzero()[0])} has no training samples: the bound needs some"
        )
    sender, receiver = edge_index.long()
    weight = edge_weight.detach().double()
    if bool((weight < 0).any()):
        raise RangeError("edge_weight", f"edge_weight must not be negative, got {float(weight.min()):g}")
    total = scatter(weight, receiver, dim_size=count)
    wrong = ((total - 1).abs() > 1e-4).nonzero().flatten()
    if len(wrong):
        raise InvalidValueError(
            "edge_weight",
            f"the weights of each receiver must sum to 1, self-loop included: those of node {int(wrong[0])} "
            f"sum to {float(total[wrong[0]]):g}",
        )
    models = scatter((weight > 0).double(), receiver, dim_size=count)  # N of every receiver, [K]
    if isinstance(num_models, int) and num_models < int(models.max()):
        raise RangeError(
            "num_models",
            f'num_models must be "mixed", or a number of at least {int(models.max())}, as many as some node mixes, '
            f"got {num_models!r}",
        )
    if num_models != "mixed":
        models = torch.full_like(models, count if num_models is None else num_models)
    loop = sender == receiver
    square = models[receiver] * weight.square()
    own, other = scatter(square.where(loop, 0.0), receiver, dim_size=count), square.where(~loop, 0.0)
    spread = constant * ((dimension + math.log(1 / delta)) / num_samples.double()).sqrt()
    nodes = own * torch.stack([risk.double(), 2 * spread, lipschitz * disagreement.double()])
    edges = other * torch.stack([empirical_risk.double()[sender], spread[sender], bound * edge_distance.double()])
    return nodes.sum(0) + scatter(edges.sum(0), receiver, dim_size=count), nodes, edges


@measure
def label_distance(tasks: Tasks, edge_index: Tensor) -> Tensor:
    """Return the distance between the label distributions of the two nodes of every edge, [E], float64.

    It is the sum over labels c of abs(P_i(c) - P_j(c)), where P are shares among a node's training samples: from 0 (the
    same) to 2 (no label in common). Where nodes differ by their labels only (label shift, the same inputs for a label
    everywhere), it estimates the distance ||D_i - D_j||_1 of `mixture_bound`. Targets must be class labels. All
    samples count alike, also where they have weights.

    Args:
        tasks: The nodes' data.
    """
    classes = tasks.classes
    if classes is None:
        raise UnsupportedError(
            "tasks",
            "the nodes' targets are not class labels: give the distance of their data by other means",
            public=True,
        )
    check_edges(edge_index, torch.zeros(edge_index.shape[-1]), tasks.num_nodes)
    split, (count, size) = tasks.splits["train"], classes.shape
    owner = torch.repeat_interleave(torch.arange(count), split.sizes)
    labels = tasks.pools[split.pool].targets[split.index].long()
    # [K, C]
    shares = torch.bincount(owner * size + labels, minlength=count * size).view(count, size).double()
    sender, receiver = (shares / shares.sum(1, keepdim=True))[edge_index.long()]
    return (receiver - sender).abs().sum(1)
