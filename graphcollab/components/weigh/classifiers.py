"""Weights by the similarity of the nodes' classifiers: those of pFedSim, and those that MAPL learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab._base.errors import ContractError
from graphcollab._base.piece import Field, Origin, Readers, updated
from graphcollab._base.settings import Count, Fraction, NonNegative, Positive, Real
from graphcollab.components.allowed import parts_apart
from graphcollab.components.at_work import crossing_edges, has_neighbors, serving
from graphcollab.components.env import Env
from graphcollab.components.slots import Weigher
from graphcollab.components.weigh.formulas import Formula, Uniform, require_self_loops
from graphcollab.nn.functional.by_receiver import shares
from graphcollab.nn.functional.projections import project_simplex


def check_head(data: Data, part: str) -> int:
    """Check that a part is one linear layer that all nodes share; return its number of floats, with the bias."""
    width = data.x.part(part).shape[1]
    layout = data.x.specs[0].part_layout(part)
    classes = layout[0][0] if layout and len(layout[0]) == 2 else 0
    if not classes or layout[1:] not in ((), ((classes,),)):
        raise ContractError(
            f"part {part!r}",
            f"classifiers need one linear layer, of shapes [C, d] and perhaps [C], the part {part!r} has {layout}: "
            "name the last layer",
        )
    return width


@torch.no_grad()
def head_cosines(data: Data, env: Env, part: str, per_class: bool = False) -> Tensor:
    """Return the cosine of the classifiers (a part) at the two ends of every edge, [E], float64.

    It is 0 if a classifier is zero or not finite. With ``per_class`` it is the mean over the classes of the cosines of
    their weight vectors, without the bias; a class with zero weights counts as 0.
    """
    rows, edge_index = data.x.part(part), data.edge_index
    if not per_class:
        return env.plane.cosines(rows, rows, edge_index, parts_apart(data)).nan_to_num(0.0)
    classes, width = data.x.specs[0].part_layout(part)[0]
    unit = F.normalize(rows[:, : classes * width].double().unflatten(1, (classes, width)), dim=2).flatten(1)
    return (env.plane.products(unit, unit, edge_index) / classes).nan_to_num(0.0)


@dataclass(frozen=True)
class HeadAffinity(Formula):
    r"""Weights by the similarity of classifiers, computed by a server.

    .. math::
        s_{ij} = \max\Big(0, \frac1C \sum_c \cos(\phi_{ic}, \phi_{jc})\Big), \qquad s_{ii} = s_{\max}

    with :math:`\phi_{ic}` the weights, without the bias, of node i's classifier for class c of C. A node that is
    similar to no other, or whose classifier is zero, keeps its own model. Senders that do not serve have weight 0. See
    `pfedsim`.

    Args:
        part: Part of the model that the exchange mixes.
        head: The classifier: a part that is one linear layer.
        cap: :math:`s_{\max}`.

    Shapes:
        Writes ``edge_weight`` [E]; every receiver's sum is 1. A participating node (that trains and serves) is charged
        the P_head floats of its classifier, sent to the server once, unless it is in the part that is mixed.

    Raises:
        ValueError: If the classifier is not one linear layer that all nodes share, or a node has no self-loop.
    """

    travels: ClassVar[str] = "the classifier, up to the server"
    told: ClassVar[Readers] = {"listeners": "its classifier"}
    shared: ClassVar[tuple[str, ...]] = ("part",)

    part: str = "backbone"
    head: str = "head"
    cap: Annotated[float, Real(above=0, below=1)] = 0.9999

    def init(self, data: Data, env: Env) -> Data:
        check_head(data, self.head)
        require_self_loops(data, env, "a node that is like nobody keeps its own model")
        return data

    def __call__(self, data: Data, env: Env) -> Data:
        data = super().__call__(data, env)
        mixed, head = (data.x.specs[0].columns(part) for part in (self.part, self.head))
        if mixed.start <= head.start and head.stop <= mixed.stop:  # the exchange counts it
            return data
        sends = data.trains & data.serves & has_neighbors(data)
        return env.plane.charge(data, sends.nonzero().flatten(), head.stop - head.start)

    def weights(self, data: Data, env: Env) -> Tensor:
        sender, receiver = data.edge_index
        alike = head_cosines(data, env, self.head, per_class=True).clamp(0, self.cap)
        alike = alike.masked_fill(~crossing_edges(data), 0).masked_fill(sender == receiver, self.cap)
        return shares(-torch.log1p(-alike), receiver, data.num_nodes)


@dataclass(frozen=True)
class ClassifierSimilarity(Weigher):
    r"""Learn aggregation weights from the angles between classifiers (collaborative graph learning, CGL).

    `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et al., 2024), eq. 6 to
    9 and algorithm 2. Every node i takes a projected gradient step on its own weights, for its neighbors and itself,
    which are nonnegative and sum to 1:

    .. math::
        \ell_i(w_i) &= \mu_1 \sum_j \gamma_j w_{ij} s_{ij} + \mu_2 \big( \beta \lVert w_i \rVert_2
            - \log(\deg_i + \varepsilon) \big), \qquad \deg_i = \sum_{j \ne i} w_{ij} \\
        \frac{\partial \ell_i}{\partial w_{ij}} &= \mu_1 \gamma_j s_{ij} + \mu_2 \Big(
            \beta \frac{w_{ij}}{\lVert w_i \rVert_2} - \frac{[j \ne i]}{\deg_i + \varepsilon} \Big), \qquad
        w_i \leftarrow \Pi_\Delta (w_i - \eta \nabla \ell_i)

    with :math:`s_{ij} = -\cos(\phi_i, \phi_j)` of the classifiers, :math:`s_{ii} = -1`, and the confidence
    :math:`\gamma_j = |D_j| / |\cup D|` of training samples of the node and its neighbors at the start (our
    interpretation; the paper's union is over all clients, the same on a complete graph). The logarithm keeps nodes from
    isolating themselves, and the norm with β spreads the weight.

    A node's own weight ends at zero in all but very small groups, even if its classifier is orthogonal to all others;
    ``own`` keeps some of it. Other nodes lose all weight only if their cosines are smaller than those of n similar
    neighbors by :math:`\mu_2 \beta / (\mu_1 \gamma \sqrt n)` or more: see docs/different_models.md. Nodes that do not
    train keep their weights, and senders that do not serve keep theirs, with their share of the sum.

    The paper leaves η open. Its code takes one step of Adam with step size 0.1, reset every round, which is the sign of
    the gradient; its cosines are means over the classes, without the bias, divided by the largest one among the
    neighbors; and the logarithm's gradient is zero, since the degree is a stale number. This corresponds to
    ``ClassifierSimilarity(lr=0.1, rule="sign", similarity="per_class", normalize=True, log_degree=False)``, except if
    all cosines with neighbors are negative: the code's division then flips all signs, whereas here cosines are divided
    only if the largest is positive.

    Args:
        lr: η.
        mu1: μ₁, the factor of the similarities.
        mu2: μ₂, the factor of the regularizer.
        beta: β, the factor of the norm.
        eps: ε.
        steps: Steps a round (the paper's E_g), with the same similarities.
        rule: ``"gradient"``, or ``"sign"``: its sign, on which μ₁ and μ₂ act only by flipping it.
        similarity: ``"cosine"`` of whole classifiers, ``"per_class"``, or ``"none"``: all others are equally similar.
        normalize: Divide cosines by the largest one among a node's neighbors.
        confidence: False: all γ are equal.
        norm: ``"l2"``, or ``"l1"`` in its place (which is constant on the simplex).
        log_degree: False: leave the logarithm out.
        own: Minimum weight that a node keeps for itself, not in the paper.
        head: The classifier: a part of the model that is one linear layer.

    Shapes:
        Keeps ``edge_share`` [E], the weights, and ``edge_confidence`` [E], γ of every edge's sender; writes
        ``edge_weight`` [E]. Every neighbor sends its classifier and is charged P_head floats.
    """

    keeps: ClassVar[tuple[Field, ...]] = (
        Field("edge_share", "per_edge", "weights that have been learned", "run", "receiver"),
        Field("edge_confidence", "per_edge", "share of the sender's training samples in the neighborhood's"),
    )
    origin: ClassVar[Origin] = "learned"
    travels: ClassVar[str] = "classifiers, along every edge"
    told: ClassVar[Readers] = {"listeners": "its classifier"}

    lr: Positive = 1.0
    mu1: NonNegative = 0.5
    mu2: NonNegative = 0.1
    beta: NonNegative = 0.5
    eps: Positive = 1e-6
    steps: Count = 1
    rule: Literal["gradient", "sign"] = "gradient"
    similarity: Literal["cosine", "per_class", "none"] = "cosine"
    normalize: bool = False
    confidence: bool = True
    norm: Literal["l2", "l1"] = "l2"
    log_degree: bool = True
    own: Fraction = 0.0
    head: str = "head"

    def init(self, data: Data, env: Env) -> Data:
        """Give a node and its neighbors equal weights, unless an earlier phase has learned weights."""
        check_head(data, self.head)
        sender, receiver = data.edge_index
        share = data.edge_share if "edge_share" in data else Uniform().weights(data, env)
        samples = env.engine.tasks.sizes("train").double()
        samples = samples if self.confidence else torch.ones_like(samples)
        confidence = shares(samples[sender], receiver, data.num_nodes)
        return updated(data, edge_share=share, edge_weight=share, edge_confidence=confidence)

    def __call__(self, data: Data, env: Env) -> Data:
        sender, receiver = data.edge_index
        loop = sender == receiver
        there = data.trains[receiver] & (serving(data)[sender] | loop)
        cost = self.mu1 * data.edge_confidence * -self._similarities(data, env, there)
        known = env.plane.is_local(receiver)
        fixed = scatter(data.edge_share.double().masked_fill(there | ~known, 0), receiver, dim_size=data.num_nodes)
        moving = (there & known).nonzero().flatten()
        kept = torch.where(loop & there, self.own, 0.0).double()  # minimum own weight, [E]
        rest = (1 - fixed - scatter(kept, receiver, dim_size=data.num_nodes)).clamp(min=0)
        weight = data.edge_share.double()
        for _ in range(self.steps):
            step = self.gradient(weight, cost, data.edge_index, data.num_nodes)
            step = step.sign() if self.rule == "sign" else step
            moved = (weight - self.lr * step - kept)[moving]
            moved = project_simplex(moved, receiver[moving], data.num_nodes, rest) + kept[moving]
            weight = weight.index_copy(0, moving, moved)
        weight = weight.to(data.edge_share.dtype)
        data = updated(data, edge_weight=weight, edge_share=weight)
        return env.plane.charge(data, sender[there & ~loop], data.x.part(self.head).shape[1])

    def gradient(self, weight: Tensor, cost: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the gradient of every node's loss with respect to its weights, [E]; ``cost`` is μ₁ γ s, [E]."""
        sender, receiver = edge_index
        out = cost.clone()
        if self.norm == "l2":
            length = scatter(weight.square(), receiver, dim_size=num_nodes).sqrt()
            out += self.mu2 * self.beta * weight / length.clamp(min=torch.finfo(weight.dtype).tiny)[receiver]
        else:
            out += self.mu2 * self.beta * weight.sign()
        if self.log_degree:
            others = (sender != receiver).to(weight.dtype)
            degree = scatter(weight * others, receiver, dim_size=num_nodes)
            out -= self.mu2 * others / (degree + self.eps)[receiver]
        return out

    def _similarities(self, data: Data, env: Env, there: Tensor) -> Tensor:
        """Return the similarities of the edges, [E], 1 on self-loops."""
        sender, receiver = data.edge_index
        loop = sender == receiver
        if self.similarity == "none":
            return torch.ones_like(data.edge_confidence)
        alike = head_cosines(data, env, self.head, self.similarity == "per_class")
        if self.normalize:
            known = alike.masked_fill(loop | ~there, 0)
            largest = scatter(known, receiver, dim_size=data.num_nodes, reduce="max")
            alike = alike / torch.where(largest > 0, largest, 1.0)[receiver]
        return alike.masked_fill(loop, 1)
