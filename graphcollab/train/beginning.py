"""Initial models: equal where they are to be mixed, and how sites verify that they agree."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphcollab._base.checks import issue
from graphcollab._base.errors import MismatchError
from graphcollab._base.naming import few
from graphcollab.comm.plane import Plane
from graphcollab.components import Exchanger
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.fingerprint import checksum, describe, fingerprint

SKETCHED = 8  # number of sums by which sites compare their initial models
COARSE = 1e-2  # rounding step of these sums, in units of the model's norm, which is their standard deviation
ROUNDING = 1e-5  # tolerated difference between initial models from the same seed on different processors


def warn_of_unlike(method: Method | Phases, modules: Sequence[nn.Module]) -> None:
    """Warn if a method mixes models of equal architectures with different initial parameters."""
    parts = {piece.part for piece in method.walk() if isinstance(piece, Exchanger) and piece.mixes}
    if len(modules) < 2 or not parts:
        return
    starts: dict[str, dict[str, int]] = {}
    for number, module in enumerate(modules):
        spec = ParamSpec.from_module(module)
        rows = spec.flatten(module).detach()
        kind = fingerprint([describe(module, "", tensors=False), spec.names, [list(shape) for shape in spec.shapes]])
        mixed = fingerprint([checksum(rows[spec.columns(part)]) for part in sorted(parts)])
        starts.setdefault(kind, {}).setdefault(mixed, number)
    for alike in starts.values():
        if len(alike) > 1:
            numbers = [*alike.values()]
            issue(
                "mismatch",
                "model",
                f"{method.name} mixes models, and architectures {few([str(n) for n in numbers])} "
                f"({type(modules[numbers[0]]).__name__}) are copies of one with other initial parameters: models that "
                "do not start alike are mixed badly. Give such nodes one architecture, so that they start alike",
            )


def same_beginning(modules: Sequence[nn.Module], plane: Plane) -> None:
    """Let all sites start from the first site's models if theirs differ only by the rounding of other processors.

    Sites compare checksums of coarse sums, so no site learns of a model that it has not made itself. Sites first send
    each other a commitment to their checksums and then reveal them (a ValueError if the revealed ones differ), so
    neither the coordinator nor a site can falsely claim to have the same model. Models that differ are left as they
    are, for `require_same_run`; for frozen weights `describe_run` compares a checksum.
    """
    if not plane.cross_silo:
        return
    tensors = [
        tensor
        for module in modules
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
        if tensor.is_floating_point() and name not in shared_tensors(module)
    ]
    own = torch.cat([torch.zeros(0).double(), *(one.detach().cpu().double().flatten() for one in tensors)]).nan_to_num()
    speakers = {plane.where(node): node for node in reversed(range(plane.count))}  # the first node of each site
    site = torch.tensor(sorted(speakers.values()))
    owner, to = site[(site != site[:, None]).nonzero().T]  # all pairs, in both directions
    if not _all_alike(own, plane, owner, to):
        return
    first = owner == 0
    sent = own.expand(int(first.sum()), -1)
    told = plane.broadcast(sent, owner[first], to[first], "the initial model, of the first site")
    mine = plane.is_local(to[first])
    told = told[mine][0] if bool(mine.any()) else own
    if torch.allclose(told, own, rtol=ROUNDING, atol=ROUNDING):
        with torch.no_grad():
            for one, values in zip(tensors, told.split([one.numel() for one in tensors]), strict=True):
                one.copy_(values.view_as(one))


def _all_alike(own: Tensor, plane: Plane, owner: Tensor, to: Tensor) -> bool:
    """Return whether all sites have roughly the same model [P], by messages from ``owner`` to ``to`` [M].

    A commitment is a checksum of the site's number, a secret, and the values committed to. The secret is a checksum of
    the whole model: no other site knows it, and a restarted script sends the same one.
    """
    coarse = [_numbers(one.encode()) for one in _coarsely(own)]
    secret = _numbers(own.numpy().tobytes())
    shown = torch.cat([secret, *coarse])  # [4 + 4 + 4]
    committed = _commitment(int(plane.own[0]), shown)
    what = "a commitment to checksums of its initial model"
    commitments = plane.broadcast(committed.expand(len(owner), -1), owner, to, what)
    told = plane.broadcast(shown.expand(len(owner), -1), owner, to, "checksums of its initial model")
    for sender, commitment, numbers in zip(*(x[plane.is_local(to)] for x in (owner, commitments, told)), strict=True):
        if not torch.equal(commitment, _commitment(int(sender), numbers)):
            raise MismatchError(
                f"site {plane.where(int(sender))!r}",
                f"{plane.where(int(sender))}, another initial model is shown than was committed to",
            )
    others = told[plane.is_local(to)][:, 4:].reshape(-1, 2, 4)
    common = [all(bool((one == mine).all(1).any()) for one in others) for mine in coarse]
    return any(common)


def _commitment(site: int, shown: Tensor) -> Tensor:
    return _numbers(site.to_bytes(8, "little") + shown.numpy().tobytes())


def _numbers(content: bytes) -> Tensor:
    """Return a checksum as numbers, int64 [4]."""
    return torch.frombuffer(bytearray(hashlib.blake2b(content, digest_size=32).digest()), dtype=torch.int64)


def _coarsely(values: Tensor) -> list[str]:
    """Return two checksums of a rounded model [P]; a model close to it shares at least one of them.

    The rounded values are sums with random signs, since among very many parameters some are always close to a rounding
    boundary. The second checksum is over sums shifted by half a step.
    """
    draw, length = torch.Generator().manual_seed(0), float(values.norm())
    signs = (torch.randint(2, values.shape, dtype=torch.int8, generator=draw) for _ in range(SKETCHED))
    sums = torch.tensor([length, *(float((values * (2 * one - 1)).sum()) for one in signs)], dtype=torch.float64)
    step = 2.0 ** math.floor(math.log2(COARSE * length)) if length else 1.0
    return [fingerprint([shift, step, len(values), *(sums / step + shift).floor().tolist()]) for shift in (0.0, 0.5)]
