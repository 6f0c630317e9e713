"""Choosing how the models of one architecture are computed, by a fixed rule and a trial."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

from torch import Tensor, nn

from graphcollab.checks import issue, own_filter
from graphcollab.engine.backend import Backend
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.modules import Padding, positions_of
from graphcollab.engine.objective import Objective
from graphcollab.engine.obstacles import better_looped, has_images, mostly_frozen, not_shared, not_stacked
from graphcollab.engine.plan import GRAPHED, Plan, Precision
from graphcollab.engine.reference import Numbers, Reference
from graphcollab.engine.shared_backend import SharedBackend, count_at_once
from graphcollab.engine.trial import BUFFERS, FAILURES, difference, kept_by, mixes_samples, padding_of
from graphcollab.engine.vmap_backend import VmapBackend
from graphcollab.errors import ContractError, MismatchError, UnsupportedError
from graphcollab.memory import used_up
from graphcollab.settings import Count, check_setting, look_up
from graphcollab.stack import ParamSpec

KINDS = VmapBackend, LoopBackend, SharedBackend
BACKENDS: dict[str, type[Backend]] = {kind.name: kind for kind in KINDS}
SLOW = "There is a performance drop because we have not yet implemented the batching rule for ([^ ]*)[.] "
OBSTACLES = {"vmap": not_stacked, "shared": not_shared}
DONE = {"vmap": "stacked", "shared": "computed for several nodes in one pass"}
LACKING = {"vmap": "no stacked form", "shared": "not for several nodes in one pass"}
REASONS = {"vmap": "all layers have a stacked form", "shared": "nodes share most of it, which sees all their samples"}
PADDINGS = get_args(Padding)  # from the most careful on

CPU_CHUNK_BYTES = 8 * 2**20
CUDA_CHUNK_BYTES = 2**28


def backend_of(plan: Plan, module: nn.Module, spec: ParamSpec) -> Backend:
    """Return the backend that computes as planned with models of an architecture."""
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
    """Choose how to compute the models of an architecture, and try it.

    The rule for ``auto``, first match: a module of which nodes share most (frozen parameters outnumber the others), and
    of which only linear layers are trained: shared, but for convolutions on a CPU; recurrent layers: loop (they have no
    stacked form); hooks on gradients, and embeddings that do more than look up: loop (stacked they see all nodes at
    once); a module or loss that draws random numbers in training: loop (where they are keyed per node); convolutions on
    a CPU: loop (stacked they run up to twice as slow); a module that fails under vmap, or computes otherwise there than
    plain PyTorch: loop, with the failure as the reason; anything else: vmap.

    What was chosen, or asked for, is tried against plain PyTorch on a few samples of two nodes (``difference``), and
    where samples beside a sample change its output or its gradient, batches are not padded (``padding_of``).

    The loop lays images out with their channels last where models in single precision have two-dimensional convolutions
    and a CPU computes them by oneDNN, unless the module cannot be computed so, as one that takes a ``view`` of its
    activations. All that PyTorch does with images there, max pooling most of all, is then as fast or faster.

    A chunk holds 8 MiB of parameters on a CPU (what its caches keep close) and 256 MiB on a GPU. Batches of a module
    of which nodes share most are taken in parts of 1,024 tokens (16,384 on a GPU), or samples where they are no tokens,
    if samples do not change what it makes of others.

    Args:
        module: The architecture.
        spec: Its columns.
        sample: Inputs [n, ...] and targets [n, ...] of the kind it will see: up to two of one node, then three of
            another. Where there are fewer, they come again.
        objective: What is minimised.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows at a time. Default: by the rule.
        autocast: Whether forward passes are to be in bfloat16.
        microbatch: Samples of a row at a time in training. Default: by the rule.

    Raises:
        ValueError: If the backend is unknown, another one than ``"loop"`` was asked for and the module has no such
            form, if batches are to be divided whose samples change what the module makes of each other, or no backend
            computes what plain PyTorch does; the message says what differs.
    """
    look_up("backend", backend, dict.fromkeys(("auto", *BACKENDS)))
    check_setting("chunk", Count | None, chunk)
    check_setting("microbatch", Count | None, microbatch)
    device = sample[0].device
    budget = CPU_CHUNK_BYTES if device.type == "cpu" else CUDA_CHUNK_BYTES
    chunk = chunk or max(budget // (4 * spec.num_columns), 1)
    precision: Precision = "bfloat16" if autocast else "full"
    reference, expected, padding = _plain(module, spec, sample, objective)
    auto, frozen = backend == "auto", mostly_frozen(module)
    plan, obstacles = Plan("loop", chunk, "asked for", padding, "contiguous", precision), []
    if microbatch is not None or frozen:
        plan = replace(plan, microbatch=_microbatch(reference, padding, microbatch))
    for kind in ("shared", "vmap") if auto else (backend,):
        if kind == "loop" or (auto and kind == "shared" and not frozen):
            continue
        against = OBSTACLES[kind](module, reference)
        if auto:
            against = against or better_looped(module, reference, device, kind)
        failure = None if against else _failure(replace(plan, backend=kind), reference, expected, auto)
        if against is None and failure is None:
            reason = REASONS[kind] if auto else plan.reason
            return replace(plan, backend=kind, reason=reason, graphs=kind == GRAPHED and device.type == "cuda")
        if not auto:
            how, instead = DONE[kind], "use backend 'loop' or 'auto'"
            raise UnsupportedError("backend", f"{reference.kind} cannot be {how} ({against or failure}): {instead}")
        obstacles.append(against or f"{LACKING[kind]}: {failure}")
        plan = replace(plan, reason="; ".join(dict.fromkeys(obstacles)))
    if has_images(module, reference.flat):
        other = replace(plan, memory_format="channels_last")
        if _wrong(other, reference, expected) is None:
            return other
    _require_right(plan, reference, expected)
    return plan


def check_plan(
    plan: Plan, module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective
) -> None:
    """Check a plan that was made before: that of a run that is resumed, or for other data.

    Raises:
        ValueError: If it computes otherwise than plain PyTorch, or pads where it must not.
    """
    reference, expected, padding = _plain(module, spec, sample, objective)
    against = None if plan.backend == "loop" else OBSTACLES[plan.backend](module, reference)
    if against is None and plan.microbatch is not None and mixes_samples(reference):
        against = "samples change what it makes of others in one pass with them"
    if against is not None:
        how = "divides batches of" if plan.backend == "loop" else "stacks"
        raise MismatchError(
            "plan", f"the plan {how} {reference.kind}, but {against}: start afresh, without the stored plan"
        )
    if PADDINGS.index(plan.padding) > PADDINGS.index(padding):
        raise MismatchError(
            "plan",
            f"the plan for {reference.kind} pads batches ({plan.padding!r}), but samples change what it makes of "
            f"others ({padding!r} would be right): start afresh, without the stored plan",
        )
    _require_right(plan, reference, expected)


def _plain(
    module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective
) -> tuple[Reference, Numbers, Padding]:
    """Return what plain PyTorch makes of the samples, and where they may be padded."""
    kind = type(module).__name__
    try:
        reference = Reference(module, spec, sample, objective)
        expected = reference.numbers()
        reference.kept = kept_by(reference)
        padding = padding_of(reference, expected)
    except (RuntimeError, IndexError) as error:
        if used_up(error):
            raise
        raise ContractError(
            "model", f"{kind} cannot be trained on samples of shape {tuple(sample[0].shape[1:])}: {error}"
        ) from error
    counts = [name for name in reference.changed() if name not in reference.kept]
    if counts:
        issue(
            "contract",
            f"attribute {counts[0]!r}",
            f"the attribute {counts[0]!r} of {kind} changes in a forward pass; nodes share it, so its value depends "
            "on the order in which they are computed: make it a buffer if the model's outputs depend on it",
        )
    return reference, expected, padding


def _microbatch(reference: Reference, padding: Padding, wanted: int | None) -> int | None:
    """Return how many samples of a row to take at a time: those wanted, or by rule, if they may be taken in parts."""
    if padding == "never" or mixes_samples(reference):
        if wanted is None:
            return None
        raise UnsupportedError(
            "microbatch",
            f"batches of {reference.kind} cannot be taken in parts of {wanted} samples: a sample changes what it makes "
            "of others in one pass with it; leave microbatch out",
        )
    return wanted or count_at_once(reference.flat, positions_of(reference.inputs))


def _failure(plan: Plan, reference: Reference, expected: Numbers, fast: bool) -> str | None:
    """Return why models cannot be computed together, or, to be ``fast``, have operators that vmap takes row by row."""
    try:
        backend = _tried(plan, reference)
        with own_filter("error", SLOW) if fast else nullcontext():
            found = difference(backend, reference, expected)
    except UserWarning as warning:
        slow = re.match(SLOW, str(warning))
        if not fast or slow is None:
            raise
        return f"vmap computes {slow[1]} row by row"
    except FAILURES as error:
        return str(error).strip().splitlines()[0][:160]
    if found is None:
        return None
    if found.numbers == BUFFERS:
        return f"its buffers are replaced in training, not changed in place, or differ from plain PyTorch's: {found}"
    return f"{found} differ from plain PyTorch's {'under vmap' if plan.backend == 'vmap' else 'in one pass'}"


def _tried(plan: Plan, reference: Reference) -> Backend:
    """Return a plan's backend for the trial: in full precision, and with whole batches where they are random.

    Parts of a batch draw in another order than the whole of it, which is what plain PyTorch computes.
    """
    whole = None if reference.random else plan.microbatch
    return backend_of(replace(plan, precision="full", microbatch=whole, graphs=False), reference.module, reference.spec)


def _wrong(plan: Plan, reference: Reference, expected: Numbers) -> str | None:
    """Return in words what a plan's backend, in full precision, computes otherwise than plain PyTorch, or None."""
    backend = _tried(plan, reference)
    try:
        found = difference(backend, reference, expected)
    except FAILURES as error:
        return f"it fails ({str(error).strip().splitlines()[0][:160]}), so all its numbers"
    return None if found is None else str(found)


def _require_right(plan: Plan, reference: Reference, expected: Numbers) -> None:
    """Raise if a plan's backend does not compute what plain PyTorch does."""
    found = _wrong(plan, reference, expected)
    if found is not None:
        how = "" if plan.memory_format == "contiguous" else f" and memory format {plan.memory_format!r}"
        raise UnsupportedError(
            "backend",
            f"{reference.kind} cannot be computed node by node with backend {plan.backend!r}{how}: {found} differ from "
            "those of plain PyTorch",
        )
