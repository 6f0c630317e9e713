"""`Piece`: the base of everything a method is made of; `Field`: what a piece keeps in the ``Data``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.settings import check_settings

__all__ = ["ALONE", "TOLD", "Field", "Origin", "Piece", "Reader", "Readers"]

Kind: TypeAlias = Literal["models", "rows", "per_sample", "per_node", "per_edge", "relation", "scalar", "replicated"]
Lifetime: TypeAlias = Literal["round", "phase", "run"]
Audience: TypeAlias = Literal["public", "owner", "receiver", "ends", "parts"]
Reader: TypeAlias = Literal["listeners", "coordinator", "everybody"]
"""Who reads what a site tells in a run between sites."""
Readers: TypeAlias = Mapping[Reader, str]
"""What leaves a site, in words, by who reads it."""
Origin: TypeAlias = Literal["fixed", "computed", "learned", "kept"]
"""Where the weights of edges come from."""


@dataclass(frozen=True)
class Field:
    """Something that a piece keeps in the ``Data``; a name that ends in ``*`` stands for all that begin so.

    A lifetime of a ``"round"`` ends when the next one begins (of rows of models, with their own), of a ``"phase"`` with
    it unless the next one's pieces declare the field too. ``known_to`` is ``"public"``, the ``"owner"`` of a node, the
    ``"receiver"`` of an edge or both ``"ends"``; in ``"parts"``, every process has a part of the sum. Kinds are
    `Stacks` (``"models"``), other ``"rows"``, ``"per_sample"``, ``"per_node"`` [K], ``"per_edge"`` [E], edges of its
    own (``"relation"``), a ``"scalar"``, and parameters that belong to all (``"replicated"``).
    """

    name: str
    kind: Kind
    meaning: str
    lifetime: Lifetime = "phase"
    known_to: Audience = "public"

    def covers(self, name: str) -> bool:
        """Tell whether this is the declaration of a field of that name."""
        return name == self.name or (self.name.endswith("*") and name.startswith(self.name[:-1]))


TOLD = Field("edge_told", "per_edge", "weights of the edges, where everybody is told all of them", "round")
"""The weights of all edges, for what everybody has to know of them."""
ALONE = Field("alone", "per_node", "mask: who also trains a model that hears nobody, to compare with", known_to="owner")
"""Nodes that also train a model alone."""


@dataclass(frozen=True)
class Piece:
    """A piece of a method: settings, checked against their annotations, and what it keeps from round to round.

    A subclass is a frozen dataclass whose fields are settings. It declares what it writes to the ``Data`` in `keeps`,
    and writes nothing else; `travels` says what leaves a node because of it. Pieces may hold other pieces.
    """

    keeps: ClassVar[tuple[Field, ...]] = ()
    """What it writes to the ``Data``."""
    travels: ClassVar[str] = ""
    """What leaves a node because of it, for the table of bytes."""
    shared: ClassVar[tuple[str, ...]] = ()
    """Settings that must be the same in all pieces of a method, as the exchange has them: ``part``, ``buffers``."""
    purpose: ClassVar[str] = "to work"
    """What it needs the samples of `needs` for, for messages."""
    embeds: ClassVar[bool] = False
    """Whether it reads latents, which models must have then (`SplitModel` does)."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def told(self) -> Readers:
        """What a site tells others because of it, in a run between sites, by who reads it.

        ``"listeners"`` are sites that may hear it along edges; the ``"coordinator"`` adds up what sites send and tells
        all the sum; or ``"everybody"``.
        """
        return {}

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits that every node must have samples in."""
        return ()

    @property
    def along_edges(self) -> bool:
        """Whether models travel along the graph's edges, rather than through a server or not at all."""
        return False

    @property
    def beyond_edges(self) -> bool:
        """Whether connected nodes share more than what travels along edges (a server's average, common encoders)."""
        return False

    @property
    def agrees(self) -> Mapping[str, object]:
        """The settings that are `shared`, and their values."""
        return {name: getattr(self, name) for name in self.shared}

    @property
    def given(self) -> Mapping[str, Tensor]:
        """What it was given to start from and its text does not show, so that another run is told from this one."""
        return {}

    def walk(self) -> Iterator[Piece]:
        """Yield the piece and all that it holds."""
        yield self
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Piece):
                yield from value.walk()

    def init(self, data: Data, env: Any) -> Data:
        """Return the data with what the piece keeps, before the first round of a phase; ``env`` is an `Env`."""
        return data
