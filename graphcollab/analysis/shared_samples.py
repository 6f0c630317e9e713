"""Detection of samples shared between the seeds of a comparison, whose results are then not independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import ConflictError, MissingError
from graphcollab.data.tasks import Tasks
from graphcollab.train.fingerprint import checksum, fingerprint
from graphcollab.train.start import plane_of

Over: TypeAlias = Annotated[
    Literal["samples", "seeds"] | None,
    "'samples', what other samples would have said, 'seeds', what other seeds on these samples, or None to choose",
]


@dataclass(frozen=True)
class Samples:
    """The samples of a seed's tasks, independent of their partition.

    Args:
        train: Number of distinct training samples.
        test: Number of distinct test samples.
        share: Share of all available samples that the tasks use.
        of_nodes: Fingerprint of every node's samples, independent of splits.
        of_all: Fingerprint of all available samples, independent of nodes.
    """

    train: int
    test: int
    share: float
    of_nodes: str
    of_all: str


def identify_samples(tasks: Tasks) -> Samples:
    """Identify the samples of tasks; if nodes are divided among processes, all of these call it together.

    Samples are identified by position and target, not by input: inputs of a table are standardized by training rows,
    which differ between seeds. Sites share how many samples they have, and identify them locally: from a fingerprint of
    few samples, others could infer class counts.
    """
    plane = plane_of(tasks)
    own = _of_own(tasks if plane.alone else tasks.select(plane.own))
    parts = plane.all_gather_object(own[:4] if plane.cross_silo else own)
    used, there, train, test = (sum(part[k] for part in parts) for k in range(4))
    nodes, every = ([part[k] for part in ([own] if plane.cross_silo else parts)] for k in (4, 5))
    return Samples(train, test, used / max(there, 1), *(fingerprint(one) for one in (nodes, every)))


def _of_own(tasks: Tasks) -> tuple[int, int, int, int, str, str]:
    """Return the numbers of used, available, training and test samples in this process, and two fingerprints."""
    pairs: list[Tensor] = []  # nodes and values of all their samples
    places, used = [], 0
    for name, pool in tasks.pools.items():
        mine = [split for split in tasks.splits.values() if split.pool == name]
        node, index = (torch.cat([getattr(split, name) for split in mine]) for name in ("owner", "index"))
        both = (node * len(pool) + index).unique()
        places.append(checksum(both))
        used += len(index.unique())
        pairs.append(torch.stack([(both // max(len(pool), 1)).double(), _values(pool.targets)[both % len(pool)]]))
    node, value = torch.cat(pairs, 1)
    whole = torch.cat([_values(pool.targets) for pool in tasks.pools.values()])
    sizes = {name: len(pool) for name, pool in tasks.pools.items()}
    of_nodes = fingerprint([*tasks.names, *places, _summary(node.long(), value)])
    of_all = fingerprint([*map(str, sizes.items()), _summary(torch.zeros(len(whole), dtype=torch.int64), whole)])
    parts = [tasks.splits.get(name) for name in ("train", "test")]
    train, test = (0 if part is None else len(part.index.unique()) for part in parts)
    return used, len(whole), train, test, of_nodes, of_all


def correction(seeds: Sequence[tuple[str, Samples | None]], over: Over) -> tuple[float, str]:
    """Return the ratio that corrects intervals over seeds (fingerprint of tasks, samples), with an explanation."""
    known = [samples for _, samples in seeds if samples is not None]
    if len(seeds) < 2:
        return 0.0, ""
    if len(known) < len(seeds):
        if over == "samples":
            raise MissingError(
                "over", "over='samples' needs trials that say which samples they are of: make them by runs"
            )
        return 0.0, ""
    if len({tasks for tasks, _ in seeds}) == 1:
        if over == "samples":
            raise ConflictError(
                "over", "all seeds have the same split, which says nothing of other samples: draw one per seed"
            )
        return 0.0, "intervals are over seeds of the same split, and say nothing of other samples"
    of_nodes, of_all = (len({getattr(one, key) for one in known}) == 1 for key in ("of_nodes", "of_all"))
    if over == "seeds" or not (of_nodes or of_all):
        said = "intervals are over other seeds on these samples, and say nothing of other samples"
        return 0.0, said if of_nodes or of_all else ""
    share = 1.0 if of_nodes else sum(one.share for one in known) / len(known)
    ratio = share * sum(one.test for one in known) / sum(one.train for one in known)
    careful = ", which is too careful with so many test samples" if ratio > 1 else ""
    return ratio, (
        "intervals and p-values are corrected for samples that seeds share: of n seeds the variance of the mean is "
        f"that of differences times 1/n + {ratio:.2g}, not 1/n (Nadeau and Bengio){careful}"
    )


def _values(targets: Tensor) -> Tensor:
    """Return a number per sample, float64 [N]: its class, or the mean of its targets."""
    return targets.detach().cpu().double().reshape(len(targets), -1).mean(1)


def _summary(node: Tensor, value: Tensor) -> str:
    """Return the frequency of each class or the mean skewness of nodes, which new partitions leave as they are."""
    if len(value) and bool((value == value.round()).all()):
        keys, counts = torch.stack([node.double(), value]).unique(dim=1, return_counts=True)
        return f"{checksum(keys)} {checksum(counts)}"
    count = node.bincount().clamp(min=1)
    apart = value - (node.bincount(value) / count)[node]
    square, cube = (node.bincount(apart**power) / count for power in (2, 3))
    skewness = torch.where(square > 0, cube / square.clamp(min=1e-300) ** 1.5, 0.0).mean() if len(value) else math.nan
    return f"{float(skewness):.3f}"
