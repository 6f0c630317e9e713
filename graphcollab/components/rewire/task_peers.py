"""FLT's rewiring: one comparison of all tasks before the first round defines the graph."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphcollab._base.errors import ConflictError, InvalidValueError, TooFewError, TooManyError
from graphcollab._base.piece import Field, Readers, updated
from graphcollab._base.settings import Count, Positive, Real, Seed
from graphcollab.comm.lists import gather_values
from graphcollab.components.allowed import components, require_both_ways, without_the_alone
from graphcollab.components.env import Env
from graphcollab.components.rewire.sampler import connect
from graphcollab.components.rewire.task_distances import Encoder, Reduce, center_distances, code_centers
from graphcollab.components.slots import Rewiring
from graphcollab.data.tasks import Tasks


@dataclass(frozen=True)
class TaskPeers(Rewiring):
    r"""Connect nodes with similar tasks, once, before the first round.

    From `Federated Learning With Taskonomy for Non-IID Data (Jamali-Rad, Abdizadeh, Singh, IEEE TNNLS 2022)
    <https://arxiv.org/abs/2103.15947>`_. A server sends an encoder to all nodes. Node i encodes its training samples,
    clusters the codes by k-means and sends the centers C_i. The server compares them:

    .. math::
        d_{ij} = \min_\pi \frac{1}{n} \sqrt{\sum_{c \in C_i} \lVert c - \pi(c) \rVert^2}, \qquad
        A_{ij} = [d_{ij} < \text{threshold}]

    where π matches the smaller of the two sets with as many centers of the larger, n of them.

    A threshold depends on the scale of the codes (the authors use 1, on UMAP's). The default measures distances
    relative to those within nodes:

    .. math::
        r_{ij} = \frac{\sqrt n \, d_{ij}}
        {\text{distance of a center to the nearest other one of its own node}}

    (root mean squares, the second one over all nodes). Nodes are connected below r = 0.55 and not above 0.85; in
    between, the threshold is in the middle of the widest gap between the r of all pairs: ``window=(0.55, 0.85)``. Nodes
    with equally distributed data thus stay together, and clusters separate at a gap. With ``groups`` there is no
    threshold: average linkage of the distances √n d yields disjoint groups (the authors group the rows of A).

    Differences from the authors' code: it compares centers in two dimensions, by UMAP, which is
    ``reduce=umap.UMAP(random_state=0).fit_transform`` here, and trains a convolutional autoencoder on other, public
    data and fine-tunes it at the nodes; here no encoder is trained.

    Given edges define which nodes may be connected; by default all may. Tasks are then compared within connected
    components only, which need a reverse path for every edge, and the gap is searched among the pairs that may be
    connected; groups use all distances within a component. A node without neighbors sends nothing. A node that joins
    later sends its centers in its first round, the server compares all tasks anew, and the node has neighbors from the
    next round on; the server also compares anew without a node that was isolated. A later phase starts with its own
    comparison.

    Without an encoder, the disclosed values are means of raw samples. They show what a node's samples look like on
    average.

    Args:
        encoder: A module or function from samples [n, ...] to codes [n, D]. A module is copied, in evaluation mode, and
            its parameters and buffers are counted as sent; a function is not counted, since its size is unknown.
            Default: samples are their own codes.
        centers: Centers per node. Default: as in ``code_centers``.
        reduce: Transform that the server applies to all centers before the comparison: ``"pca"`` (two principal
            components) or a function of a NumPy array [n, D], in ascending order of ``node_id``, that returns one
            [n, D'].
        threshold: Nodes with a smaller d are connected. Default: ``window`` decides.
        window: Range of r that contains the threshold; see above. Twice the same number is a threshold by itself.
        groups: Number of disjoint groups, in every connected component, instead of a threshold.
        also: A further rewiring, for example `SampleNodes`.

    Raises:
        ValueError: If both a threshold and groups are given, there are fewer nodes than groups, no node has two
            centers and no threshold was given, or a given edge has no reverse path; and between sites, if there is no
            encoder and a center is a sample.
    """

    keeps: ClassVar[tuple[Field, ...]] = (Field("coded", "per_node", "who has sent its centers"),)
    travels: ClassVar[str] = "an encoder down and cluster centers of codes up, once"
    told: ClassVar[Readers] = {"everybody": "cluster centers of the codes of its training samples, once"}
    beyond_edges: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    encoder: Encoder | None = None
    centers: Count | None = None
    reduce: Reduce | None = None
    threshold: Annotated[float, Real(above=0, infinite=True)] | None = None
    window: tuple[Positive, Positive] = (0.55, 0.85)
    groups: Count | None = None
    also: Rewiring = field(default_factory=Rewiring)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window[0] > self.window[1]:
            raise InvalidValueError("window", f"window must be two numbers, the smaller one first, got {self.window!r}")
        if self.groups is not None and self.threshold is not None:
            raise ConflictError(
                "threshold", f"groups={self.groups} needs no threshold, got {self.threshold}: leave one of the two out"
            )
        if isinstance(self.encoder, nn.Module):
            object.__setattr__(self, "encoder", copy.deepcopy(self.encoder).eval())

    def init(self, data: Data, env: Env) -> Data:
        require_both_ways(data, env, "tasks are compared for both nodes of a pair", by_path=True)
        many = int((data.present & ~data.isolated).sum())
        if self.groups is not None and self.groups > many:
            raise TooManyError("groups", f"groups={self.groups} were asked for, but there are only {many} nodes")
        data = updated(data, coded=torch.zeros_like(data.isolated))
        return self._connect(self.also.init(data, env), env, data.present)

    def __call__(self, data: Data, env: Env) -> Data:
        data = self.also(data, env)
        there = data.coded if env.participation is None else env.participation.members(data, data.round)
        known = (data.coded | there) & ~data.isolated
        return data if torch.equal(known, data.coded) else self._connect(data, env, there)

    def near_newcomers(self, data: Data, new: Data, env: Env, both: Env, edge_index: Tensor) -> Tensor:
        """Return edges between similar tasks; old and new nodes are compared together."""
        count, together = data.num_nodes, both.engine.tasks
        nodes = torch.cat([(~data.isolated).nonzero().flatten(), count + torch.arange(new.num_nodes)])
        nodes = nodes[together.ids[nodes].argsort()]
        may = torch.zeros(together.num_nodes, together.num_nodes, dtype=torch.bool)
        may[:count, :count] = _may_hear(data, torch.arange(count))
        may[edge_index[1] + count, edge_index[0]] = True
        may = may[nodes][:, nodes]
        near = torch.zeros(together.num_nodes, together.num_nodes, dtype=torch.bool)
        distances = center_distances(self._centers(together, nodes, env.seed), self.reduce)
        near[nodes[:, None], nodes] = self._near(*distances, may | may.T).cpu()
        return near[edge_index[1] + count, edge_index[0]]

    def distances(self, tasks: Tasks, seed: Seed = 0) -> tuple[Tensor, Tensor, float]:
        """Return √n d, d and the distance between a node's own centers, which make up r: to tune a threshold."""
        order = tasks.ids.argsort()
        place = order.argsort().cpu()
        distance, published, spacing = center_distances(self._centers(tasks, order, seed), self.reduce)
        return distance[place][:, place], published[place][:, place], spacing

    def _centers(self, tasks: Tasks, nodes: Tensor, seed: int) -> Tensor:
        return code_centers(tasks.select(nodes), self.encoder, self.centers, seed)

    def _connect(self, data: Data, env: Env, there: Tensor) -> Data:
        """Return the graph with edges between similar tasks of nodes that are present, or were before, [K]."""
        known = (data.coded | there) & ~data.isolated
        part = without_the_alone(components(data))
        nodes = (known & (part >= 0)).nonzero().flatten()
        nodes = nodes[data.node_id[nodes].argsort()]
        edges = [data.edge_index[:, :0]]
        if len(nodes):
            own = env.plane.local(nodes)
            some = own if len(own) else env.plane.own[:1]  # defines the shape of results that other processes find
            found = self._centers(env.engine.tasks, some, env.seed)[: len(own)]
            if env.plane.cross_silo and self.encoder is None:
                _refuse_samples(env.engine.tasks, own, found)
            most = self._most(found.shape[1], env)
            found = nn.functional.pad(found, (0, 0, 0, most - found.shape[1]), value=torch.nan)
            centers = gather_values(env.plane, found, own, nodes)
            state = self.encoder.state_dict().values() if isinstance(self.encoder, nn.Module) else ()
            down = sum(tensor.numel() for tensor in state if tensor.is_floating_point())
            floats = (~centers.isnan()).flatten(1).sum(1).cpu() + down
            new = ~data.coded[nodes]
            data = env.plane.charge(data, nodes[new], floats[new])
        for p in part[nodes].unique():
            some = (part[nodes] == p).nonzero().flatten()
            may = _may_hear(data, nodes[some])
            near = self._near(*center_distances(centers[some.to(centers.device)], self.reduce), may | may.T)
            edges.append(nodes[some][(near.cpu() & may).nonzero().T.flip(0)])
        data = connect(data, torch.cat(edges, 1))
        data.coded = known
        return data

    def _most(self, here: int, env: Env) -> int:
        """Return the largest number of centers of a node over all processes: ``here`` in this one."""
        tasks = env.engine.tasks
        samples = int(tasks.sizes("train").max())  # a sample is in one cluster
        limit = samples if self.centers is None else min(self.centers, samples)
        (told,) = env.plane.all_gather(env.plane.local_values(torch.full((tasks.num_nodes,), here)))
        if len(more := (told > limit).nonzero().flatten()):
            node = int(more[0])
            raise TooManyError(
                f"node {tasks.names[node]!r}",
                f"{tasks.names[node]} says that it has {int(told[node])} cluster centers, expected at most {limit}",
            )
        return int(told.max())

    def _near(self, distance: Tensor, published: Tensor, spacing: float, pairs: Tensor) -> Tensor:
        """Return which tasks are similar, A [n, n]; the gap is searched among ``pairs`` [n, n]."""
        count = len(distance)
        if self.groups is not None:
            group = _groups(distance, min(self.groups, count))
            return group[:, None] == group
        if self.threshold is not None:
            return published < self.threshold
        if not spacing > 0 and count > 1:
            raise TooFewError(
                "centers",
                "no node has two different centers to measure by: give threshold=..., groups=... or centers=2",
            )
        ratio = distance / spacing
        first, second = torch.triu_indices(count, count, 1)
        looked_at = pairs[first, second]
        return ratio < _widest_gap(ratio[first, second][looked_at], *self.window)


def _refuse_samples(tasks: Tasks, nodes: Tensor, centers: Tensor) -> None:
    """Check that no center, [n, C, D], that a party would publish is one of its nodes' training samples."""
    split = tasks.splits["train"]
    for node, own in zip(nodes.tolist(), centers, strict=True):
        samples = tasks.pools[split.pool].inputs[split.of(node)].flatten(1).double().cpu()
        equal = torch.isclose(own[:, None, : samples.shape[1]], samples).all(2).any(1)
        if bool(equal.any()):
            raise ConflictError(
                "encoder",
                f"a cluster center of {tasks.names[node]}, which all sites are told, is one of its training samples: "
                "give encoder=..., or fewer centers=...",
            )


def _may_hear(data: Data, nodes: Tensor) -> Tensor:
    """Return which of the nodes may hear which others, receivers in rows, [n, n]."""
    count, there = len(nodes), ~data.isolated[nodes]
    may = torch.ones(count, count, dtype=torch.bool).fill_diagonal_(False)
    if "allowed" in data:
        place = torch.full_like(data.node_id, -1).index_copy_(0, nodes, torch.arange(count))
        sender, receiver = place[data.allowed.edge_index]
        inside = (sender >= 0) & (receiver >= 0)
        may = torch.zeros_like(may).index_put_((receiver[inside], sender[inside]), may.new_ones(()))
    return may & there & there[:, None]


def _widest_gap(values: Tensor, low: float, high: float) -> float:
    inside = values[(values > low) & (values < high)].sort().values
    marks = torch.cat([values.new_tensor([low]), inside, values.new_tensor([high])])
    widest = int(marks.diff().argmax())
    return float(marks[widest : widest + 2].mean())


def _groups(distance: Tensor, count: int) -> Tensor:
    """Return groups by average linkage, [K]."""
    from scipy.cluster.hierarchy import fcluster, linkage  # imported here, since it is slow to import
    from scipy.spatial.distance import squareform

    if len(distance) == 1:
        return torch.ones(1, dtype=torch.int64)
    return torch.from_numpy(fcluster(linkage(squareform(distance.numpy()), "average"), count, "maxclust")).long()
