"""How the models of one architecture are computed: backend and chunk, by a fixed rule that is stored with the run."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from graphcollab.local.backend import Backend, Feed, is_random
from graphcollab.local.latents import has_latents
from graphcollab.local.loop_backend import LoopBackend
from graphcollab.local.objective import Context, Objective
from graphcollab.local.optimizer import SGD
from graphcollab.local.vmap_backend import VmapBackend
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Pool, Schedule

__all__ = ["BACKENDS", "Plan", "make_plan"]

BACKENDS: dict[str, type[Backend]] = {kind.name: kind for kind in (VmapBackend, LoopBackend)}

CPU_CHUNK_BYTES = 8 * 2**20
CUDA_CHUNK_BYTES = 2**30


@dataclass(frozen=True)
class Plan:
    """Backend and chunk of one architecture, and why.

    Args:
        backend: ``"vmap"`` or ``"loop"``.
        chunk: Rows computed at a time.
        reason: The rule that decided, in words.
    """

    backend: str
    chunk: int
    reason: str

    def as_dict(self) -> dict[str, str | int]:
        """Return the plan as plain values."""
        return asdict(self)


def make_plan(
    module: nn.Module,
    spec: ParamSpec,
    sample: tuple[Tensor, Tensor],
    objective: Objective,
    backend: str = "auto",
    chunk: int | None = None,
) -> Plan:
    """Choose backend and chunk.

    The rule for ``auto``, first match: recurrent layers: loop (they have no stacked form); a module that draws random
    numbers in training: loop (where they are keyed per node); convolutions on a CPU: loop (stacked they run up to twice
    as slow); a module that fails under vmap on two samples, or whose buffers then differ from the loop's: loop, with
    the failure as the reason; anything else: vmap.

    A chunk holds 8 MiB of parameters on a CPU (what its caches can keep close) and 1 GiB on a GPU.

    Args:
        module: The architecture.
        spec: Its columns.
        sample: Inputs [n, ...] and targets [n, ...] of the kind it will see; two are used.
        objective: What is minimised.
        backend: ``"auto"``, ``"vmap"`` or ``"loop"``.
        chunk: Rows at a time. Default: by the rule.

    Raises:
        ValueError: If the backend is unknown, or ``"vmap"`` was asked for and the module has no stacked form.
    """
    if backend not in ("auto", *BACKENDS):
        nearest = difflib.get_close_matches(str(backend).lower(), ("auto", *BACKENDS), n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown backend {backend!r}; did you mean {nearest!r}? Known: auto, {', '.join(BACKENDS)}")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1 row, got {chunk}")
    device = sample[0].device
    sample = sample[0][[0, -1]], sample[1][[0, -1]]  # batch normalisation cannot train on one
    budget = CPU_CHUNK_BYTES if device.type == "cpu" else CUDA_CHUNK_BYTES
    chunk = chunk or max(budget // (4 * spec.num_columns), 1)
    if backend == "loop":
        return Plan("loop", chunk, "asked for")
    kinds = {type(m) for m in module.modules()}
    if backend == "auto":
        recurrent = sorted(kind.__name__ for kind in kinds if issubclass(kind, nn.RNNBase | nn.RNNCellBase))
        if recurrent:
            return Plan("loop", chunk, f"{recurrent[0]} has no stacked form")
        if is_random(module, sample[0]):
            return Plan("loop", chunk, "randomness inside layers is keyed per node there")
        convolution = sorted(kind.__name__ for kind in kinds if issubclass(kind, nn.modules.conv._ConvNd))
        if convolution and device.type == "cpu":
            return Plan("loop", chunk, f"{convolution[0]} on a CPU gains nothing from stacking")
    failure = _vmap_failure(module, spec, sample, objective)
    if failure is None:
        return Plan("vmap", chunk, "asked for" if backend == "vmap" else "all layers have a stacked form")
    if backend == "vmap":
        raise ValueError(f"{type(module).__name__} cannot be stacked ({failure}): use backend 'loop' or 'auto'")
    return Plan("loop", chunk, f"no stacked form: {failure}")


def _vmap_failure(
    module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective
) -> str | None:
    """Return why a module cannot be stacked, judged by a gradient and a local step of two rows with the same data."""
    objective = objective + _AskForLatents() if has_latents(module, sample[0]) else objective
    flat = torch.stack([spec.flatten(module)] * 2)
    inputs, targets = (torch.stack([part] * 2) for part in sample)
    anchor = flat[:, : spec.num_parameters] if objective.anchored else None
    try:
        VmapBackend(module, spec).gradient(flat, inputs, targets, None, objective, anchor)
        stacked = _step(VmapBackend(module, spec), flat, sample, objective, anchor)
    except (RuntimeError, NotImplementedError) as error:
        return str(error).strip().splitlines()[0][:160]
    if "buffers" in spec.parts and not is_random(module, sample[0]):
        single = _step(LoopBackend(module, spec), flat, sample, objective, anchor)
        buffers = spec.columns("buffers")
        if not torch.allclose(stacked[:, buffers], single[:, buffers], rtol=1e-3, atol=1e-5):
            return "its buffers are replaced in training, not changed in place"
    return None


class _AskForLatents(Objective):
    """Adds nothing to a loss but that the forward pass goes on to latents, as other objectives may ask for."""

    embeds = True

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return outputs.new_zeros(())


def _step(
    backend: Backend, flat: Tensor, sample: tuple[Tensor, Tensor], objective: Objective, anchor: Tensor | None
) -> Tensor:
    """Return the rows [2, columns] after a local step of size zero on the samples."""
    position = torch.arange(2, device=flat.device).expand(2, 1, 2)
    one = torch.ones(2, dtype=torch.int64, device=flat.device)
    feed = Feed(Pool(*sample), position, Schedule(position, 2 * one[:, None], one), one, 0, 0)
    return backend.fit(flat, feed, SGD(lr=0.0), objective, {}, 0 * one, anchor)[0]
