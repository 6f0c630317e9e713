"""What a module's layers, and a few passes of it, say against a backend."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphcollab.engine.reference import Reference
from graphcollab.engine.shared_backend import layers_of
from graphcollab.engine.trial import mixes_samples

LOOKUPS = {
    "padding_idx": "an embedding's padding_idx is trained under vmap",
    "scale_grad_by_freq": "an embedding counts the tokens of all nodes (scale_grad_by_freq) under vmap",
    "max_norm": "an embedding changes its weights in the forward pass (max_norm)",
}


def hook(module: nn.Module) -> str | None:
    """Return which hook on gradients would see several nodes at once."""
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            return f"the hook on the gradient of {name!r} must see one node at a time"
    for name, layer in module.named_modules():
        if layer._backward_hooks or layer._backward_pre_hooks:
            return f"the hook on the gradients of {name or type(layer).__name__!r} must see one node at a time"
    return None


def not_stacked(module: nn.Module, reference: Reference) -> str | None:
    """Return what has no stacked form, or one that does something else, whatever a few samples show."""
    recurrent = [type(m).__name__ for m in module.modules() if isinstance(m, nn.RNNBase | nn.RNNCellBase)]
    if found := f"{recurrent[0]} has no stacked form" if recurrent else hook(module):
        return found
    if reference.lookups.options:
        return LOOKUPS[min(reference.lookups.options, key=list(LOOKUPS).index)]
    if reference.kept:
        return f"it keeps a tensor of the forward pass in its attribute {reference.kept[0]!r}"
    return "it changes its own parameters in the forward pass" if reference.writes else None


def not_shared(module: nn.Module, reference: Reference) -> str | None:
    """Return why samples of several models cannot go through a module in one pass."""
    layers = layers_of(module, reference.spec)
    found = layers if isinstance(layers, str) else hook(module)
    if found is None and reference.writes:
        return "it changes its own parameters in the forward pass"
    return found or ("samples change what it makes of others" if mixes_samples(reference) else None)


def better_looped(module: nn.Module, reference: Reference, device: torch.device, backend: str) -> str | None:
    """Return why the loop is better than another backend for what that can compute, too."""
    if reference.random and backend == "vmap":
        return "randomness inside layers or the loss is keyed per node there"
    convolution = sorted(type(m).__name__ for m in module.modules() if isinstance(m, nn.modules.conv._ConvNd))
    if convolution and device.type == "cpu":
        return f"{convolution[0]} on a CPU gains nothing from stacking"
    return None


def mostly_frozen(module: nn.Module) -> bool:
    """Tell whether nodes have less of a module to themselves than they share."""
    sizes = dict.fromkeys((True, False), 0)
    for parameter in module.parameters():
        sizes[parameter.requires_grad] += parameter.numel()
    return sizes[False] > sizes[True]


def has_images(module: nn.Module, like: Tensor) -> bool:
    """Tell whether models, which are like the rows given, convolve images in single precision by oneDNN."""
    kinds = nn.Conv2d | nn.ConvTranspose2d
    known = like.device.type == "cpu" and like.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    return known and any(isinstance(layer, kinds) for layer in module.modules())
