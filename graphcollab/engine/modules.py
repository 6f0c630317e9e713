"""Properties of a user's module, found from its types or one forward pass, and copies of it."""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from graphcollab._base.typing import Embedded
from graphcollab.engine.guards import unwritten
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.stack import ParamSpec

MemoryFormat: TypeAlias = Literal["contiguous", "channels_last"]
"""Memory layout of images [B, C, H, W]: the pixels of a channel are contiguous, or the channels of a pixel."""
Padding: TypeAlias = Literal["never", "evaluation", "always"]
"""Where batches of unequal length may be padded to one length."""


def copy_module(module: nn.Module) -> nn.Module:
    """Return a copy that shares nothing with a module except what belongs to the architecture (`shared_tensors`).

    Frozen parameters and non-persistent buffers share memory and must not be written to (`unwritten`). Computed tensors
    that are attributes (old ``weight_norm``, pruning), which ``copy.deepcopy`` rejects, are copied by value, and hooks
    on gradients of parameters, which it drops, are preserved.
    """
    known: dict[int, object] = {id(one): _shared(one) for one in shared_tensors(module).values()}
    for layer in module.modules():
        for value in vars(layer).values():
            if id(value) not in known and isinstance(value, Tensor) and value.grad_fn is not None:
                known[id(value)] = value.detach().clone()
            elif type(value) in (dict, OrderedDict, set) and not value:  # mostly hooks, which dominate the copying
                known[id(value)] = type(value)()
    copied = copy.deepcopy(module, known)
    own = dict(copied.named_parameters())
    for name, parameter in module.named_parameters():
        for hook in (parameter._backward_hooks or {}).values() if parameter.requires_grad else ():
            own[name].register_hook(hook)
    return copied


def _shared(tensor: Tensor) -> Tensor:
    """Return a tensor with the same memory; return instances of subclasses, such as quantized parameters, as is."""
    if type(tensor) is nn.Parameter:
        return nn.Parameter(tensor.detach(), requires_grad=False)
    return tensor.detach() if type(tensor) is Tensor else tensor


def embed_arguments(embeds: bool) -> dict[str, bool]:
    """Return the keyword arguments of a forward pass; none for modules without latents."""
    return {"embed": True} if embeds else {}


def no_latents(module: nn.Module, inputs: Tensor) -> str | None:
    """Return why a module has no latents, judged by a forward pass of a copy in evaluation mode; None if it has any."""
    parameters = inspect.signature(module.forward).parameters.values()
    if not any(p.name == "embed" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return "its forward pass takes no argument embed"
    with torch.no_grad(), unwritten(module):
        try:
            found = copy_module(module).eval()(inputs, embed=True)
        except TypeError as error:
            return str(error)
    if not isinstance(found, Embedded) or not all(isinstance(part, Tensor) for part in found):
        return f"forward(inputs, embed=True) returns {type(found).__name__}, not an Embedded of three tensors"
    return None


def padding_by_type(module: nn.Module, spec: ParamSpec) -> Padding:
    """Return where batches may be padded, judged by the types of layers; see `Backend`.

    Batch normalization mixes samples in training, and without running statistics in evaluation, too. Any module with
    buffers may average over the batch.
    """
    kind, of_samples = nn.modules.batchnorm._NormBase, nn.modules.instancenorm._InstanceNorm
    norms = [m for m in module.modules() if isinstance(m, kind) and not isinstance(m, of_samples)]
    if any(m.running_mean is None or m.running_var is None for m in norms):
        return "never"
    return "evaluation" if norms or "buffers" in spec.parts else "always"


def leaves(outputs: Tensor) -> Iterator[Tensor]:
    """Yield the tensors in which a gradient of outputs would be accumulated."""
    seen, waiting = set(), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            yield variable
        waiting.extend(parent for parent, _ in node.next_functions)


def in_training(module: nn.Module, inputs: Tensor, embeds: bool) -> None:
    """Run a copy of a module in training mode on inputs [B, ...], optionally to latents."""
    with keyed_layers(0), torch.no_grad(), unwritten(module):
        copy_module(module).train()(inputs, **embed_arguments(embeds))


def positions_of(inputs: Tensor) -> int:
    """Return the number of positions in a sample [...] of inputs [n, ...]: its tokens, or 1 for other data."""
    return 1 if inputs.is_floating_point() else max(inputs[0].numel(), 1)


def in_parts(outputs: Sequence[Any], embed: bool, dim: int = 0) -> Any:
    """Concatenate partial outputs along a dimension, or outputs, latents and projections separately."""
    if len(outputs) == 1:
        return outputs[0]
    if not embed:
        return torch.cat(list(outputs), dim)
    return Embedded(*(torch.cat(parts, dim) for parts in zip(*outputs, strict=True)))
