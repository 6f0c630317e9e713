"""Allowed edges: the given edges of a run bind all communication, whatever route models take."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.errors import DisconnectedError
from graphcollab.comm.relation import Relation
from graphcollab.components.env import Env
from graphcollab.transforms._edges import edge_keys, select_edges


def allow(edge_index: Tensor, num_nodes: int) -> Relation:
    """Return the edges that may exist: the given ones (the same tensor), without self-loops, which always may."""
    neighbors = edge_index[0] != edge_index[1]
    edges = edge_index if bool(neighbors.all()) else edge_index[:, neighbors]
    ones = torch.ones(1, dtype=torch.bool).expand(edges.shape[1])
    return Relation(edges, ones, (num_nodes, num_nodes))


def forbidden_edges(data: Data) -> Tensor | None:
    """Return a mask of the graph's forbidden edges, [E]; None if all are allowed."""
    if "allowed" not in data:
        return None
    sender, receiver = data.edge_index
    wanted, may = (edge_keys(edges, data.num_nodes) for edges in (data.edge_index, data.allowed.edge_index))
    forbidden = (sender != receiver) & ~torch.isin(wanted, may)
    return forbidden if bool(forbidden.any()) else None


def allowed_only(data: Data) -> Data:
    """Remove forbidden edges, whatever piece added them."""
    forbidden = forbidden_edges(data)
    return data if forbidden is None else select_edges(data, ~forbidden)


def components(data: Data, mutual: bool = True) -> Tensor:
    """Number the components of the graph of allowed edges, [K]; there is one if all nodes may hear each other.

    Two nodes are in one component if each can influence the other along allowed edges; without ``mutual``, if one can.
    """
    if "allowed" not in data:
        return torch.zeros_like(data.node_id)
    if mutual and "component" in data:
        return data.component
    from scipy.sparse import coo_matrix  # imported here, since it is slow to import
    from scipy.sparse.csgraph import connected_components

    sender, receiver = data.allowed.edge_index.cpu().numpy()
    ones = torch.ones(len(sender), dtype=torch.int8).numpy()
    matrix = coo_matrix((ones, (sender, receiver)), shape=(data.num_nodes, data.num_nodes)).tocsr()
    _, part = connected_components(matrix, directed=True, connection="strong" if mutual else "weak")
    return torch.from_numpy(part).to(data.node_id)


def parts_apart(data: Data) -> Tensor | None:
    """Return the number of every node's component, [K]; None if there is only one."""
    return components(data) if "allowed" in data else None


def server_groups(data: Data, env: Env, within: Tensor | None = None, incomplete: str = "refuse") -> Tensor:
    """Return the group within which a server may average, [K], from 0; -1 for a node alone, which sends nothing.

    Groups are strongly connected components of allowed edges, divided by ``within`` [K]. With ``incomplete="refuse"``,
    a ValueError is raised unless all nodes of a group may hear each other; with ``"average"`` a path suffices.
    """
    group = torch.zeros_like(data.node_id) if within is None else within
    if "allowed" in data:
        if incomplete == "refuse":
            _require_complete(data, env, _in_both(group, components(data, mutual=False)))
        group = _in_both(group, components(data))
    return without_the_alone(group)


def without_the_alone(group: Tensor) -> Tensor:
    """Number the groups of at least two nodes from 0, in the same order; nodes that are alone have -1, [K]."""
    many = torch.bincount(group)[group] > 1
    numbered = torch.full_like(group, -1)
    numbered[many] = group[many].unique(return_inverse=True)[1]
    return numbered


def require_both_ways(data: Data, env: Env, what: str, by_path: bool = False) -> None:
    """Check that every allowed edge has a reverse edge, or path; else a ValueError says that ``what`` needs it."""
    if "allowed" not in data:
        return
    edges = data.allowed.edge_index
    sender, receiver = edges
    if by_path:
        part = components(data)
        bad = part[sender] != part[receiver]
    else:
        bad = ~torch.isin(edge_keys(edges.flip(0), data.num_nodes), edge_keys(edges, data.num_nodes))
    if bool(bad.any()):
        names, first = env.engine.tasks.names, int(bad.nonzero()[0])
        here, there = names[int(receiver[first])], names[int(sender[first])]
        cure = "give an undirected graph, for example by PyG's transforms.ToUndirected()"
        if env.plane.cross_silo:
            cure = f"let {there} hear {here}, by listeners= at {here}" + ", or at sites between them" * by_path
        raise DisconnectedError(
            f"node {here!r}",
            f"{what}, and {here} may hear {there}, but there is no {'path' if by_path else 'edge'} {here} → {there}: "
            f"{cure}, or use another method",
        )


def _require_complete(data: Data, env: Env, group: Tensor) -> None:
    sender, receiver = data.allowed.edge_index
    inside = group[sender] == group[receiver]
    heard = torch.bincount(receiver[inside], minlength=data.num_nodes)
    short = (heard + 1 < torch.bincount(group)[group]).nonzero().flatten()
    if not len(short):
        return
    node = int(short[0])
    member = group == group[node]
    member[sender[receiver == node]] = False
    member[node] = False
    names = env.engine.tasks.names
    deaf, unheard = names[node], names[int(member.nonzero()[0])]
    cure = "give a graph whose connected nodes all hear each other"
    if env.plane.cross_silo:
        cure = f"let {deaf} hear {unheard}, by listeners= at {unheard}"
    raise DisconnectedError(
        f"node {deaf!r}",
        f"a server would average {deaf} and {unheard}, but {deaf} may not hear {unheard} (no {unheard} → {deaf}): "
        f"{cure}, or say incomplete='average'",
    )


def _in_both(one: Tensor, two: Tensor) -> Tensor:
    """Number the groups of nodes that are together in both, [K]."""
    return (one * (int(two.max()) + 1) + two).unique(return_inverse=True)[1]
