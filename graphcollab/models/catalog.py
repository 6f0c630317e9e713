"""Models by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from torch import nn

from graphcollab._base.errors import InvalidTypeError
from graphcollab._base.settings import Count, checked, look_up
from graphcollab.models.classifiers import CNN, MLP, ResNet9, fedavg_cnn, maml_cnn
from graphcollab.models.split_model import SplitModel

SETTINGS = "_settings"
"""Attribute in which a model of `build_model` stores its arguments, for rebuilding it."""

MODELS: Mapping[str, Callable[..., nn.Module]] = MappingProxyType(
    {
        "mlp": MLP.for_shape,
        "fedavg_cnn": fedavg_cnn,
        "maml_cnn": maml_cnn,
        "small_cnn": CNN,
        "resnet9": ResNet9,
        "split_model": SplitModel.for_shape,
    }
)
"""Constructors of models, by name, from the shape of a sample and a number of classes."""


@checked
def build_model(name: str, input_shape: Sequence[Count], num_classes: Count, **options: Any) -> nn.Module:
    """Build a model by name for a dataset's samples.

    Args:
        name: A name in :data:`MODELS`.
        input_shape: Shape of one sample, such as ``LabeledArrays.input_shape``.
        num_classes: Number of outputs.
        **options: Further arguments of the model, such as ``hidden``, ``padding`` or ``channels``.

    Raises:
        ValueError: The name is unknown (the message suggests the nearest one), or the model cannot read such samples.
        TypeError: The model has no such option.

    Example:
        >>> build_model("mlp", (1, 8, 8), 10, hidden=64).head
        Linear(in_features=64, out_features=10, bias=True)
    """
    make = look_up("model", name, MODELS)
    accepted = list(inspect.signature(make).parameters)
    unknown = [option for option in options if option not in accepted]
    if unknown:
        raise InvalidTypeError(
            unknown[0], f"model {name!r} has no option {unknown[0]!r}; it takes {', '.join(accepted[2:]) or 'none'}"
        )
    module = make(input_shape, num_classes, **options)
    with suppress(TypeError, ValueError):  # an argument may be no plain value, such as a backbone
        asked = {"name": name, "input_shape": [*input_shape], "num_classes": num_classes, **options}
        setattr(module, SETTINGS, json.loads(json.dumps(asked, allow_nan=False)))
    return module
