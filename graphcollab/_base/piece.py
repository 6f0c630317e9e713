"""`Piece`: the base class of all building blocks of a method; `Field`: a declared entry of the ``Data``."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.settings import check_settings

Kind: TypeAlias = Literal["models", "rows", "per_sample", "per_node", "per_edge", "relation", "scalar", "replicated"]
Lifetime: TypeAlias = Literal["round", "phase", "run"]
Audience: TypeAlias = Literal["public", "owner", "receiver", "ends", "parts"]
Reader: TypeAlias = Literal["listeners", "coordinator", "everybody"]
"""Recipients of what a site discloses in a run between sites."""
Readers: TypeAlias = Mapping[Reader, str]
"""Descriptions of what leaves a site, by recipient."""
Origin: TypeAlias = Literal["fixed", "computed", "learned", "kept"]
"""Origin of the edge weights."""


@dataclass(frozen=True)
class Field:
    """Declaration of an entry that a piece keeps in the ``Data``; a name that ends in ``*`` covers all with its prefix.

    A ``"round"`` lifetime ends when the next round begins (for models and rows, with the round itself); a ``"phase"``
    lifetime ends with the phase unless the next phase's pieces also declare the field. ``known_to`` is ``"public"``,
    the ``"owner"`` of a node, the ``"receiver"`` of an edge or both ``"ends"``; with ``"parts"``, every process holds a
    part of the sum. Kinds are `Stacks` (``"models"``), other ``"rows"``, ``"per_sample"``, ``"per_node"`` [K],
    ``"per_edge"`` [E], separate edges (``"relation"``), a ``"scalar"``, and parameters common to all
    (``"replicated"``).
    """

    name: str
    kind: Kind
    meaning: str
    lifetime: Lifetime = "phase"
    known_to: Audience = "public"

    def covers(self, name: str) -> bool:
        """Return whether this declaration covers the entry of that name."""
        return name == self.name or (self.name.endswith("*") and name.startswith(self.name[:-1]))


TOLD = Field("edge_told", "per_edge", "weights of the edges, where everybody is told all of them", "round")
"""The weights of all edges, if every process has to know all of them."""
ALONE = Field("alone", "per_node", "mask: who also trains a model that hears nobody, to compare with", known_to="owner")
"""Mask of the nodes that also train a model alone."""


def updated(data: Data, **fields: Any) -> Data:
    """Return a shallow copy of the data with other fields; those it was given stay unchanged."""
    out = copy.copy(data)
    for name, value in fields.items():
        setattr(out, name, value)
    return out


@dataclass(frozen=True)
class Piece:
    """Building block of a method: settings, checked against their annotations, and declared state.

    A subclass is a frozen dataclass whose fields are settings. It declares in `keeps` what it writes to the ``Data``,
    and writes nothing else; `travels` states what leaves a node because of it. Pieces may hold other pieces.
    """

    keeps: ClassVar[tuple[Field, ...]] = ()
    """Entries that the piece writes to the ``Data``."""
    travels: ClassVar[str] = ""
    """What leaves a node because of the piece, for the table of bytes."""
    shared: ClassVar[tuple[str, ...]] = ()
    """Settings that must equal those of the exchange in all pieces of a method: ``part``, ``buffers``."""
    purpose: ClassVar[str] = "to work"
    """Purpose of the samples required by `needs`, for messages."""
    embeds: ClassVar[bool] = False
    """Whether the piece reads latents, which requires models that return them (such as `SplitModel`)."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def told(self) -> Readers:
        """What a site discloses because of the piece in a run between sites, by recipient.

        ``"listeners"`` are the sites that may hear it along edges; the ``"coordinator"`` adds up what sites send and
        returns the sum to all; the third recipient is ``"everybody"``.
        """
        return {}

    @property
    def needs(self) -> tuple[str, ...]:
        """Splits in which every node must have samples."""
        return ()

    @property
    def along_edges(self) -> bool:
        """Whether models travel along the graph's edges, as opposed to through a server or not at all."""
        return False

    @property
    def beyond_edges(self) -> bool:
        """Whether connected nodes share more than what travels along edges (a server's average, common encoders)."""
        return False

    @property
    def agrees(self) -> Mapping[str, object]:
        """The `shared` settings and their values."""
        return {name: getattr(self, name) for name in self.shared}

    @property
    def given(self) -> Mapping[str, Tensor]:
        """Initial values that ``repr`` does not show, for telling this run from another."""
        return {}

    def walk(self) -> Iterator[Piece]:
        """Yield the piece and all pieces that it holds."""
        yield self
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Piece):
                yield from value.walk()

    def init(self, data: Data, env: Any) -> Data:
        """Initialize the piece's entries before the first round of a phase and return the data; ``env`` is an `Env`."""
        return data
