"""Rows, which are parameters combined with a node's data, and results computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphcollab._base.device import beside, consecutive, pick, read
from graphcollab._base.errors import DivergedError, MismatchError, MissingError, ShapeError
from graphcollab.engine.stack import ParamSpec, Stacks


@dataclass(frozen=True)
class Rows:
    """R rows, each a pair (parameters, node whose data are used). Parameters are referenced and created by chunk.

    Args:
        source: The models to which rows refer.
        node: Node whose data a row uses, [R].
        index: Node whose model it is, [R]; or the nodes whose models it combines, [R, m].
        coefficient: Coefficients of the combination, [R, m], if ``index`` is [R, m].
        part: Part of the models that is combined, which all architectures among the rows share; the rest of a row is
            that of the model that comes first in its index. Default: whole rows, including buffers.
        buffers: Whether to combine buffers, too, if a part is combined.

    Example:
        >>> from graphcollab.engine.stack import ParamSpec
        >>> models = Stacks.single(ParamSpec.from_module(torch.nn.Linear(1, 1)), torch.tensor([[0.0, 0.0], [2.0, 4.0]]))
        >>> half = torch.full((1, 2), 0.5)
        >>> Rows(models, torch.tensor([0]), torch.tensor([[0, 1]]), half).parameters(0, torch.tensor([0])).tolist()
        [[1.0, 2.0]]
    """

    source: Stacks
    node: Tensor
    index: Tensor
    coefficient: Tensor | None = None
    part: str | None = None
    buffers: bool = False

    def __post_init__(self) -> None:
        if len(self.node) != len(self.index):
            raise MismatchError(
                "node", f"{len(self.index)} rows name the data of {len(self.node)} nodes: give one node per row"
            )
        if (self.index.dim() == 2) != (self.coefficient is not None):
            raise MissingError(
                "coefficient",
                "combined rows need an index and coefficients, [R, m] each; plain rows an index [R] alone",
            )
        if self.coefficient is not None and self.coefficient.shape != self.index.shape:
            raise ShapeError(
                "coefficient",
                f"index {tuple(self.index.shape)} and coefficients {tuple(self.coefficient.shape)} differ",
            )

    @classmethod
    def own(cls, models: Stacks, nodes: Tensor | None = None) -> Rows:
        """Return every node's own model on its own data, for all nodes or the given ones."""
        nodes = models.nodes if nodes is None else nodes
        return cls(models, nodes, nodes)

    @classmethod
    def with_part_of(cls, models: Stacks, node: Tensor, owner: Tensor, part: str, buffers: bool = False) -> Rows:
        """Return models of nodes [R], on their own data, with a part replaced by that of their owners' models [R].

        All architectures among the rows share the part. With ``buffers``, these are the owner's, too.
        """
        spec, *others = models.specs
        if not others and spec.columns(part) == slice(0, spec.num_columns):  # the part is the whole row
            return cls(models, node, owner)
        index = torch.stack([node, owner], 1)
        coefficient = torch.tensor([0.0, 1.0], dtype=models.dtype).expand(len(index), -1)
        return cls(models, node, index, coefficient, part, buffers)

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the models."""
        return self.source.dtype

    def __len__(self) -> int:
        return len(self.node)

    def parameters(self, stack: int, rows: Tensor) -> Tensor:
        """Return the parameters [r, columns] of the given rows [r] of one architecture, as a view if possible.

        Raises:
            ValueError: If a combination includes another architecture.
        """
        index = self.index[rows]
        tensor = self.source.tensors[stack]
        if self.coefficient is not None and self.part is not None:
            columns = self.source.specs[stack].columns(self.part)
            places = self.source.place(index)
            combined = _combine(self.source.part(self.part), places, self.coefficient[rows])
            if columns == slice(0, tensor.shape[1]):
                return combined
            out = tensor[beside(_positions(self.source, stack, index[:, 0]), tensor)]
            out[:, columns] = combined
            if self.buffers:
                kept = self.source.specs[stack].columns("buffers")
                out[:, kept] = _combine(self.source.part("buffers"), places, self.coefficient[rows])
            return out
        local = _positions(self.source, stack, index)
        if self.coefficient is not None:
            return _combine(tensor, local, self.coefficient[rows])
        return pick(tensor, local)


def _combine(models: Tensor, index: Tensor, coefficient: Tensor) -> Tensor:
    """Return the sums of models [K, columns], selected by index [r, m], times their coefficients, [r, columns]."""
    index, coefficient = beside(index, models), beside(coefficient.to(models.dtype), models)
    out = models[index[:, 0]].mul_(coefficient[:, :1])
    for column, weight in zip(index.T[1:], coefficient.T[1:], strict=True):
        out.addcmul_(models[column], weight[:, None])
    return out


def _positions(source: Stacks, stack: int, nodes: Tensor) -> Tensor:
    if len(source.specs) == 1:
        return source.place(nodes)
    members = source.members[stack]
    local = torch.searchsorted(members, nodes.contiguous()).clamp(max=len(members) - 1)
    if bool((members[local] != nodes).any()):
        raise MismatchError(
            "index", "a row combines models of different architectures: only models of one shape can be combined"
        )
    return local


@dataclass(frozen=True)
class Fitted:
    """The result of `Engine.fit` for R rows; position r of models and ``slots`` (zero in buffers' columns) is row r.

    ``seen`` has for every chunk its rows [r], their numbers of steps [r], and the losses of their steps followed by the
    models' sums, [S + 1, r], on the models' device; ``step`` [R] counts the optimizer steps taken.
    """

    models: Stacks
    seen: Sequence[tuple[Tensor, Tensor, Tensor]]
    slots: Mapping[str, Stacks]
    step: Tensor

    def outcome(self) -> tuple[Tensor, Tensor]:
        """Return the mean loss over a row's steps, and the first step with a non-finite loss, on the device, [R].

        The step is -1 if all losses and the model are finite, and the number of steps if only the model is not.
        """
        return _outcome(self.seen, torch.empty(len(self.step), dtype=self.models.dtype, device=self.models.device))

    def told(self) -> tuple[Tensor, Tensor]:
        """Return the same on the CPU, for the control plane."""
        values = read(*(own for _, _, own in self.seen))
        seen = [(rows, steps, own) for (rows, steps, _), own in zip(self.seen, values, strict=True)]
        return _outcome(seen, torch.empty(len(self.step), dtype=self.models.dtype))


@dataclass(frozen=True)
class Outputs:
    """Outputs and targets of rows [r] on a split, [r, n, ...], padded; the first ``sizes`` [r] samples are real.

    ``weight`` [r, n], float64: weight of samples in means over a row, 0 in the padding; None: equal weights.
    ``params`` are [r, ...] each; ``latent`` [r, n, d_z] and ``projection`` [r, n, d_p] are present if requested.
    """

    rows: Tensor
    outputs: Tensor
    targets: Tensor
    sizes: Tensor
    params: Mapping[str, Tensor]
    spec: ParamSpec
    weight: Tensor | None = None
    latent: Tensor | None = None
    projection: Tensor | None = None

    @cached_property
    def share(self) -> Tensor:
        """The weights in the outputs' data type, [r, n], also if all are equal."""
        if self.weight is not None:
            return self.weight.to(self.outputs.dtype)
        return self.mask / self.mask.sum(1, keepdim=True).to(self.outputs.dtype)

    @cached_property
    def mask(self) -> Tensor:
        """True for real samples, [r, n]."""
        return beside(torch.arange(self.outputs.shape[1]) < self.sizes[:, None], self.outputs)


def entries(values: Mapping[str, Tensor] | None, rows: Tensor, like: Tensor) -> dict[str, Tensor] | None:
    """Return the entries of values [R, ...] for the given rows, by name, on the device of ``like``."""
    if values is None:
        return None
    index = beside(rows, like)
    return {name: beside(value, like)[index] for name, value in values.items()}


def in_order(pieces: Sequence[Tensor], order: Sequence[Tensor]) -> Tensor:
    """Arrange pieces [r, ...] as [R, ...] at the positions in ``order``, without a copy if already in order."""
    where, values = torch.cat(list(order)), pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))
    if consecutive(where) is not None:
        return values
    return torch.empty_like(values).index_copy_(0, beside(where, values), values)


def _outcome(seen: Sequence[tuple[Tensor, Tensor, Tensor]], like: Tensor) -> tuple[Tensor, Tensor]:
    loss, bad = torch.empty_like(like), torch.full_like(like, -1, dtype=torch.int64)
    for rows, taken, values in seen:
        losses, models = values.tensor_split([-1])
        place, steps = beside(rows, values), beside(taken, values)
        wrong = (torch.arange(len(losses), device=like.device)[:, None] < steps) & ~torch.isfinite(losses)
        after = torch.where(torch.isfinite(models[0]), -1, steps)
        loss[place] = losses.nansum(0) / steps
        bad[place] = torch.where(wrong.any(0), wrong.int().argmax(0), after)
    return loss, bad


class NonFiniteLossError(DivergedError):
    """A node's loss is not finite; the message names node, round and step, and possibly a remedy."""

    def __init__(self, subject: str, reason: str, otherwise: str = "") -> None:
        super().__init__(subject, reason + otherwise)
        self.reason = reason
