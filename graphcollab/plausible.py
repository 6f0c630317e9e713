"""`plausible`: which rows of numbers can be models; asked wherever rows of another party arrive."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["plausible"]

FACTOR = 1e4  # so many times as long as the receiver's own may a row be


def plausible(rows: Tensor, own: Tensor | None = None) -> Tensor:
    """Return which rows [r, P] can be models, or changes or gradients of such: a mask [r], on the CPU.

    The square of a row's length is finite in its number type, so products with it and distances to it are, too. Beside
    the receiver's ``own`` rows, [k, P], a row is at most 10⁴ times as long as the longest of them, or as 1.
    """
    length = _lengths(rows)
    if own is None:
        return length.isfinite()
    return length.isfinite() & (length <= FACTOR * max([1.0, *_lengths(own).nan_to_num(0.0, 0.0).tolist()]))


def _lengths(rows: Tensor) -> Tensor:
    """Return lengths [r]; infinite where their squares are, in single precision at least."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    return torch.linalg.vector_norm(rows.detach().flatten(1), dim=1, dtype=dtype).cpu()
