"""Rows of models that go from site to site along edges, and their gradients, which go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from graphcollab.sites.connection import Connection
from graphcollab.sites.frame import wrong_message

__all__ = ["FetchRows", "kinds_of", "require_finite", "unknown"]


class FetchRows(torch.autograd.Function):
    """Send rows to other sites, and return those that come from them; gradients go the other way.

    Called by ``apply`` with the rows here, [k, P], who they go to, where those of others go in what is returned, both
    as places by site, how many rows that has, and the connection. Rows that nobody sends are unknown.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        asked: Mapping[str, Tensor],
        places: Mapping[str, Tensor],
        count: int,
        connection: Connection,
    ) -> Tensor:
        """Return the rows of others, [count, P]."""
        give = {name: [rows[at.to(rows.device)]] for name, at in asked.items()}
        take = {name: [(rows.dtype, (len(at), *rows.shape[1:]))] for name, at in places.items()}
        out = unknown(rows, count)
        for name, (some,) in connection.swap(f"models, {kinds_of([rows])}", give, take).items():
            out[places[name].to(rows.device)] = some.to(rows.device)
        ctx.connection, ctx.asked, ctx.places, ctx.count = connection, asked, places, len(rows)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        """Return the gradients [k, P] that others have of the rows here."""
        gradient = gradients[0]
        own = gradient.new_zeros(ctx.count, *gradient.shape[1:])
        give = {name: [gradient[at.to(own.device)]] for name, at in ctx.places.items()}
        take = {name: [(own.dtype, (len(at), *own.shape[1:]))] for name, at in ctx.asked.items()}
        back = ctx.connection.swap(f"gradients, {kinds_of([own])}", give, take)
        for name, at in ctx.asked.items():  # in the order of sites, so sums are always the same
            require_finite(name, back[name])
            (some,) = back[name]
            own.index_add_(0, at.to(own.device), some.to(own.device))
        return own, None, None, None, None


def kinds_of(values: Iterable[Tensor]) -> str:
    """Say what kinds of numbers an entry has, of values [n, ...]."""
    return " and ".join(f"{str(one.dtype).removeprefix('torch.')} {list(one.shape[1:])}" for one in values)


def require_finite(site: str, values: Iterable[Tensor]) -> None:
    """Check that what a site has sent is finite."""
    if not all(bool(torch.isfinite(one).all()) for one in values):
        raise wrong_message(site, "it holds values that are not finite")


def unknown(values: Tensor, count: int) -> Tensor:
    """Return values [count, ...] that say that nothing is known."""
    nothing = torch.nan if values.is_floating_point() else False if values.dtype is torch.bool else -1
    return values.new_full((count, *values.shape[1:]), nothing)
