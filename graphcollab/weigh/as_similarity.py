"""Similarity metrics by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from graphcollab.weigh.cosine_updates import CosineUpdates
from graphcollab.weigh.cosine_weights import CosineWeights
from graphcollab.weigh.inverse_distance import InverseDistance
from graphcollab.weigh.inverse_loss import InverseLoss
from graphcollab.weigh.similarity import Similarity

__all__ = ["SIMILARITIES", "as_similarity"]

SIMILARITIES: Mapping[str, type[Similarity]] = {
    "inverse_loss": InverseLoss,
    "cosine_weights": CosineWeights,
    "cosine_updates": CosineUpdates,
    "inverse_distance": InverseDistance,
}
"""The metrics that have a name."""


def as_similarity(similarity: str | Similarity, part: str = "all") -> Similarity:
    """Return a similarity metric, by name with its default settings, or as it is.

    Args:
        similarity: A `Similarity`, or one of the names in `SIMILARITIES`.
        part: Part of the models that a metric given by name compares, if it compares models.

    Raises:
        ValueError: If the name is unknown (the message names the nearest).
        TypeError: If it is neither a name nor a `Similarity`.

    Example:
        >>> as_similarity("cosine_updates")
        CosineUpdates(alpha=1.0, part='all')
        >>> as_similarity("inverse_los")
        Traceback (most recent call last):
            ...
        ValueError: unknown similarity 'inverse_los'; did you mean 'inverse_loss'? Known: cosine_updates,
        cosine_weights, inverse_distance, inverse_loss
    """
    return similarity if isinstance(similarity, Similarity) else _by_name(similarity, part)


def _by_name(name: object, part: str) -> Similarity:
    if not isinstance(name, str):
        found = name.__name__ if isinstance(name, type) else type(name).__name__
        raise TypeError(f"a similarity must be a name or a Similarity such as CosineWeights(), got {found}")
    if name not in SIMILARITIES:
        nearest = difflib.get_close_matches(name.lower().replace("-", "_"), SIMILARITIES, n=1, cutoff=0.0)[0]
        known = ", ".join(sorted(SIMILARITIES))
        raise ValueError(f"unknown similarity {name!r}; did you mean {nearest!r}? Known: {known}")
    kind: Callable[..., Similarity] = SIMILARITIES[name]
    return kind(part=part) if "part" in SIMILARITIES[name].__dataclass_fields__ else kind()
