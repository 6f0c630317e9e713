"""`Tasks`: the private data of all nodes, with the loss and the metric they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Unpack, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from graphcollab.settings import Real, Seed, SettingError, check_setting, check_settings, checked
from graphcollab.tasks.samples import Pool, Split, hold_out

__all__ = ["Samples", "TaskFields", "Tasks"]

Samples = tuple[Any, Any] | list[Any] | Dataset[Any]
"""A node's samples: a pair (inputs, targets) of arrays or tensors, or a torch ``Dataset`` of such pairs."""
_OF_A_NODE = "a pair (inputs, targets) of arrays or tensors, or a torch Dataset of such pairs"
Every: TypeAlias = Annotated[Sequence[Samples], f"{_OF_A_NODE}, for every node"]
Names: TypeAlias = Annotated[Iterable[object], "a sequence of names"]
AnyLoss: TypeAlias = Literal["cross_entropy", "mse", "bce"] | Callable[..., Any]
AnyMetric: TypeAlias = (
    Literal["accuracy", "auc", "brier", "ece", "log_loss", "mae", "mse", "r2", "rmse"] | Callable[..., Any]
)


class TaskFields(TypedDict, total=False):
    """What every builder takes besides its own arguments, see `Tasks`."""

    names: Names | None
    loss: AnyLoss
    metric: AnyMetric
    node_id: Tensor | None


def _pair(samples: Samples, who: str) -> tuple[Tensor, Tensor]:
    """Turn a node's samples into two tensors: float32 inputs (whole numbers stay), int64 or float32 targets."""
    if isinstance(samples, Dataset):
        size = len(cast(Sized, samples))
        if size == 0:
            raise ValueError(f"{who} has an empty dataset: every node needs training samples")
        pair = next(iter(DataLoader(samples, batch_size=size, generator=torch.Generator())))
        if len(pair) != 2:
            raise ValueError(f"{who}: a dataset must yield pairs (input, target), got {len(pair)} values")
    else:
        pair = samples
    try:
        inputs, targets = (torch.as_tensor(np.asarray(v) if isinstance(v, list) else v) for v in pair)
        sizes = len(inputs), len(targets)
    except (TypeError, ValueError, RuntimeError) as error:  # numbers, text, lists of unequal lengths
        raise SettingError(who, _OF_A_NODE, samples) from error
    if sizes[0] != sizes[1]:
        raise ValueError(f"{who} has {sizes[0]} inputs and {sizes[1]} targets: each input needs one target")
    if inputs.is_floating_point() or inputs.dtype == torch.uint8:
        inputs = inputs.float()
    targets = targets.float() if targets.is_floating_point() else targets.long()
    return inputs, targets


@dataclass(frozen=True)
class Tasks:
    """What the nodes own: samples by index, split into training, validation and test, and how they are judged.

    Args:
        pools: Samples, each stored once.
        splits: ``"train"``, and where there are such ``"val"`` and ``"test"``: who uses which samples.
        names: A name for every node, used in messages and pictures. Default: ``node 0``, ``node 1``, …
        loss: ``"cross_entropy"``, ``"mse"``, ``"bce"``, or a function ``(outputs, targets) -> scalar`` of one node's
            batch.
        metric: A name from ``graphcollab.metrics.METRICS``, such as ``"accuracy"``, ``"auc"``, ``"brier"`` or
            ``"mae"``, a ``graphcollab.metrics.Metric``, or a function ``(outputs, targets) -> number`` of one node's
            samples with an attribute ``higher_is_better`` (True or False), as those of torchmetrics have.
        node_id: Stable identity of every node, [K]; all randomness is keyed by it. Default: 0, 1, …
        cluster: True cluster of every node where it is known, [K].

    Raises:
        ValueError: If a node has no training samples, an index is outside its pool, names are not one per node, two
            nodes have the same ``node_id``, or a function as metric does not say which way it goes.

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

    def __post_init__(self) -> None:
        given = () if self.names is None else check_setting("names", Names, self.names)
        object.__setattr__(self, "names", tuple(map(str, given)))
        check_settings(self)
        if callable(self.metric) and getattr(self.metric, "higher_is_better", None) is None:
            name = getattr(self.metric, "__name__", type(self.metric).__name__)
            raise ValueError(
                f"metric {name} is a function that does not say whether larger values are better ones: give "
                f"graphcollab.metrics.Metric.per_node({name!r}, higher_is_better, function), or set the function's "
                "attribute higher_is_better to True or False"
            )
        if "train" not in self.splits:
            raise ValueError(f"tasks need a split 'train', got {sorted(self.splits)}")
        count = self.splits["train"].num_nodes
        if count == 0:
            raise ValueError("tasks need at least one node, got none")
        if not self.names:
            object.__setattr__(self, "names", tuple(f"node {k}" for k in range(count)))
        if self.node_id is None:
            object.__setattr__(self, "node_id", torch.arange(count))
        for name, value in (("node_id", self.node_id), ("cluster", self.cluster)):
            if value is not None and (value.shape != (count,) or value.is_floating_point()):
                raise SettingError(name, f"a whole number for each of the {count} nodes, [{count}]", value)
        if len(self.names) != count or len(self.ids) != count:
            raise ValueError(f"{count} nodes have {len(self.names)} names and {len(self.ids)} ids: one each is needed")
        if len(set(self.names)) != count:
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"two nodes have the name {twice!r}: names tell nodes apart and must differ")
        if len(self.ids.unique()) != count:
            raise ValueError("two nodes have the same node_id: it is a node's identity and must be unique")
        for name, split in self.splits.items():
            if split.num_nodes != count:
                raise ValueError(f"split {name!r} is for {split.num_nodes} nodes, split 'train' for {count}")
            if split.pool not in self.pools:
                raise ValueError(f"split {name!r} uses pool {split.pool!r}, the pools are {sorted(self.pools)}")
            size = len(self.pools[split.pool])
            if len(split.index) and not 0 <= int(split.index.min()) <= int(split.index.max()) < size:
                raise ValueError(
                    f"split {name!r} has sample indices from {int(split.index.min())} to {int(split.index.max())}, "
                    f"its pool {split.pool!r} holds 0 to {size - 1}"
                )
        empty = (self.sizes("train") == 0).nonzero().flatten().tolist()
        if empty:
            raise ValueError(f"{self._who(empty)} without training samples: leave such nodes out or give them data")

    @classmethod
    @checked
    def from_samples(
        cls,
        train: Every,
        val: Every | None = None,
        test: Every | None = None,
        *,
        val_fraction: Annotated[float, Real(least=0, below=1)] = 0.2,
        seed: Seed = 0,
        stratify: bool = True,
        cluster: Tensor | None = None,
        **kwargs: Unpack[TaskFields],
    ) -> Tasks:
        """Build tasks from every node's own arrays or datasets.

        Args:
            train: One pair (inputs, targets) or torch ``Dataset`` per node.
            val: Validation samples per node. Default: ``val_fraction`` of the training samples, drawn at random.
            test: Test samples per node, if there are any.
            val_fraction: Share of training samples set aside for validation when ``val`` is not given.
            seed: Seed of that draw.
            stratify: Whether it holds out some of every class; see `hold_out`.
            cluster: True cluster of every node where it is known, [K].
            kwargs: ``names``, ``loss``, ``metric``, ``node_id``.
        """
        if not len(train):
            raise ValueError("tasks need at least one node, got none")
        pools, splits = {}, {}
        named = kwargs.get("names")
        given = () if named is None else tuple(map(str, named))
        names = given or [f"node {k}" for k in range(len(train))]
        if len(names) != len(train):
            raise ValueError(f"{len(train)} nodes have {len(names)} names: one each is needed")
        for name, samples in (("train", train), ("val", val), ("test", test)):
            if samples is None:
                continue
            if len(samples) != len(train):
                raise ValueError(f"{name!r} has samples for {len(samples)} nodes, 'train' for {len(train)}")
            pairs = [_pair(s, f"{who} ({name})") for s, who in zip(samples, names, strict=True)]
            shapes = {tuple(x.shape[1:]) for x, _ in pairs}
            if len(shapes) > 1:
                raise ValueError(f"nodes' inputs have different shapes {sorted(shapes)}: bring them to one shape first")
            bounds = torch.tensor([0, *(len(x) for x, _ in pairs)]).cumsum(0)
            pools[name] = Pool(torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs]))
            splits[name] = Split(name, torch.arange(int(bounds[-1])), bounds)
        tasks = cls(pools, splits, **cast(Any, {**kwargs, "names": given, "cluster": cluster}))
        return tasks if val is not None else tasks.hold_out(val_fraction, seed, stratify)

    @property
    def ids(self) -> Tensor:
        """``node_id`` [K]."""
        return cast(Tensor, self.node_id)  # set when tasks are made

    @property
    def num_nodes(self) -> int:
        """K."""
        return self.splits["train"].num_nodes

    @property
    def device(self) -> torch.device:
        """Device of the samples; who owns which of them is known on the CPU."""
        return self.pools[self.splits["train"].pool].inputs.device

    @property
    def classes(self) -> Tensor | None:
        """Which classes occur among every node's training samples, [K, C] bool; None unless labels are integers."""
        split = self.splits["train"]
        targets = self.pools[split.pool].targets.cpu()
        if targets.is_floating_point() or targets.dim() > 1:
            return None
        count = 1 + int(max(int(pool.targets.max()) for pool in self.pools.values() if len(pool)))
        owner = torch.repeat_interleave(torch.arange(self.num_nodes), split.sizes)
        out = torch.zeros(self.num_nodes, count, dtype=torch.bool)
        out[owner, targets[split.index]] = True
        return out

    def sizes(self, split: str) -> Tensor:
        """Samples of every node in a split, [K]; zeros where there is no such split."""
        if split in self.splits:
            return self.splits[split].sizes
        return torch.zeros(self.num_nodes, dtype=torch.int64)

    def require_cluster(self) -> Tensor:
        """Return every node's true cluster, [K], numbered from 0; a ValueError where they are not known."""
        if self.cluster is None:
            raise ValueError(
                "an oracle needs the nodes' true clusters, and these tasks have none: give Tasks(..., cluster=...)"
            )
        return self.cluster.unique(return_inverse=True)[1]

    @checked
    def hold_out(
        self, fraction: Annotated[float, Real(least=0, below=1)] = 0.2, seed: Seed = 0, stratify: bool = True
    ) -> Tasks:
        """Set a random share of every node's training samples aside for validation (at least one of two or more).

        Where samples have one label each, whole numbers or zeros and ones of any type, every class of a node is held
        out in proportion: at least one sample of each class that has several, as far as the node's total allows it, and
        never all. Without ``stratify`` samples are drawn without regard to classes.
        """
        split = self.splits["train"]
        targets = self.pools[split.pool].targets.cpu()
        labels = _labels(targets) if stratify else None
        train, val = hold_out(split, self.ids, fraction, seed, None if labels is None else labels[split.index])
        return replace(self, splits={**self.splits, "train": train, "val": val})

    def require(self, split: str, why: str) -> None:
        """Check that every node has samples in a split; else a ValueError names those that do not, and says why."""
        missing = (self.sizes(split) == 0).nonzero().flatten().tolist()
        if missing:
            raise ValueError(f"{self._who(missing)} without {split!r} samples, which {why}")

    def _who(self, nodes: Sequence[int]) -> str:
        shown = ", ".join(repr(self.names[k]) for k in nodes[:3]) + (", …" if len(nodes) > 3 else "")
        return f"{len(nodes)} node{'s are' if len(nodes) > 1 else ' is'} ({shown})"

    def select(self, nodes: Tensor | Sequence[int]) -> Tasks:
        """Return the tasks of some nodes, in the order given; samples stay stored once."""
        nodes = torch.as_tensor(nodes).long().cpu()
        return replace(
            self,
            splits={name: split.select(nodes) for name, split in self.splits.items()},
            names=tuple(self.names[k] for k in nodes.tolist()),
            node_id=self.ids[nodes],
            cluster=None if self.cluster is None else self.cluster[nodes],
        )

    def to(self, device: torch.device | str) -> Tasks:
        """Move all samples to a device; indices stay on the CPU."""
        return replace(self, pools={name: pool.to(device) for name, pool in self.pools.items()})


def _labels(targets: Tensor) -> Tensor | None:
    """Return class labels [N] of targets [N] or [N, 1]; None of other real values, or of several each."""
    if targets.numel() != len(targets):
        return None
    values = targets.reshape(-1)
    if not values.is_floating_point():
        return values
    return values.long() if bool(((values == 0) | (values == 1)).all()) else None
