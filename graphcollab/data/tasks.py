"""`Tasks`: the private data of all nodes, with their loss and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

import torch
from torch import Tensor

from graphcollab._base.errors import (
    ConflictError,
    ContractError,
    DuplicateError,
    EmptyError,
    MismatchError,
    MissingError,
    ShapeError,
)
from graphcollab._base.findings import Finding
from graphcollab._base.naming import Node, few, find_nodes, setting
from graphcollab._base.settings import Positive, Seed, SettingError, check_setting, check_settings, checked
from graphcollab.data._builders import AnyLoss, AnyMetric, Builders, Names, Part
from graphcollab.data._pairs import strata
from graphcollab.data.losses import predicted_by
from graphcollab.data.metric_fit import refuse_misfit
from graphcollab.data.preparation import Preparation
from graphcollab.data.samples import ELSEWHERE, Pool, Split, check_splits, hold_out


@dataclass(frozen=True)
class Tasks(Builders):
    """The data of all nodes: samples by index, split into training, validation and test, with loss and metric.

    Args:
        pools: Samples, each stored once, with optional weights.
        splits: Samples of every node in ``"train"`` and, if present, ``"val"`` and ``"test"``.
        names: Name of every node, used in messages and figures. Default: ``node 0``, ``node 1``, …
        loss: ``"cross_entropy"``, ``"mse"``, ``"bce"``, ``"poisson"`` (outputs are log rates), ``"cox"`` (outputs are
            log hazard ratios; targets are times and event indicators, [N, 2]), or a function
            ``(outputs, targets) -> scalar`` of one node's batch. Weighted samples need a per-sample loss,
            ``graphcollab.engine.Loss(function, per_sample=True)``.
        metric: A name from ``graphcollab.analysis.metrics.METRICS``, such as ``"auc"`` or ``"mae"``, a
            `Metric`, or a function ``(outputs, targets) -> number`` of one node's samples with an attribute
            ``higher_is_better``, as torchmetrics' have, and ``weighted`` if it also accepts weights.
        node_id: Stable identity of every node, [K]; all randomness is keyed by it. Default: 0, 1, …
        cluster: True cluster of every node, [K], if known.
        preparation: The transformation of table rows to samples, if any.
        split_given: Whether the test samples were given rather than drawn; `graphcollab.benefit` does not redraw given
            ones.
        told: Classes among a node's training samples (with sites: among those that may be used for training), [K, C],
            if some samples are in other processes.
        scale: Unit of the rates with ``loss="poisson"``: the rate is ``scale * exp(output)``. ``from_frame`` sets it to
            the mean count, so that usual learning rates work.
        class_weight: Loss weight of a sample by its class, with ``"cross_entropy"`` and ``"bce"``; metrics ignore it.
            Default: equal weights.
        findings: Warnings about the samples issued when the tasks were built from a table.

    Raises:
        ValueError: If a node has no training samples, or no positive weight in some split, an index is out of range for
            its pool, the number of names differs from the number of nodes, two nodes have the same ``node_id``, a
            classification metric is used with real targets or the other way round, or a metric function does not say
            whether higher is better.

    Example:
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> tasks = Tasks.from_samples([(x[:8], y[:8]), (x[8:], y[8:])], names=["north", "south"])
        >>> tasks.num_nodes, tasks.sizes("train").tolist(), tasks.sizes("val").tolist()
        (2, [6, 10], [2, 2])
    """

    pools: Mapping[str, Pool] = field(repr=False)
    splits: Mapping[str, Split] = field(repr=False)
    names: tuple[str, ...] = ()
    loss: AnyLoss = "cross_entropy"
    metric: AnyMetric = "accuracy"
    node_id: Tensor | None = field(default=None, repr=False)
    cluster: Tensor | None = field(default=None, repr=False)
    preparation: Preparation | None = field(default=None, repr=False)
    split_given: bool = field(default=False, repr=False)
    told: Tensor | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    scale: Positive = field(default=1.0, repr=False)
    class_weight: tuple[Positive, ...] = ()

    def __post_init__(self) -> None:
        given = () if self.names is None else check_setting("names", Names, self.names)
        object.__setattr__(self, "names", tuple(map(str, given)))
        check_settings(self)
        if callable(self.metric) and getattr(self.metric, "higher_is_better", None) is None:
            name = getattr(self.metric, "__name__", type(self.metric).__name__)
            raise ContractError(
                "metric", f"metric {name} must say whether larger is better: set its attribute higher_is_better"
            )
        if isinstance(self.loss, type):
            raise SettingError(
                "loss", f"a name, or a function of outputs and targets such as {self.loss.__name__}()", self.loss
            )
        if "train" not in self.splits:
            raise MissingError("splits", f"tasks need a split 'train', got {sorted(self.splits)}")
        count = self.splits["train"].num_nodes
        if count == 0:
            raise EmptyError("splits", "tasks need at least one node, got none")
        if not self.names:
            object.__setattr__(self, "names", tuple(f"node {k}" for k in range(count)))
        if self.node_id is None:
            object.__setattr__(self, "node_id", torch.arange(count))
        for name, value in (("node_id", self.node_id), ("cluster", self.cluster)):
            if value is not None and (value.shape != (count,) or value.is_floating_point()):
                raise SettingError(name, f"a whole number for each of the {count} nodes, [{count}]", value)
        if len(self.names) != count or len(self.ids) != count:
            raise MismatchError(
                "names", f"{count} nodes have {len(self.names)} names and {len(self.ids)} ids: one each is needed"
            )
        if len(set(self.names)) != count:
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DuplicateError("names", f"two nodes have the name {twice!r}: names tell nodes apart and must differ")
        if len(self.ids.unique()) != count:
            raise DuplicateError(
                "node_id", "two nodes have the same node_id: it is a node's identity and must be unique"
            )
        check_splits(self.splits, self.pools)
        shape = tuple(self.pools[self.splits["train"].pool].targets.shape[1:])
        if self.loss == "cox" and shape != (2,):
            raise ShapeError(
                "targets", f"loss='cox' needs targets [N, 2], times and 1 or 0 for an event seen, got {['N', *shape]}"
            )
        if self.loss == "cox" and self.weighted:
            raise ConflictError(
                "weight", "loss='cox' compares the samples of a batch, and takes no weights of them: leave them out"
            )
        if self.class_weight and predicted_by(self.loss) != "classes":
            raise ConflictError(
                "class_weight",
                "class_weight= goes with loss='cross_entropy' and 'bce' alone: weigh classes in the loss",
            )
        if isinstance(self.metric, str):
            refuse_misfit(self.metric, self.loss, self.pools[self.splits["train"].pool].targets)
        empty = (self.sizes("train") == 0).nonzero().flatten().tolist()
        if empty:
            raise EmptyError(
                f"node {self.names[empty[0]]!r}",
                f"{self._who(empty)} without training samples: leave such nodes out or give them data",
            )
        for name, mean in self.mean_weight.items():
            nothing = (mean == 0).nonzero().flatten().tolist()
            if nothing:
                raise EmptyError(
                    f"node {self.names[nothing[0]]!r}",
                    f"{self._who(nothing)} without {name!r} samples whose weight is above 0: leave such nodes out",
                )

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.names[:3])) + (", …" if self.num_nodes > 3 else "")
        samples = ", ".join(f"{name}={len(split.index)}" for name, split in self.splits.items())
        judged = f"loss={self.loss!r}, metric={self.metric!r}{', weighted samples' if self.weighted else ''}"
        return f"Tasks({self.num_nodes} nodes ({shown}), {samples}, {judged})"

    @property
    def ids(self) -> Tensor:
        """``node_id``, [K]."""
        return cast(Tensor, self.node_id)  # set in __post_init__

    @property
    def num_nodes(self) -> int:
        """The number of nodes, K."""
        return self.splits["train"].num_nodes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input sample."""
        return tuple(self.pools[self.splits["train"].pool].inputs.shape[1:])

    @property
    def device(self) -> torch.device:
        """Device of the samples; the split indices are on the CPU."""
        return self.pools[self.splits["train"].pool].inputs.device

    @property
    def weighted(self) -> bool:
        """Whether samples have weights."""
        return bool(self.mean_weight)

    @cached_property
    def mean_weight(self) -> Mapping[str, Tensor]:
        """Mean sample weight of every node, [K] float64, by split with weights; NaN for nodes without samples."""
        with_weights = ((name, split, self.pools[split.pool].weight) for name, split in self.splits.items())
        return {n: split.totals(w.double().cpu()) / split.sizes for n, split, w in with_weights if w is not None}

    @cached_property
    def classes(self) -> Tensor | None:
        """Classes that occur among every node's training samples, [K, C] bool; None unless labels are integers.

        Negative labels, which losses may ignore, do not count as classes.
        """
        split = self.splits["train"]
        targets = self.pools[split.pool].targets.cpu()
        if self.told is not None and bool(self.elsewhere.any()):
            return self.told
        if targets.is_floating_point() or targets.dim() > 1:
            return None
        count = 1 + int(max(int(pool.targets.max()) for pool in self.pools.values() if len(pool)))
        owner, targets = split.owner, targets[split.index]
        out = torch.zeros(self.num_nodes, count, dtype=torch.bool)
        out[owner[targets >= 0], targets[targets >= 0]] = True
        return out

    def sizes(self, split: str) -> Tensor:
        """Return the number of samples of every node in a split, [K]; zeros if the split does not exist."""
        if split in self.splits:
            return self.splits[split].sizes
        return torch.zeros(self.num_nodes, dtype=torch.int64)

    def of(self, node: int, *splits: str) -> Pool:
        """Return a copy of a node's samples in some splits, by its position."""
        parts = []
        for split in (self.splits[name] for name in splits):
            pool, index = self.pools[split.pool], split.of(node)
            weight, group = (None if one is None else one[index] for one in (pool.weight, pool.group))
            parts.append(Pool(pool.inputs[index], pool.targets[index], weight, group))
        return Pool.joined(parts)

    def require_cluster(self) -> Tensor:
        """Return every node's true cluster, [K], numbered from 0; raise a ValueError if clusters are unknown."""
        if self.cluster is None:
            raise MissingError(
                "cluster", "an oracle needs the nodes' true clusters, and these tasks have none: give cluster="
            )
        return self.cluster.unique(return_inverse=True)[1]

    @checked
    def hold_out(
        self, fraction: Part = 0.2, seed: Seed = 0, stratify: bool = True, into: Literal["val", "test"] = "val"
    ) -> Tasks:
        """Set aside a random share of every node's training samples for validation or testing.

        At least one sample is set aside from two or more. If every sample has one label, an integer or a zero or one of
        any type, the split is stratified: at least one sample of each class that has several is held out, as far as the
        node's total allows, and never all of them. With ``stratify=False``, classes are ignored. If samples have
        groups, whole groups are drawn.
        """
        self.require_here(torch.arange(self.num_nodes), ": set them aside before tasks are shared")
        split = self.splits["train"]
        pool = self.pools[split.pool]
        labels = strata(pool.targets.cpu(), self.loss) if stratify else None
        kinds, group = (None if one is None else one[split.index] for one in (labels, pool.group))
        train, held = hold_out(split, self.ids, fraction, seed, kinds, into, group)
        return replace(self, splits={**self.splits, "train": train, into: held})

    def require(self, split: str, why: str) -> None:
        """Check that every node has samples in a split; otherwise a ValueError names those without, with the reason."""
        missing = (self.sizes(split) == 0).nonzero().flatten().tolist()
        if missing:
            cure = ""
            if len(missing) == self.num_nodes and split in ("val", "test"):
                held = "tasks.hold_out()" if split == "val" else 'tasks.hold_out(into="test")'
                cure = (
                    f": {held if self.preparation is None else setting(**{f'{split}_fraction': 0.2})} sets some aside"
                )
            raise EmptyError(f"split {split!r}", f"{self._who(missing)} without {split!r} samples, which {why}{cure}")

    def _who(self, nodes: Sequence[int]) -> str:
        what = "node" if self.preparation is None else "site"  # as tables call them
        shown = few([repr(self.names[k]) for k in nodes])
        return f"{len(nodes)} {what}{'s' if len(nodes) > 1 else ''} ({shown}) {'are' if len(nodes) > 1 else 'is'}"

    def select(self, nodes: Tensor | Sequence[Node]) -> Tasks:
        """Return the tasks of the given nodes, by name or position, in the given order; samples stay stored once.

        In a list, numbers are names if all names are whole numbers (`Node`); in a tensor they are always positions.
        """
        nodes = torch.as_tensor(nodes if isinstance(nodes, Tensor) else find_nodes(nodes, self.names)).long().cpu()
        splits = {name: split.select(nodes) for name, split in self.splits.items()}
        cluster, told = (None if one is None else one[nodes] for one in (self.cluster, self.told))
        names = tuple(self.names[k] for k in nodes.tolist())
        return replace(self, splits=splits, names=names, node_id=self.ids[nodes], cluster=cluster, told=told)

    @cached_property
    def elsewhere(self) -> Tensor:
        """Mask of the nodes with samples in other processes (`share`), [K]."""
        return torch.stack([split.elsewhere for split in self.splits.values()]).any(0)

    def require_here(self, nodes: Tensor, why: str = "") -> None:
        """Check that all samples of nodes [k] are in this process; otherwise a ValueError names them and the reason."""
        if lacking := [repr(self.names[k]) for k in nodes[self.elsewhere[nodes]].tolist()]:
            raise MissingError("tasks", f"samples of {few(lacking)} are not in this process{why}")

    def share(self, nodes: Tensor, device: torch.device | str = "cpu") -> Tasks:
        """Return the tasks with only the samples of the given nodes [k], on a device.

        For the other nodes, the number of samples and their classes remain known. Raises a ValueError if these tasks
        are already a share and lack some of the samples.
        """
        self.require_here(nodes)
        splits, pools = dict(self.splits), dict(self.pools)
        for name, pool in self.pools.items():
            mine = {key: split for key, split in splits.items() if split.pool == name}
            kept = torch.cat([nodes[:0], *(split.select(nodes).index for split in mine.values())]).unique()
            place = torch.full((len(pool),), ELSEWHERE).index_copy(0, kept, torch.arange(len(kept)))
            for key, split in mine.items():
                owned = torch.zeros(self.num_nodes, dtype=torch.bool).index_fill(0, nodes, True)
                own = owned.repeat_interleave(split.sizes)
                index = torch.full_like(split.index, ELSEWHERE).masked_scatter(own, place[split.index[own]])
                splits[key] = replace(split, index=index)
            pools[name] = pool.take(kept).to(device)
        return replace(self, pools=pools, splits=splits, told=self.classes)

    def to(self, device: torch.device | str) -> Tasks:
        """Move all samples to a device; the indices stay on the CPU."""
        return replace(self, pools={name: pool.to(device) for name, pool in self.pools.items()})
