"""Weights that all nodes share: whoever writes to them is found, before or right after.

Frozen parameters and non-persistent buffers are in memory once (`shared_tensors`), and the caller's module has them,
too. So a forward pass that writes to them would change the models of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeGuard

from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab.errors import ContractError
from graphcollab.param_spec import shared_tensors


class FrozenWeightsError(ContractError):
    """Something writes to weights that belong to no node but to all."""


class Frozen:
    """What all nodes share of a module, and how often it had been written to.

    Args:
        module: The module; the tensors that it has now are watched.
    """

    def __init__(self, module: nn.Module) -> None:
        self.kind, self.tensors = type(module).__name__, shared_tensors(module)
        self._versions = _versions(self.tensors)

    def require_unchanged(self) -> None:
        """Raise a `FrozenWeightsError` if somebody has written to a tensor since; writing by ``.data`` is not seen."""
        if not self._versions or self._versions == (now := _versions(self.tensors)):
            return
        name = next(name for name, version in now.items() if version != self._versions[name])
        raise FrozenWeightsError(
            _subject(self.tensors[name], name),
            f"{_what(self.tensors[name], name)} of {self.kind} was written to during the run, by a forward pass or by "
            "other code, and the models of all nodes have changed with it: write to a copy, and start again with the "
            "weights as they were",
        )


class _Unwritten(TorchDispatchMode):
    """Refuses operations that write to tensors, before they do."""

    def __init__(self, kind: str, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.kind, self.tensors = kind, tensors
        self._places = {name: _place(tensor) for name, tensor in tensors.items()}

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at what an operation writes to, and pass it on."""
        if func._schema.is_mutable:
            for start, stop in map(_place, _written(func, args, kwargs or {})):
                for name, (first, last) in self._places.items():
                    if start < last and first < stop:
                        raise FrozenWeightsError(
                            _subject(self.tensors[name], name),
                            f"the forward pass of {self.kind} writes to {_what(self.tensors[name], name)} ({func}), "
                            "which all nodes share: let it write to a copy, or to a persistent buffer, of which every "
                            "node has its own",
                        )
        return func(*args, **(kwargs or {}))


def unwritten(module: nn.Module) -> AbstractContextManager[object]:
    """Return a context in which nothing can write to what all nodes share of a module.

    It makes every operation slower, so it is for the first passes, in which a module is tried.

    Raises:
        FrozenWeightsError: If something would; nothing has been written then.
    """
    tensors = shared_tensors(module)
    return _Unwritten(type(module).__name__, tensors) if tensors else nullcontext()


def _written(func: OpOverload, args: Any, kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield the tensors that an operation writes to."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            yield from (one for one in (value if isinstance(value, list | tuple) else [value]) if _is_dense(one))


def _is_dense(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.device.type != "meta" and value.numel() > 0


def _place(tensor: Tensor) -> tuple[int, int]:
    """Return where a tensor begins and ends in memory."""
    if not _is_dense(tensor):
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _versions(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Return how often tensors were written to; those of inference mode do not count it."""
    return {name: one._version for name, one in tensors.items() if not one.is_inference()}


def _subject(tensor: Tensor, name: str) -> str:
    return f"{'parameter' if isinstance(tensor, nn.Parameter) else 'buffer'} {name!r}"


def _what(tensor: Tensor, name: str) -> str:
    frozen = isinstance(tensor, nn.Parameter)
    return f"the frozen parameter {name!r}" if frozen else f"the buffer {name!r}, which is not persistent,"
