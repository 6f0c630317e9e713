"""Several architectures with a common head."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from graphcollab.models.split_model import SplitModel
from graphcollab.settings import Count, checked
from graphcollab.stack import ParamSpec

__all__ = ["check_common", "split_models"]


@checked
def split_models(
    backbones: Mapping[str, nn.Module] | Sequence[nn.Module],
    input_shape: Sequence[Count],
    num_classes: Count,
    latent: Count | None = None,
    projection: Count | None = None,
    hidden: Count | None = None,
    norm: Literal["batch", "layer", "none"] = "batch",
    dtype: torch.dtype | None = None,
    common: bool = True,
) -> list[SplitModel]:
    """Put the same parts behind several backbones: a `SplitModel` each, with prototypes, projection and head alike.

    All begin with the first one's prototypes, projection and head, so nodes of all architectures start with one common
    head, as nodes of one architecture do. Initial parameters are drawn from PyTorch's global generator: seed it before,
    or give the same models to all runs that are to be compared (a run copies its modules).

    Args:
        backbones: One module per architecture, in the order that the argument ``architecture`` of `graphcollab.run`
            counts them; a mapping's names are used in messages. Backbones become part of the models and are not copied.
            Ready SplitModels are copied.
        input_shape: Shape of one sample.
        num_classes: C, the number of outputs and of prototypes.
        latent: d_z, the size of the latents of all architectures. None: what the backbones return, which must then be
            of one size.
        projection: d_p. Default: d_z.
        hidden: Width of the projection's hidden layer. Default: d_z.
        norm: Normalisation of that layer: ``batch``, ``layer`` or ``none``.
        dtype: Number type of inputs; see `SplitModel`.
        common: Whether prototypes, projection and head begin alike; else each model keeps its own beginning.

    Raises:
        ValueError: There are no backbones, sizes do not agree, or a backbone cannot read such samples.

    Example:
        >>> models = split_models({"plain": nn.Flatten(), "deep": nn.Conv2d(1, 4, 3)}, (1, 8, 8), 10, latent=16)
        >>> torch.equal(models[0].head.weight, models[1].head.weight)
        True
        >>> split_models({"plain": nn.Flatten(), "deep": nn.Conv2d(1, 4, 3)}, (1, 8, 8), 10)
        Traceback (most recent call last):
        ...
        ValueError: split_models: latent=64 is what 'plain' has, but 'deep' has latent=144; `latent` gives all ...
    """
    if not backbones:
        raise ValueError("split_models: no backbones were given")
    models = {}
    for name, backbone in _named(backbones).items():
        if isinstance(backbone, SplitModel):
            models[name] = copy.deepcopy(backbone)
        else:
            models[name] = SplitModel(backbone, input_shape, num_classes, latent, projection, hidden, norm, dtype)
    asked = {"num_classes": num_classes, "latent": latent, "projection": projection, "hidden": hidden}
    _check_sizes(models, {option: size for option, size in asked.items() if size is not None})
    first, *others = models.values()
    if common:
        state = {name: value for name, value in first.state_dict().items() if not name.startswith("backbone.")}
        for model in others:
            model.load_state_dict({**model.state_dict(), **state})
    return [first, *others]


@checked
def check_common(
    modules: Mapping[str, nn.Module] | Sequence[nn.Module],
    parts: Sequence[str] = ("prototypes", "projection", "head"),
) -> None:
    """Check that modules of different architectures can share parts: their tensors must have the same shapes.

    Args:
        modules: One module per architecture, `SplitModel` or any other.
        parts: The parts to be shared.

    Raises:
        ValueError: A module lacks one of the parts, or it has tensors of other shapes than the first module's.

    Example:
        >>> from graphcollab.models import MLP
        >>> check_common([MLP(64, 16, 10), MLP(64, (32, 16), 10)], parts=["head"])
        >>> check_common([MLP(64, 16, 10), MLP(64, 32, 10)], parts=["head"])
        Traceback (most recent call last):
        ...
        ValueError: modules cannot share 'head': module 0 (MLP) has 10 x 16, 10, module 1 (MLP) has 10 x 32, 10. ...
    """
    if not modules:
        raise ValueError("check_common: no modules were given")
    named = _named(modules)
    specs = {f"{name} ({type(module).__name__})": ParamSpec.from_module(module) for name, module in named.items()}
    for module, spec in specs.items():
        for part in parts:
            if part not in spec.parts:
                raise ValueError(f"{module} has no part {part!r} to share; its parts are {', '.join(spec.parts)}")
    first, *others = specs
    for part in parts:
        for module in others:
            if specs[module].part_layout(part) != specs[first].part_layout(part):
                raise ValueError(
                    f"modules cannot share {part!r}: {first} has {_shapes(specs[first], part)}, {module} has "
                    f"{_shapes(specs[module], part)}. Give all as many classes and latents of one size, as "
                    "`SplitModel(latent=...)` does"
                )


def _named(modules: Mapping[str, nn.Module] | Sequence[nn.Module]) -> dict[str, nn.Module]:
    """Return modules by what messages call them: their names, or their positions."""
    pairs = modules.items() if isinstance(modules, Mapping) else enumerate(modules)
    return {f"{name!r}" if isinstance(name, str) else f"module {name}": module for name, module in pairs}


def _shapes(spec: ParamSpec, part: str) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in spec.part_layout(part))


def _sizes(model: SplitModel) -> dict[str, int | str]:
    sizes: dict[str, int | str] = {"num_classes": model.head.out_features, "latent": model.head.in_features}
    layers: Sequence[Any] = [*model.projection]
    norm = type(layers[1]).__name__
    return {**sizes, "projection": model.prototypes.shape[1], "hidden": layers[0].out_features, "norm": norm}


def _check_sizes(models: Mapping[str, SplitModel], asked: Mapping[str, int | str]) -> None:
    """Refuse models that differ in a size from what was asked for, else from the first model."""
    first = next(iter(models))
    for option, size in {**_sizes(models[first]), **asked}.items():
        why = "was asked for" if option in asked else f"is what {first} has"
        hint = "; `latent` gives all architectures latents of one size" if option == "latent" else ""
        for name, model in models.items():
            if (got := _sizes(model)[option]) != size:
                raise ValueError(f"split_models: {option}={size} {why}, but {name} has {option}={got}{hint}")
