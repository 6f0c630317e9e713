"""`TellableError`: what a site may say of its samples to others."""

from __future__ import annotations

__all__ = ["TellableError"]


class TellableError(ValueError):
    """An error whose words quote no sample, so that other sites may read them."""
