"""Codes of changes, and the encoders' gradients from those of codes: fixed in shape, so that a GPU replays both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from graphcollab.engine import Engine
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.standing import replayable
from graphcollab.nn import MixingEncoder


@dataclass(frozen=True)
class Encoding:
    """The encoding of changes of ``nodes``, [k, P_part], in columns of ``spec``; the engine keeps what is replayed."""

    engine: Engine
    mixer: MixingEncoder
    change: Tensor
    spec: ParamSpec
    part: str
    nodes: Tensor

    def codes(self) -> Tensor:
        """Return the codes, [k, length]."""
        (code,) = self._computed("an encoding", _codes, self.change)
        return code

    def with_gradients(self) -> tuple[Tensor, Callable[[Tensor], Sequence[Tensor]]]:
        """Return codes as leaves of a graph, and a function from gradients of the codes to those of the encoders."""
        if self._replayable():
            gradients = partial(self._computed, "a gradient of encoders", _slopes, self.change)
            return self.codes().requires_grad_(), gradients
        leaves = [param.detach().requires_grad_() for param in self.mixer.tensors.values()]
        code = self._encode(self.change, *leaves)
        return code.detach().requires_grad_(), partial(torch.autograd.grad, code, leaves)

    def _replayable(self) -> bool:
        """Whether computation can be replayed; with groups, their nodes are looked up on the CPU."""
        return self.mixer.group is None and replayable(self.change)

    def _computed(self, name: str, compute: Callable[..., Sequence[Tensor]], *given: Tensor) -> Sequence[Tensor]:
        params = self.mixer.tensors
        if not self._replayable():
            return compute(self._encode, *given, *params.values())
        shapes = tuple((key, value.shape, value.dtype) for key, value in params.items())
        about = name, id(self.spec), self.part, shapes, tuple(self.mixer.form.items()), self.change.shape
        known = partial(compute, partial(_encode, self.mixer, self.spec, self.part, None))
        return self.engine.replays.of(about, name, known)(*given, *params.values())

    def _encode(self, change: Tensor, *params: Tensor) -> Tensor:
        return _encode(self.mixer, self.spec, self.part, self.nodes, change, *params)


def _encode(
    mixer: MixingEncoder, spec: ParamSpec, part: str, nodes: Tensor | None, change: Tensor, *params: Tensor
) -> Tensor:
    own = mixer.with_tensors(dict(zip(mixer.tensors, params, strict=True)))
    return own.encode(change, spec, part, nodes)


@torch.no_grad()
def _codes(encode: Callable[..., Tensor], change: Tensor, *params: Tensor) -> Sequence[Tensor]:
    return [encode(change, *params)]


def _slopes(encode: Callable[..., Tensor], change: Tensor, slope: Tensor, *params: Tensor) -> Sequence[Tensor]:
    with torch.enable_grad():
        leaves = [param.detach().requires_grad_() for param in params]
        return torch.autograd.grad(encode(change, *leaves), leaves, slope)
