"""The models of the papers, and building one by name.

Every model is a plain ``torch.nn.Module`` that computes ``head(backbone(inputs))``, so that its parts can be named by
child; `SplitModel` has more parts, behind any backbone. Any other module works as well; these are only the ones that
published results were measured with.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

from torch import nn

from graphcollab.models.fedavg_cnn import *  # noqa: F403
from graphcollab.models.maml_cnn import *  # noqa: F403
from graphcollab.models.mlp import *  # noqa: F403
from graphcollab.models.norm import replace_batch_norm
from graphcollab.models.resnet9 import *  # noqa: F403
from graphcollab.models.small_backbones import small_backbone, small_backbones
from graphcollab.models.small_cnn import *  # noqa: F403
from graphcollab.models.split_model import *  # noqa: F403
from graphcollab.models.split_models import check_common, split_models
from graphcollab.models.torchvision_backbones import torchvision_backbone, torchvision_backbones
from graphcollab.settings import Count, checked

MODELS: Mapping[str, type[Any]] = MappingProxyType(
    {
        file: getattr(module, name)
        for file in ("mlp", "fedavg_cnn", "maml_cnn", "small_cnn", "resnet9", "split_model")
        for module in [import_module(f"{__name__}.{file}")]
        for name in module.__all__
    }
)
"""Model classes by name, which is the name of their file."""

__all__ = [
    "MODELS",
    "build_model",
    "check_common",
    "replace_batch_norm",
    "small_backbone",
    "small_backbones",
    "split_models",
    "torchvision_backbone",
    "torchvision_backbones",
    *(model.__name__ for model in MODELS.values()),
]


@checked
def build_model(name: str, input_shape: Sequence[Count], num_classes: Count, **options: Any) -> nn.Module:
    """Build a model by name for a dataset's samples.

    Args:
        name: A name in :data:`MODELS`.
        input_shape: Shape of one sample, such as ``LabelledArrays.input_shape``.
        num_classes: Number of outputs.
        **options: Further arguments of the model's ``for_shape``, such as ``hidden``, ``padding`` or ``channels``.

    Raises:
        ValueError: The name is unknown (the nearest known one is named), or the model cannot read such samples.
        TypeError: The model has no such option.

    Example:
        >>> build_model("mlp", (1, 8, 8), 10, hidden=64).head
        Linear(in_features=64, out_features=10, bias=True)
        >>> build_model("fedavg-cn", (3, 32, 32), 10)
        Traceback (most recent call last):
        ...
        ValueError: unknown model 'fedavg-cn'; did you mean 'fedavg_cnn'? Known: mlp, fedavg_cnn, ...
    """
    if name not in MODELS:
        nearest = difflib.get_close_matches(name.lower().replace("-", "_"), MODELS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown model {name!r}; did you mean {nearest!r}? Known: {', '.join(MODELS)}")
    accepted = list(inspect.signature(MODELS[name].for_shape).parameters)
    unknown = [option for option in options if option not in accepted]
    if unknown:
        raise TypeError(f"model {name!r} has no option {unknown[0]!r}; it takes {', '.join(accepted[2:]) or 'none'}")
    return MODELS[name].for_shape(input_shape, num_classes, **options)
