"""How sites agree on the models that they begin with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphcollab.param_spec import shared_tensors
from graphcollab.plane import Plane
from graphcollab.train.fingerprint import fingerprint

__all__ = ["same_beginning"]

SKETCHED = 8  # sums by which sites find out whether their initial models are the same
COARSE = 1e-2  # the step to which these are rounded, in lengths of the model, which is their standard deviation
ROUNDING = 1e-5  # by which initial models may differ that are made of the same seed on other processors


def same_beginning(modules: Sequence[nn.Module], plane: Plane) -> None:
    """Let all sites begin with the first one's models, where theirs differ only as other processors round.

    Whether they do, sites find out by checksums of coarse sums, so nobody is told anything of a model which it has not
    made itself. Others stay as they are, and `require_same_run` says so. Frozen weights are not among what is told: of
    them sites compare a checksum (`describe_run`).
    """
    if not plane.private:
        return
    tensors = [
        tensor
        for module in modules
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
        if tensor.is_floating_point() and name not in shared_tensors(module)
    ]
    own = torch.cat([torch.zeros(0).double(), *(one.detach().cpu().double().flatten() for one in tensors)]).nan_to_num()
    if not set.intersection(*map(set, plane.everyone(_coarsely(own)))):
        return
    (told,) = plane.tell(own[None], torch.zeros(1, dtype=torch.int64), what="the initial model, of the first site")
    if torch.allclose(told, own, rtol=ROUNDING, atol=ROUNDING):
        with torch.no_grad():
            for one, values in zip(tensors, told.split([one.numel() for one in tensors]), strict=True):
                one.copy_(values.view_as(one))


def _coarsely(values: Tensor) -> list[str]:
    """Return two checksums of a model [P] that has been rounded; one at least is that of another model close to it.

    What is rounded are sums with random signs, as one of very many parameters is always close to where it is rounded to
    another number. The second checksum is that of sums which are shifted by half a step.
    """
    draw, length = torch.Generator().manual_seed(0), float(values.norm())
    signs = (torch.randint(2, values.shape, dtype=torch.int8, generator=draw) for _ in range(SKETCHED))
    sums = torch.tensor([length, *(float((values * (2 * one - 1)).sum()) for one in signs)], dtype=torch.float64)
    step = 2.0 ** math.floor(math.log2(COARSE * length)) if length else 1.0
    return [fingerprint([shift, step, len(values), *(sums / step + shift).floor().tolist()]) for shift in (0.0, 0.5)]
