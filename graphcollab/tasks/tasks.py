"""`Tasks`: the private data of all nodes, with the loss and the metric they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Unpack, cast

import torch
from torch import Tensor

from graphcollab.naming import Node, find_nodes
from graphcollab.settings import Real, Seed, SettingError, check_setting, check_settings, checked
from graphcollab.tasks._pairs import Every, class_labels, gathered, to_tensors
from graphcollab.tasks._sites import SAMPLES, divide, find_sites
from graphcollab.tasks.samples import Pool, Split, hold_out

__all__ = ["TaskFields", "Tasks"]

Names: TypeAlias = Annotated[Iterable[object], "a sequence of names"]
AnyLoss: TypeAlias = Literal["cross_entropy", "mse", "bce"] | Callable[..., Any]
AnyMetric: TypeAlias = (
    Literal["accuracy", "auc", "brier", "ece", "log_loss", "mae", "mse", "r2", "rmse"] | Callable[..., Any]
)
Part: TypeAlias = Annotated[float, Real(least=0, below=1)]


class TaskFields(TypedDict, total=False):
    """What every builder takes besides its own arguments, see `Tasks`."""

    names: Names | None
    loss: AnyLoss
    metric: AnyMetric
    node_id: Tensor | None


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
        val_fraction: Part = 0.2,
        seed: Seed = 0,
        stratify: bool = True,
        cluster: Tensor | None = None,
        **kwargs: Unpack[TaskFields],
    ) -> Tasks:
        """Build tasks from every node's own arrays or datasets.

        Args:
            train: One pair (inputs, targets) or torch ``Dataset`` per node. In a dict by name the order does not
                matter: nodes are sorted by name, and what is random about a node follows from its name. In a list
                it follows from the node's place, also where nodes have ``names``.
            val: Validation samples per node, given like ``train``. Default: ``val_fraction`` of the training samples,
                drawn at random.
            test: Test samples per node, if there are any.
            val_fraction: Share of training samples set aside for validation when ``val`` is not given.
            seed: Seed of that draw.
            stratify: Whether it holds out some of every class; see `hold_out`.
            cluster: True cluster of every node where it is known, [K], in the order of ``train``.
            kwargs: ``names``, ``loss``, ``metric``, ``node_id``.
        """
        pools, splits, about = gathered(train, val, test, {**kwargs, "cluster": cluster})
        tasks = cls(pools, splits, **about)
        return tasks if val is not None else tasks.hold_out(val_fraction, seed, stratify)

    @classmethod
    @checked
    def from_arrays(
        cls,
        inputs: Any,
        targets: Any,
        node: Any,
        *,
        split: Any = None,
        val_fraction: Part = 0.2,
        test_fraction: Part = 0.2,
        stratify: bool = True,
        seed: Seed = 0,
        loss: AnyLoss = "cross_entropy",
        metric: AnyMetric = "accuracy",
    ) -> Tasks:
        """Build tasks from flat arrays, with a column that says whose row it is.

        Nodes are sorted by name, and what is random about a node follows from its name. So neither the order of nodes
        nor how their rows are interleaved matters, only the order of a node's own rows. Arrays of float32 and int64 are
        not copied.

        Args:
            inputs: Samples of all nodes, [N, ...].
            targets: Class labels from 0, [N], or real values, [N] or [N, D].
            node: The name of every row's node, [N]: strings or whole numbers.
            split: ``"train"``, ``"val"`` or ``"test"`` for every row, [N]. Default: drawn at random.
            val_fraction: Share of a node's training rows set aside for validation, where ``split`` names none.
            test_fraction: Share of a node's rows set aside for testing, where ``split`` is not given.
            stratify: Whether some rows of every class are set aside; see `hold_out`.
            seed: Seed of the draws.
            loss: See `Tasks`.
            metric: See `Tasks`.

        Raises:
            ValueError: If the lengths differ, a row has no name, another split or a value that is not finite, or a
                node has too few rows. The message names row and site.

        Example:
            >>> x, y = torch.randn(20, 3), torch.arange(20) % 2
            >>> tasks = Tasks.from_arrays(x, y, ["south"] * 12 + ["north"] * 8)
            >>> tasks.names, tasks.sizes("train").tolist(), tasks.sizes("test").tolist()
            (('north', 'south'), [5, 8], [2, 2])
        """
        x, y = to_tensors(inputs, targets)
        sites = find_sites(node)
        rows = len(sites.owner)
        if not len(x) == len(y) == rows:
            raise ValueError(
                f"{len(x)} inputs, {len(y)} targets and {rows} names of nodes are given: give one of each per row"
            )
        sites.refuse_not_finite(
            "inputs", x, "fill it in or drop such rows; Tasks.from_frame can fill in missing values"
        )
        sites.refuse_not_finite("targets", y, "drop rows without a target")
        labels = class_labels(y.cpu()) if stratify else None
        splits = divide(sites, split, val_fraction, test_fraction, seed, labels)
        return cls({SAMPLES: Pool(x, y)}, splits, sites.names, loss, metric, sites.node_id)

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
        self,
        fraction: Part = 0.2,
        seed: Seed = 0,
        stratify: bool = True,
        into: Literal["val", "test"] = "val",
    ) -> Tasks:
        """Set a random share of every node's training samples aside for validation or testing.

        At least one is set aside of two or more.

        Where samples have one label each, whole numbers or zeros and ones of any type, every class of a node is held
        out in proportion: at least one sample of each class that has several, as far as the node's total allows it, and
        never all. Without ``stratify`` samples are drawn without regard to classes.
        """
        split = self.splits["train"]
        targets = self.pools[split.pool].targets.cpu()
        labels = class_labels(targets) if stratify else None
        train, held = hold_out(split, self.ids, fraction, seed, None if labels is None else labels[split.index], into)
        return replace(self, splits={**self.splits, "train": train, into: held})

    def require(self, split: str, why: str) -> None:
        """Check that every node has samples in a split; else a ValueError names those that do not, and says why."""
        missing = (self.sizes(split) == 0).nonzero().flatten().tolist()
        if missing:
            raise ValueError(f"{self._who(missing)} without {split!r} samples, which {why}")

    def _who(self, nodes: Sequence[int]) -> str:
        shown = ", ".join(repr(self.names[k]) for k in nodes[:3]) + (", …" if len(nodes) > 3 else "")
        return f"{len(nodes)} node{'s are' if len(nodes) > 1 else ' is'} ({shown})"

    def select(self, nodes: Tensor | Sequence[Node]) -> Tasks:
        """Return the tasks of some nodes, by name or position, in the order given; samples stay stored once."""
        nodes = torch.as_tensor(nodes if isinstance(nodes, Tensor) else find_nodes(nodes, self.names)).long().cpu()
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
