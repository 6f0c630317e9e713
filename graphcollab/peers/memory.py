"""What nodes remember of their peers: measured similarities, and those that peers told them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from graphcollab.relation import Relation

__all__ = ["add_up", "empty_memory", "forget", "priors", "shared", "update_memory"]


def add_up(known: Relation, edge_index: Tensor, values: Tensor) -> Relation:
    """Add values to what is known of pairs; a pair that is new starts from 0.

    Example:
        >>> known = Relation(torch.tensor([[1], [0]]), torch.tensor([3]), (3, 3))
        >>> after = add_up(known, torch.tensor([[2, 1], [0, 0]]), torch.tensor([1, 1]))
        >>> after.edge_index.tolist(), after.values.tolist()
        ([[1, 2], [0, 0]], [4, 1])
    """
    many = known.size[0]
    index = torch.cat([known.edge_index, edge_index], 1)
    key, place = (index[1] * many + index[0]).unique(return_inverse=True)
    total = torch.zeros(len(key), dtype=values.dtype, device=values.device)
    total.index_add_(0, place, torch.cat([known.values.to(values.dtype), values]))
    return Relation(torch.stack([key % many, key // many]), total, known.size)


def empty_memory(count: int, device: torch.device) -> Relation:
    """Return a memory of K nodes in which nobody knows anybody.

    A memory is a `Relation`: an edge j → i for every peer j that i knows, with two values, [M, 2]: the similarity, and
    1 where i measured it itself or 0 where it was told.
    """
    nothing = torch.empty(2, 0, dtype=torch.int64, device=device)
    return Relation(nothing, torch.empty(0, 2, dtype=torch.float64, device=device), (count, count))


def shared(memory: Relation, share: str) -> Relation:
    """Return what nodes tell others: what they measured, or all they know."""
    if share == "all":
        return memory
    own = memory.values[:, 1] > 0
    return Relation(memory.edge_index[:, own], memory.values[own], memory.size)


def update_memory(
    memory: Relation,
    edge_index: Tensor,
    score: Tensor,
    rank: Tensor,
    two_step: str | None = "most_similar",
    share: str = "measured",
) -> Relation:
    """Return the memory after a round: what was measured, and what the peers that were met told of others.

    A measurement replaces all that was known of a peer; an estimate replaces an earlier estimate, never a measurement.
    If several peers tell of the same node, the one that is most similar to the listener is believed (of equally similar
    ones that with the smallest ``node_id``).

    Args:
        memory: What nodes knew before the round, which is also what they tell.
        edge_index: Who was met: sender j, receiver i, [2, E], no self-loops.
        score: Similarity measured by i, [E].
        rank: Place of every node in the order of ``node_id``, [K].
        two_step: Whom to believe: the ``"most_similar"`` (the text), the ``"least_similar"`` (the published code), the
            most similar but no more than it is similar itself (``"bounded"``), or nobody (None). Without a bound a few
            nodes that have fallen for another cluster recommend that cluster to their own, highly and one node after
            the other.
        share: ``"measured"``: nodes tell what they measured, as in the thesis' code, so an estimate is two steps away;
            ``"all"``: they also pass on what they were told. The default differs from the text, which read literally
            shares all of s_k and adds to s_i the clients that are not in it.

    Example:
        Fig. 2.2 of the thesis: 0 meets 1 and 2, to which it has similarity 1 and 10; 1 knows 3, and 2 knows 3 and 4.

        >>> known = Relation(torch.tensor([[3, 3, 4], [1, 2, 2]]), torch.tensor([[9.0, 1], [2, 1], [4, 1]]), (5, 5))
        >>> met = torch.tensor([[1, 2], [0, 0]])
        >>> after = update_memory(known, met, torch.tensor([1.0, 10.0]), torch.arange(5))
        >>> {j: s for j, i, s in zip(*after.edge_index.tolist(), after.values[:, 0].tolist()) if i == 0}
        {1: 1.0, 2: 10.0, 3: 2.0, 4: 4.0}
    """
    many = memory.size[0]
    measured = torch.stack([score.double(), torch.ones_like(score, dtype=torch.float64)], 1)
    edges, values = [edge_index, memory.edge_index], [measured, memory.values]
    if two_step is not None:
        told = _told(shared(memory, share), edge_index, score.double(), rank, two_step)
        edges.append(told[0])
        values.append(told[1])
    index, value = torch.cat(edges, 1), torch.cat(values)
    # Of several entries for a pair: this round's measurement, an old one, this round's estimate, an old one.
    age = torch.cat([torch.full((part.shape[1],), n, device=index.device) for n, part in enumerate(edges)])
    age = torch.where((age == 1) & (value[:, 1] == 0), 3, age)
    keep = _first_of(index[1] * many + rank[index[0]], age, 4, many)
    return Relation(index[:, keep], value[keep], memory.size)


def forget(memory: Relation, limit: int, rank: Tensor) -> Relation:
    """Return a memory in which every node keeps only the most similar peers it knows of.

    Args:
        memory: What nodes know.
        limit: How many a node keeps; of equally similar ones those with the smaller ``node_id``.
        rank: Place of every node in the order of ``node_id``, [K].

    Example:
        >>> known = Relation(torch.tensor([[1, 2, 3], [0, 0, 0]]), torch.tensor([[9.0, 1], [2, 1], [4, 0]]), (4, 4))
        >>> forget(known, 2, torch.arange(4)).edge_index[0].tolist()
        [1, 3]
    """
    sender, receiver = memory.edge_index
    order = rank[sender].argsort(stable=True)
    order = order[memory.values[order, 0].argsort(descending=True, stable=True)]
    order = order[receiver[order].argsort(stable=True)]
    degree = torch.bincount(receiver, minlength=memory.size[1])
    place = torch.arange(len(order), device=order.device) - (degree.cumsum(0) - degree)[receiver[order]]
    keep = order[place < limit].sort().values
    return Relation(memory.edge_index[:, keep], memory.values[keep], memory.size)


def _told(known: Relation, edge_index: Tensor, trust: Tensor, rank: Tensor, two_step: str) -> tuple[Tensor, Tensor]:
    """Return what receivers hear of third nodes: pairs [2, T], each once, and values [T, 2]."""
    many = known.size[0]
    sender, receiver = edge_index
    order = known.edge_index[1].argsort(stable=True)
    about, value = known.edge_index[0, order], known.values[order, 0]
    degree = torch.bincount(known.edge_index[1], minlength=many)
    begin = degree.cumsum(0) - degree
    length = degree[sender]
    edge = torch.repeat_interleave(torch.arange(len(sender), device=sender.device), length)  # [T'] who told
    within = torch.arange(len(edge), device=sender.device) - (length.cumsum(0) - length)[edge]
    item = begin[sender[edge]] + within
    third, listener = about[item], receiver[edge]
    # Of every pair the entry told over the first edge counts: the most trusted, then the smallest node_id who told.
    turn = rank[sender].argsort(stable=True)
    turn = turn[trust[turn].argsort(descending=two_step != "least_similar", stable=True)]
    place = torch.empty_like(turn)
    place[turn] = torch.arange(len(turn), device=turn.device)
    order = _first_of(listener * many + third, place[edge], len(sender), many)
    order = order[third[order] != listener[order]]
    similarity = value[item[order]]
    if two_step == "bounded":
        similarity = torch.minimum(similarity, trust[edge[order]])
    return torch.stack([third[order], listener[order]]), torch.stack([similarity, torch.zeros_like(similarity)], 1)


def _first_of(pair: Tensor, turn: Tensor, turns: int, many: int) -> Tensor:
    """Return which entry of every pair has the smallest turn, [distinct pairs], in ascending order of the pairs.

    Args:
        pair: Pair of every entry, a number below K², [N].
        turn: Its turn, a number below ``turns``, [N]; different within a pair.
        turns: Number of turns.
        many: K.
    """
    if len(pair) < many * many // 4:
        order = (pair * turns + turn).argsort()
        first = torch.ones_like(pair, dtype=torch.bool)
        first[1:] = pair[order[1:]] != pair[order[:-1]]
        return order[first]
    # There are about as many entries as pairs: a table of all pairs is no larger, and much faster than sorting.
    none = torch.iinfo(torch.int64).max
    table = torch.full((many * many,), none, device=pair.device)
    table.scatter_reduce_(0, pair, turn * len(pair) + torch.arange(len(pair), device=pair.device), "amin")
    return table[table != none] % len(pair)


def priors(memory: Relation, tau: float, scale: str | None = None) -> tuple[Tensor, Tensor]:
    r"""Return how much more likely every known peer is drawn than others, eq. 2.9 and 2.10 of the thesis.

    .. math::
        p_i(j) = \frac{e^{\tau s_i(j)}}{\sum_l e^{\tau s_i(l)}}

    over the peers l that i knows. The largest similarity is subtracted first, which changes nothing and cannot
    overflow, whatever τ is (the text subtracts the smallest, which can).

    Args:
        memory: What nodes know.
        tau: τ, an inverse temperature.
        scale: ``"minmax"`` brings the similarities that a node knows to [0, 1] first (all equal: to 0).

    Returns:
        p of every entry of the memory, [M], and for every node the probability a peer of similarity 0 would have had,
        in the same measure, [K] (0 for nodes that know nobody).

    Example:
        >>> edges = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
        >>> values = torch.tensor([[2.0, 0], [4, 0], [1, 1], [10, 1]], dtype=torch.float64)
        >>> p, _ = priors(Relation(edges, values, (5, 5)), tau=1.0)
        >>> [round(x, 5) for x in p.tolist()]
        [0.00033, 0.00247, 0.00012, 0.99707]
    """
    receiver, similarity, many = memory.edge_index[1], memory.values[:, 0], memory.size[1]
    zero = torch.zeros(many, dtype=similarity.dtype, device=similarity.device)
    low, high = (zero.scatter_reduce(0, receiver, similarity, how, include_self=False) for how in ("amin", "amax"))
    if scale == "minmax":
        width = (high - low)[receiver]
        similarity = torch.where(width > 0, (similarity - low[receiver]) / width.where(width > 0, 1.0), 0.0)
        low, high = zero, (high > low).to(zero.dtype)
    weight = torch.exp(tau * (similarity - high[receiver]))
    total = scatter(weight, receiver, dim_size=many)
    known = total > 0
    none = torch.where(known, torch.exp((tau * (0 - high)).clamp(max=700)) / total.where(known, 1.0), 0.0)
    return weight / total[receiver], none
