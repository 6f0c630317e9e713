"""The choice of a backend for the models of one architecture, by a fixed rule and a trial."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

import torch
from torch import Tensor, nn

from graphcollab._base.checks import issue, own_filter
from graphcollab._base.errors import ContractError, MismatchError, UnsupportedError
from graphcollab._base.memory import used_up
from graphcollab._base.settings import Count, check_setting, look_up
from graphcollab.engine.backend import Backend
from graphcollab.engine.guards import unwritten
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.modules import Padding, positions_of
from graphcollab.engine.objective import Objective
from graphcollab.engine.padding import mixes_samples, padding_of
from graphcollab.engine.plan import GRAPHED, BackendName, Plan, Precision
from graphcollab.engine.shared_backend import SharedBackend, count_at_once, layers_of
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.trial import FAILURES, Trial
from graphcollab.engine.vmap_backend import VmapBackend

BACKENDS: dict[BackendName, type[Backend]] = {"vmap": VmapBackend, "loop": LoopBackend, "shared": SharedBackend}
SLOW = "There is a performance drop because we have not yet implemented the batching rule for ([^ ]*)[.] "
TRIED: dict[BackendName, tuple[str, str]] = {  # in this order, with the reason for and against it
    "shared": ("nodes share most of it, which sees all their samples", "not for several nodes in one pass"),
    "vmap": ("all layers have a stacked form", "no stacked form"),
}
LOOKUPS = {
    "padding_idx": "an embedding's padding_idx is trained under vmap",
    "scale_grad_by_freq": "an embedding counts the tokens of all nodes (scale_grad_by_freq) under vmap",
    "max_norm": "an embedding changes its weights in the forward pass (max_norm)",
}
MIXES = "samples change what it makes of others"
WRITES = "it changes its own parameters in the forward pass"
PADDINGS = get_args(Padding)  # from the most conservative on

CPU_CHUNK_BYTES = 8 * 2**20
CUDA_CHUNK_BYTES = 2**28


def backend_of(plan: Plan, module: nn.Module, spec: ParamSpec) -> Backend:
    """Return the backend of a plan for models of an architecture."""
    return BACKENDS[plan.backend](module, spec, plan)


def make_plan(
    module: nn.Module,
    spec: ParamSpec,
    sample: tuple[Tensor, Tensor],
    objective: Objective,
    backend: str = "auto",
    chunk: int | None = None,
    autocast: bool = False,
    microbatch: int | None = None,
) -> Plan:
    """Choose how to compute the models of an architecture, and test it against plain PyTorch (``difference``).

    ``sample`` [n, ...] has up to two samples of one node, then three of another. Explicit settings are tested, too. A
    chunk holds 8 MiB of parameters on a CPU (the size of its caches) and 256 MiB on a GPU.
    """
    look_up("backend", backend, dict.fromkeys(("auto", *BACKENDS)))
    check_setting("chunk", Count | None, chunk)
    check_setting("microbatch", Count | None, microbatch)
    device = sample[0].device
    budget = CPU_CHUNK_BYTES if device.type == "cpu" else CUDA_CHUNK_BYTES
    chunk = chunk or max(budget // (4 * spec.num_columns), 1)
    precision: Precision = "bfloat16" if autocast else "full"
    trial, padding = _tried(module, spec, sample, objective)
    auto, frozen = backend == "auto", mostly_frozen(module)
    plan, obstacles = Plan("loop", chunk, "asked for", padding, precision=precision, random=trial.random), []
    if microbatch is not None or frozen:
        plan = replace(plan, microbatch=_microbatch(trial, padding, microbatch))
    for kind in [kind for kind in TRIED if kind == backend or (auto and (kind == "vmap" or frozen))]:
        reason, lacking = TRIED[kind] if auto else (plan.reason, "")
        against = obstacle(kind, module, trial) or (better_looped(kind, module, trial) if auto else None)
        if against is None:
            against = _wrong(replace(plan, backend=kind), trial, fast=auto)
            if against is None:
                return replace(plan, backend=kind, reason=reason, graphs=kind == GRAPHED and device.type == "cuda")
            against = f"{lacking}: {against}" if auto else against
        if not auto:
            text = f"{trial.kind} cannot be computed with backend {kind!r} ({against})"
            raise UnsupportedError("backend", f"{text}: use backend 'loop' or 'auto'")
        obstacles.append(against)
        plan = replace(plan, reason="; ".join(dict.fromkeys(obstacles)))
    if has_images(module, trial.flat):
        other = replace(plan, memory_format="channels_last")
        if _wrong(other, trial) is None:
            return other
    _require_right(plan, trial)
    return plan


def check_plan(
    plan: Plan, module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective
) -> None:
    """Check an existing plan, of a resumed run or for other data."""
    trial, padding = _tried(module, spec, sample, objective)
    against = obstacle(plan.backend, module, trial)
    if against is None and plan.microbatch is not None and mixes_samples(trial):
        against = f"{MIXES} in one pass with them, and the plan divides batches"
    if against is None and PADDINGS.index(plan.padding) > PADDINGS.index(padding):
        against = f"{MIXES}, and the plan pads batches: {plan.padding!r}, where {padding!r} is right"
    if against is not None:
        text = f"the plan, with backend {plan.backend!r}, is not for {trial.kind}: {against}"
        raise MismatchError("plan", f"{text}: start afresh, without the stored plan")
    _require_right(plan, trial)


def obstacle(backend: str, module: nn.Module, trial: Trial) -> str | None:
    """Return what a backend does not support, or does differently, whatever the results on a few samples."""
    found = None if backend == "loop" else _hook(module)
    if backend == "shared":
        layers = layers_of(module, trial.spec)
        found = layers if isinstance(layers, str) else found
        return found or (WRITES if trial.writes else None) or (MIXES if mixes_samples(trial) else None)
    if backend == "vmap":
        recurrent = [type(m).__name__ for m in module.modules() if isinstance(m, nn.RNNBase | nn.RNNCellBase)]
        options = trial.lookups.options
        found = f"{recurrent[0]} has no stacked form" if recurrent else found
        found = found or (LOOKUPS[min(options, key=list(LOOKUPS).index)] if options else None)
        if found is None and trial.kept:
            return f"it keeps a tensor of the forward pass in its attribute {trial.kept[0]!r}"
        return found or (WRITES if trial.writes else None)
    return found


def _hook(module: nn.Module) -> str | None:
    parameters = (name for name, parameter in module.named_parameters() if parameter._backward_hooks)
    layers = (
        name or type(layer).__name__
        for name, layer in module.named_modules()
        if layer._backward_hooks or layer._backward_pre_hooks
    )
    name = next(parameters, None) or next(layers, None)
    return None if name is None else f"the hook on the gradient of {name!r} must see one node at a time"


def better_looped(backend: str, module: nn.Module, trial: Trial) -> str | None:
    """Return why the loop is preferable to another backend that supports the module."""
    if trial.random and backend == "vmap":
        return "randomness inside layers or the loss is keyed per node there"
    convolution = sorted(type(m).__name__ for m in module.modules() if isinstance(m, nn.modules.conv._ConvNd))
    if convolution and trial.flat.device.type == "cpu":
        return f"{convolution[0]} on a CPU gains nothing from stacking"
    return None


def mostly_frozen(module: nn.Module) -> bool:
    """Return whether a module has more frozen (shared) than trainable parameters."""
    trained = sum(one.numel() for one in module.parameters() if one.requires_grad)
    return sum(one.numel() for one in module.parameters()) > 2 * trained


def has_images(module: nn.Module, like: Tensor) -> bool:
    """Return whether models, of the device and type of the given rows, have 2D convolutions by oneDNN in float32."""
    kinds = nn.Conv2d | nn.ConvTranspose2d
    known = like.device.type == "cpu" and like.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return known and any(isinstance(layer, kinds) for layer in module.modules())


def _tried(
    module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective
) -> tuple[Trial, Padding]:
    """Try a module, and warn of attributes that nodes share."""
    kind = type(module).__name__
    try:
        with unwritten(module):
            trial = Trial(module, spec, sample, objective)
            padding = padding_of(trial)
    except (RuntimeError, IndexError) as error:
        if used_up(error):
            raise
        raise ContractError(
            "model", f"{kind} cannot be trained on samples of shape {tuple(sample[0].shape[1:])}: {error}"
        ) from error
    for name in trial.filled:
        shared = f"{kind} fills {name!r} in its first pass, and nodes share it: it must not depend on samples"
        issue("contract", f"attribute {name!r}", shared)
    for name in trial.counts[:1]:
        counted = f"{kind} changes {name!r} in each pass, and nodes share it: make it a buffer if outputs depend on it"
        issue("contract", f"attribute {name!r}", counted)
    return trial, padding


def _microbatch(trial: Trial, padding: Padding, wanted: int | None) -> int | None:
    """Return the number of samples of a row to take at a time, as given or by rule; None if batches must be whole."""
    if padding == "never" or mixes_samples(trial):
        if wanted is None:
            return None
        raise UnsupportedError(
            "microbatch", f"samples of a batch of {trial.kind} affect each other: leave out microbatch={wanted}"
        )
    return wanted or count_at_once(trial.flat, positions_of(trial.inputs))


def _wrong(plan: Plan, trial: Trial, fast: bool = False) -> str | None:
    """Return a difference between the results of a plan's backend, in full precision, and plain PyTorch, or None.

    ``fast``: also report operators that vmap runs row by row. Random batches are tested whole, since parts draw in
    another order.
    """
    whole = None if trial.random else plan.microbatch
    tried = replace(plan, precision="full", microbatch=whole, graphs=False)
    try:
        backend = backend_of(tried, trial.module, trial.spec)
        with own_filter("error", SLOW) if fast else nullcontext():
            found = trial.difference(backend)
    except UserWarning as warning:
        slow = re.match(SLOW, str(warning))
        if not fast or slow is None:
            raise
        return f"vmap computes {slow[1]} row by row"
    except FAILURES as error:
        return str(error).strip().splitlines()[0][:160]
    return found and f"{found} differ from plain PyTorch's"


def _require_right(plan: Plan, trial: Trial) -> None:
    found = _wrong(plan, trial)
    if found is not None:
        how = "" if plan.memory_format == "contiguous" else f" and memory format {plan.memory_format!r}"
        text = f"{trial.kind} cannot be computed node by node with backend {plan.backend!r}{how}: {found}"
        raise UnsupportedError("backend", text)
