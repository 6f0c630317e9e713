"""What a blueprint may name: classes of modules that are known or trusted, operations on numbers, and attributes."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from graphcollab._torchvision import torchvision_models
from graphcollab.train.fingerprint import INSIDE

__all__ = ["FUNCTIONS", "class_at", "dtype_of", "foreign", "function_at", "may_hold", "own_restoring"]

NETWORKS = (
    "alexnet convnext densenet efficientnet googlenet inception maxvit mnasnet mobilenetv2 mobilenetv3 regnet resnet "
    "shufflenetv2 squeezenet swin_transformer vgg vision_transformer"
)
KNOWN = (  # modules whose classes compute on tensors whatever their attributes are; a dot at the end: all in a package
    *("graphcollab.models.", "torch.nn.modules.", "torchvision.ops.misc", "torchvision.ops.stochastic_depth"),
    *(f"torchvision.models.{name}" for name in NETWORKS.split()),
)
OPERATIONS: Mapping[Any, str] = {  # of numbers in a tensor, and of nothing else
    torch: (
        "abs acos asin atan ceil celu cos cosh erf erfc exp expm1 floor log log10 log1p log2 log_softmax neg negative "
        "reciprocal relu relu_ round rsqrt selu sigmoid sign sin sinc sinh softmax sqrt square tan tanh trunc"
    ),
    F: (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d celu celu_ elu elu_ gelu glu hardshrink hardsigmoid "
        "hardswish hardtanh hardtanh_ leaky_relu leaky_relu_ log_softmax logsigmoid max_pool1d max_pool2d max_pool3d "
        "mish normalize relu relu6 relu_ selu selu_ sigmoid silu softmax softmin softplus softshrink softsign tanh "
        "tanhshrink threshold"
    ),
}
FUNCTIONS: Mapping[str, Any] = {
    f"{library.__name__}.{name}": vars(library)[name]
    for library, names in OPERATIONS.items()
    for name in names.split()
    if name in vars(library)
}
"""The functions that a layer may keep as attributes, by their names."""


def foreign(blueprint: Any) -> list[str]:
    """Return the classes that a blueprint names, ``package.module:Class``, whose modules are not known."""
    found, values = set(), [blueprint]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
            if isinstance(path := value.get("class"), str) and not _is_known(path.partition(":")[0]):
                found.add(path)
        elif isinstance(value, list):
            values += value
    return sorted(found)


def class_at(path: str, trusted: Collection[str]) -> type[nn.Module]:
    """Import a module's class, ``package.module:Class``, from a Python module that is known or trusted.

    Raises:
        ImportError: If it is not there.
        ValueError: If its module is neither, or it is no class of modules, is not defined there, or restores itself.
    """
    place, _, name = path.partition(":")
    if not _is_known(place) and place not in trusted:
        raise ValueError(f"{place} is not among the trusted modules")
    if place.startswith("torchvision."):  # whose import needs care
        torchvision_models()
    found: Any = importlib.import_module(place)
    for part in name.split("."):
        if not isinstance(found := vars(found).get(part), type):
            raise ImportError(f"{place} has no class {name}")
    if found.__module__ != place or not issubclass(found, nn.Module):
        raise ValueError(f"{path} is no class of modules that is defined there")
    if own_restoring(found):
        raise ValueError(f"{path} restores itself by code of its own, `__setstate__`")
    return found


def function_at(name: str) -> Any:
    """Return a function by its name; a ValueError if it is not among `FUNCTIONS`."""
    if name not in FUNCTIONS:
        raise ValueError(f"{name} is not among the functions of PyTorch that a layer may keep")
    return FUNCTIONS[name]


def dtype_of(name: str) -> torch.dtype:
    """Return a number type by its name; a ValueError if it is none."""
    if not isinstance(found := vars(torch).get(name), torch.dtype):  # `getattr` would import modules of some names
        raise ValueError(f"{name!r} is no number type")
    return found


def may_hold(kind: type, name: str) -> bool:
    """Tell whether an object's attribute may be set: it takes no place of what its class or Python calls."""
    if name in INSIDE or name.startswith("__") or hasattr(nn.Module, name):
        return False
    held = inspect.getattr_static(kind, name, None)
    return isinstance(held, type | functools.cached_property) or not hasattr(type(held), "__get__")


def own_restoring(kind: type) -> bool:
    """Tell whether objects of a class are restored by code that is not PyTorch's."""
    return not _is_known(next(one for one in kind.__mro__ if "__setstate__" in vars(one)).__module__)


def _is_known(module: str) -> bool:
    return any(module == one or (one.endswith(".") and module.startswith(one)) for one in KNOWN)
