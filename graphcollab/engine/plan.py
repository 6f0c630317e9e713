"""How the models of one architecture are computed, by a fixed rule that is stored."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from graphcollab.checks import own_filter
from graphcollab.engine.backend import Backend
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.modules import MemoryFormat, Padding
from graphcollab.engine.objective import Objective
from graphcollab.engine.reference import Numbers, Reference
from graphcollab.engine.trial import difference, kept_by, padding_of
from graphcollab.engine.vmap_backend import VmapBackend
from graphcollab.settings import Count, check_setting, check_settings, look_up
from graphcollab.stack import ParamSpec

__all__ = ["BACKENDS", "Plan", "check_plan", "make_plan"]

BACKENDS: dict[str, type[Backend]] = {kind.name: kind for kind in (VmapBackend, LoopBackend)}
SLOW = "There is a performance drop because we have not yet implemented the batching rule for ([^ ]*)[.] "
LOOKUPS = {
    "padding_idx": "an embedding's padding_idx is trained under vmap",
    "scale_grad_by_freq": "an embedding counts the tokens of all nodes (scale_grad_by_freq) under vmap",
    "max_norm": "an embedding changes its weights in the forward pass (max_norm)",
}
FAILURES = RuntimeError, ValueError, TypeError, IndexError, AttributeError
PADDINGS = get_args(Padding)  # from the most careful on

Precision: TypeAlias = Literal["full", "bfloat16"]

CPU_CHUNK_BYTES = 8 * 2**20
CUDA_CHUNK_BYTES = 2**30


@dataclass(frozen=True)
class Plan:
    """How the models of one architecture are computed, and why.

    Args:
        backend: ``"vmap"`` or ``"loop"``.
        chunk: Rows computed at a time.
        reason: The rule that decided, in words.
        padding: Where batches of unequal length may be padded to one: ``"always"``, only in ``"evaluation"`` (of models
            that look across the batch in training, and of those that are random in it), or ``"never"``.
        memory_format: How images lie in memory: ``"contiguous"``, channel by channel, or ``"channels_last"``, pixel by
            pixel, which the loop alone can do. The nodes' models stay as they are.
        precision: That of forward passes: ``"full"``, the models' own, or ``"bfloat16"``.

    Raises:
        ValueError: If stacked models are to have their channels last.
    """

    backend: Literal["vmap", "loop"]
    chunk: Count
    reason: str
    padding: Padding = "always"
    memory_format: MemoryFormat = "contiguous"
    precision: Precision = "full"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.backend == "vmap" and self.memory_format != "contiguous":
            raise ValueError(
                f"stacked models cannot have memory_format={self.memory_format!r}: take 'contiguous', or backend 'loop'"
            )

    def as_dict(self) -> dict[str, str | int]:
        """Return the plan as plain values."""
        return asdict(self)

    def backend_for(self, module: nn.Module, spec: ParamSpec, compile: bool = False) -> Backend:
        """Return the backend that computes as planned with models of an architecture."""
        half = self.precision == "bfloat16"
        return BACKENDS[self.backend](module, spec, half, compile, self.padding, self.memory_format)


def make_plan(
    module: nn.Module,
    spec: ParamSpec,
    sample: tuple[Tensor, Tensor],
    objective: Objective,
    backend: str = "auto",
    chunk: int | None = None,
    autocast: bool = False,
) -> Plan:
    """Choose how to compute the models of an architecture, and try it.

    The rule for ``auto``, first match: recurrent layers: loop (they have no stacked form); hooks on gradients, and
    embeddings that do more than look up: loop (stacked they see all nodes at once); a module or loss that draws random
    numbers in training: loop (where they are keyed per node); convolutions on a CPU: loop (stacked they run up to twice
    as slow); a module that fails under vmap, or computes otherwise there than plain PyTorch: loop, with the failure as
    the reason; anything else: vmap.

    What was chosen, or asked for, is tried against plain PyTorch on a few samples of two nodes (`difference`), and
    where samples beside a sample change its output or its gradient, batches are not padded (`padding_of`).

    The loop lays images out with their channels last where models in single precision have two-dimensional convolutions
    and a CPU computes them by oneDNN, unless the module cannot be computed so, as one that takes a `view` of its
    activations. All that PyTorch does with images there, max pooling most of all, is then as fast or faster.

    A chunk holds 8 MiB of parameters on a CPU (what its caches can keep close) and 1 GiB on a GPU.

    Args:
        module: The architecture.
        spec: Its columns.
        sample: Inputs [n, ...] and targets [n, ...] of the kind it will see: up to two of one node, then three of
            another. Where there are fewer, they come again.
        objective: What is minimised.
        backend: ``"auto"``, ``"vmap"`` or ``"loop"``.
        chunk: Rows at a time. Default: by the rule.
        autocast: Whether forward passes are to be in bfloat16.

    Raises:
        ValueError: If the backend is unknown, ``"vmap"`` was asked for and the module has no stacked form, or no
            backend computes what plain PyTorch does; the message says what differs.
    """
    look_up("backend", backend, dict.fromkeys(("auto", *BACKENDS)))
    check_setting("chunk", Count | None, chunk)
    device = sample[0].device
    budget = CPU_CHUNK_BYTES if device.type == "cpu" else CUDA_CHUNK_BYTES
    chunk = chunk or max(budget // (4 * spec.num_columns), 1)
    reason = "asked for"
    precision: Precision = "bfloat16" if autocast else "full"
    reference, expected, padding = _plain(module, spec, sample, objective)
    if backend != "loop":
        obstacle = _obstacle(module, reference)
        if backend == "auto":
            obstacle = obstacle or _better_looped(module, reference, device)
        failure = None if obstacle else _vmap_failure(module, reference, expected, padding, backend == "auto")
        if obstacle is None and failure is None:
            reason = reason if backend == "vmap" else "all layers have a stacked form"
            return Plan("vmap", chunk, reason, padding, "contiguous", precision)
        if backend == "vmap":
            raise ValueError(
                f"{reference.kind} cannot be stacked ({obstacle or failure}): use backend 'loop' or 'auto'"
            )
        reason = obstacle or f"no stacked form: {failure}"
    plan = Plan("loop", chunk, reason, padding, "contiguous", precision)
    if _has_images(module, reference.flat):
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
    obstacle = _obstacle(module, reference) if plan.backend == "vmap" else None
    if obstacle is not None:
        raise ValueError(f"the plan stacks {reference.kind}, but {obstacle}: start afresh, without the stored plan")
    if PADDINGS.index(plan.padding) > PADDINGS.index(padding):
        raise ValueError(
            f"the plan for {reference.kind} pads batches ({plan.padding!r}), but samples change what it makes of "
            f"others ({padding!r} would be right): start afresh, without the stored plan"
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
        raise ValueError(
            f"{kind} cannot be trained on samples of shape {tuple(sample[0].shape[1:])}: {error}"
        ) from error
    counts = [name for name in reference.changed() if name not in reference.kept]
    if counts:
        warnings.warn(
            f"the attribute {counts[0]!r} of {kind} changes in a forward pass; nodes share it, so its value depends "
            "on the order in which they are computed: make it a buffer if the model's outputs depend on it",
            stacklevel=4,
        )
    return reference, expected, padding


def _obstacle(module: nn.Module, reference: Reference) -> str | None:
    """Return what has no stacked form, or one that does something else, whatever a few samples show."""
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            return f"the hook on the gradient of {name!r} must see one node at a time"
    for name, layer in module.named_modules():
        kind = type(layer).__name__
        if isinstance(layer, nn.RNNBase | nn.RNNCellBase):
            return f"{kind} has no stacked form"
        if layer._backward_hooks or layer._backward_pre_hooks:
            return f"the hook on the gradients of {name or kind!r} must see one node at a time"
    if reference.lookups.options:
        return LOOKUPS[min(reference.lookups.options, key=list(LOOKUPS).index)]
    if reference.kept:
        return f"it keeps a tensor of the forward pass in its attribute {reference.kept[0]!r}"
    return "it changes its own parameters in the forward pass" if reference.writes else None


def _better_looped(module: nn.Module, reference: Reference, device: torch.device) -> str | None:
    """Return why the loop is the better backend for what has a stacked form too."""
    if reference.random:
        return "randomness inside layers or the loss is keyed per node there"
    convolution = sorted(type(m).__name__ for m in module.modules() if isinstance(m, nn.modules.conv._ConvNd))
    if convolution and device.type == "cpu":
        return f"{convolution[0]} on a CPU gains nothing from stacking"
    return None


def _has_images(module: nn.Module, like: Tensor) -> bool:
    """Tell whether models, which are like the rows given, convolve images in single precision by oneDNN."""
    kinds = nn.Conv2d | nn.ConvTranspose2d
    known = like.device.type == "cpu" and like.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return known and any(isinstance(layer, kinds) for layer in module.modules())


def _vmap_failure(
    module: nn.Module, reference: Reference, expected: Numbers, padding: Padding, fast: bool
) -> str | None:
    """Return why a module cannot be stacked, or, to be ``fast``, has operators that vmap computes row by row."""
    backend = VmapBackend(module, reference.spec, padding=padding)
    try:
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
    if found.startswith("its buffers"):
        return f"its buffers are replaced in training, not changed in place, or differ from plain PyTorch's: {found}"
    return f"{found} differ from plain PyTorch's under vmap"


def _wrong(plan: Plan, reference: Reference, expected: Numbers) -> str | None:
    """Return in words what a plan's backend, in full precision, computes otherwise than plain PyTorch, or None."""
    backend = replace(plan, precision="full").backend_for(reference.module, reference.spec)
    try:
        return difference(backend, reference, expected)
    except FAILURES as error:
        return f"it fails ({str(error).strip().splitlines()[0][:160]}), so all its numbers"


def _require_right(plan: Plan, reference: Reference, expected: Numbers) -> None:
    """Raise if a plan's backend does not compute what plain PyTorch does."""
    found = _wrong(plan, reference, expected)
    if found is not None:
        how = "" if plan.memory_format == "contiguous" else f" and memory format {plan.memory_format!r}"
        raise ValueError(
            f"{reference.kind} cannot be computed node by node with backend {plan.backend!r}{how}: {found} differ from "
            "those of plain PyTorch"
        )
