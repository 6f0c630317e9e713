"""Operations on rows on a GPU: whether the Triton kernels are available, and these kernels, imported on demand.

If they are unavailable, PyTorch's own products are used, and one warning gives the reason.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from graphcollab._base.checks import issue
from graphcollab._base.device import beside
from graphcollab._base.errors import UnsupportedError
from graphcollab._base.memory import new_rows
from graphcollab.nn.functional.structure import Structure

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # as in Triton: kernels then run on the CPU, for tests
HERE = INTERPRETED or bool(torch.version.cuda)
"""Whether there may be a supported GPU; querying one would initialize its driver."""

DEVICE = "cpu" if INTERPRETED else "cuda"
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
OLDEST = (8, 0)  # compute capability: older GPUs support neither TF32 nor bfloat16

_asked: dict[torch.device, bool] = {}


def usable(rows: Tensor) -> bool:
    """Return whether there are kernels for the given rows; if only the kernels are missing, warn once."""
    if not _known(rows):
        return False
    if rows.device not in _asked:
        reason = _obstacle(rows.device)
        _asked[rows.device] = reason is None
        if reason is not None:
            _give_up(rows.device, reason)
    return _asked[rows.device]


def weighted_sums(
    structure: Structure, weight: Tensor, x: Tensor, base: Tensor | None = None, against: Tensor | None = None
) -> Tensor | None:
    """Return the same as `weighted_sums`, [D, P]; None if the kernels are unavailable."""
    weight = beside(weight.to(torch.float64 if x.dtype == torch.float64 else torch.float32), x).contiguous()
    y = new_rows(x, structure.num_receivers, x.shape[1])
    rows = [None if one is None else _side_by_side(one) for one in (x, base, against)]
    return y if _tried("weighted_sums", structure.beside(y), weight.resolve_neg(), *rows, y) else None


def inner_products(structure: Structure, a: Tensor, b: Tensor) -> Tensor | None:
    """Return ⟨a_i, b_j⟩ of a [D, P] and b [S, P] for every edge j → i, float64 [E]; None without kernels."""
    out = torch.empty(structure.num_edges, dtype=torch.float64, device=a.device)
    return out if _tried("inner_products", structure.beside(a), _side_by_side(a), _side_by_side(b), out) else None


def _known(rows: Tensor) -> bool:
    return HERE and rows.device.type == DEVICE and rows.dtype in KINDS and rows.layout == torch.strided


def _side_by_side(rows: Tensor) -> Tensor:
    if not _known(rows):
        known = ", ".join(str(kind).removeprefix("torch.") for kind in KINDS)
        raise UnsupportedError("rows", f"kernels in Triton are for {known} on a GPU, got {rows.dtype} on {rows.device}")
    rows = rows.resolve_neg()
    return rows if rows.stride(1) == 1 or rows.shape[1] < 2 else rows.contiguous()


def _obstacle(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "Triton is not installed (pip install 'graphcollab[gpu]')"
    have = _capability(device)
    if have < OLDEST:
        return f"the GPU has compute capability {have[0]}.{have[1]}, they need {OLDEST[0]}.{OLDEST[1]}"
    return None


def _capability(device: torch.device) -> tuple[int, int]:
    return OLDEST if device.type == "cpu" else torch.cuda.get_device_capability(device)


def _tried(name: str, *given: Any) -> bool:
    """Return whether a kernel wrote to the last tensor given; one that fails is not used on that device again."""
    if not usable(given[-1]):
        return False
    device = given[-1].device
    try:
        with torch.cuda.device(device if device.type == "cuda" else -1):
            getattr(import_module("graphcollab.nn.functional._triton"), name)(*given)
    except (torch.OutOfMemoryError, Warning):  # a warning if warnings are errors
        raise
    except Exception as error:  # from Triton's compiler, ptxas, or the driver
        said = str(error).strip().rsplit("\n", 1)[-1]
        _give_up(device, f"{name} failed with {type(error).__name__}: {said}")
    return _asked[device]


def _give_up(device: torch.device, reason: str) -> None:
    _asked[device] = False
    text = f"PyTorch's products mix models on {device}, slower than kernels in Triton: {reason}"
    issue("unsupported", f"device {device}", text)
