"""A pretend accelerator: tensors that say they are elsewhere, and count how often the CPU would wait for them.

Numbers lie on the CPU, wrapped in `Far` tensors of a device type that nothing else uses. Under `Accelerator` what is
made on that device, or moved there, is wrapped; operations that mix it with the CPU's tensors fail as they do on a GPU
(numbers without dimensions, and indices on the CPU, are taken there too); and whatever makes the CPU wait is noted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from graphcollab.engine.backend import Backend

DEVICE = torch.device("lazy")  # autograd takes it for one that needs no thread of its own

# What waits on a GPU, besides copies to the CPU: the result's shape depends on the numbers, or they are looked at.
WAITS = {
    "_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive",
    "bincount", "repeat_interleave", "_linalg_eigh", "_linalg_svd", "_linalg_solve_ex", "histc",
}  # fmt: skip
INDEXING = {"index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_"}


class Far(Tensor):
    """A tensor on the pretend device; its numbers are ``near``."""

    near: Tensor

    @staticmethod
    def __new__(cls, near: Tensor) -> Far:
        made = Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            layout=near.layout,
            device=DEVICE,
            requires_grad=near.requires_grad,
        )
        made.near = near
        return made

    def __repr__(self) -> str:
        return f"Far({self.near})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__set__":  # param.data = ...
            args[0].near = args[1].near
        with torch._C.DisableTorchFunctionSubclass():
            if name == "as_subclass":
                return args[0]
            if name == "tolist":
                return args[0].cpu().tolist()
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {}, lambda what: None)


class Accelerator(TorchDispatchMode):
    """While active, there is a device of type ``lazy``.

    Attributes:
        waits: How often the CPU waited for it, by where in the package that was and what was asked.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Accelerator:
        self.patch = mock.patch.object(Backend, "_autocast", return_value=nullcontext())
        self.patch.start()
        torch._C._set_only_lift_cpu_tensors(True)  # so that torch.tensor(..., device=...) is seen
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch._C._set_only_lift_cpu_tensors(False)
        self.patch.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(func, args, kwargs or {}, self._note)

    def _note(self, what: str) -> None:
        frame, where = sys._getframe(3), "elsewhere"
        while frame is not None:
            path = frame.f_code.co_filename
            if "/graphcollab/" in path and "/tests/" not in path:
                where = f"{path.rsplit('/graphcollab/')[-1]}:{frame.f_lineno} {frame.f_code.co_name}"
                break
            frame = frame.f_back
        self.waits[f"{where}: {what}"] += 1


def _compute(func: Any, args: Any, kwargs: Any, note: Callable[[str], None]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    target = kwargs.get("device")
    far = [tensor for tensor in tensors if isinstance(tensor, Far)]
    there = bool(far) if target is None else target.type == DEVICE.type
    if not far and not there:
        return func(*args, **kwargs)
    name = func.overloadpacket.__name__
    copies = name in ("_to_copy", "copy_")
    if not copies:
        _refuse_mixed(func, name, args, tensors)
    if (far and name in WAITS) or (name in INDEXING and _waits(args[1])):
        note(name)
    elif copies:
        source, to = (args[1], isinstance(args[0], Far)) if name == "copy_" else (args[0], there)
        waits = isinstance(source, Far) or not (kwargs.get("non_blocking") or any(args[2:3]))
        if isinstance(source, Far) != to and waits:
            note("to the device" if to else "to the CPU")
    out = func(*tree_map(_near, args), **tree_map(_near, kwargs))
    if name == "copy_":
        there = isinstance(args[0], Far)
    if not there or not any(isinstance(leaf, Tensor) for leaf in tree_leaves(out)):
        return out
    out = tree_map(lambda o: Far(o) if isinstance(o, Tensor) and o.layout == torch.strided else o, out)
    return return_and_correct_aliasing(func, args, kwargs, out)


def _near(value: Any) -> Any:
    if isinstance(value, Far):
        return value.near
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == DEVICE.type else value


def _waits(indices: Any) -> bool:
    """Tell whether indices of a device's tensor are masks there, or numbers that must be brought there first."""
    return any(i is not None and (i.dtype == torch.bool or (not isinstance(i, Far) and i.dim())) for i in indices)


def _refuse_mixed(func: Any, name: str, args: Any, tensors: list[Tensor]) -> None:
    far = [t for t in tensors if isinstance(t, Far)]
    allowed = [i for i in args[1] if i is not None] if name in INDEXING else []
    near = [
        t for t in tensors if not isinstance(t, Far) and t.dim() and t.layout == torch.strided and
        not any(t is i for i in allowed)
    ]  # fmt: skip
    if far and near:
        shapes = [(("device" if isinstance(t, Far) else "CPU"), tuple(t.shape), t.dtype) for t in tensors]
        raise RuntimeError(f"{func} mixes tensors on the device and on the CPU: {shapes}")
    if name in INDEXING and far and not isinstance(args[0], Far) and any(isinstance(i, Far) for i in allowed):
        raise RuntimeError(f"{func} takes indices on the device for a tensor on the CPU")
