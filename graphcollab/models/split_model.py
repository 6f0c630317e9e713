"""Models with parts that nodes of different architectures can share: backbone, prototypes, projection and head."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from graphcollab._base.errors import ContractError, EmptyError, MismatchError
from graphcollab._base.settings import Count, checked
from graphcollab._base.typing import Embedded
from graphcollab.models.backbones import small_backbone

_NORMS: Mapping[str, type[nn.Module]] = MappingProxyType(
    {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
)


class SplitModel(nn.Module):
    r"""Any backbone followed by MAPL's parts: a head, a projection, and learned prototypes of the classes.

    `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et al., 2024),
    appendix A.1.

    .. math:: z = f_\theta(x), \qquad \text{logits} = g_\phi(z), \qquad p = f_\psi(z), \qquad \xi^1, \dots, \xi^C

    ==============  ================  ============================================================  ==============
    part            symbol            what it is                                                    parameters
    ==============  ================  ============================================================  ==============
    ``backbone``    :math:`f_\theta`  any module; its outputs are flattened to the latent z         its own
    ``prototypes``  :math:`\xi`       one vector per class, compared to projections                 C d_p
    ``projection``  :math:`f_\psi`    linear, normalization, ReLU, linear: d_z to ``hidden`` to     see below
                                      d_p
    ``head``        :math:`g_\phi`    one linear layer d_z to C                                     C (d_z + 1)
    ==============  ================  ============================================================  ==============

    The columns of a row are in this order (see `ParamSpec`). Prototypes, projection and head have the
    same shapes for any backbone if latents have the same size, so nodes of all architectures can mix them.

    The projection has h (d_z + 1) + d_p (h + 1) parameters with h for ``hidden``, and 2 h more with normalization.
    Prototypes are initialized like the weight of a linear layer d_p to C. Batch normalization makes a sample's
    projection depend on the others in its batch, so nodes with batches of unequal length are computed one length at a
    time; ``norm="layer"`` avoids this.

    Two deviations concern points that the paper does not specify or that contradict its own code:

    - The paper has ReLU on the head's output; a classifier trained this way has no negative logits, and the published
      code has ReLU before the head's linear layer instead. Here, if ``latent`` is given, ReLU is the end of the
      backbone, so the projection reads its output as well.
    - The paper does not give the width of the projection's hidden layer; here it equals the latent size by default.

    Args:
        backbone: Any module that maps [B, ...] to [B, ...]. It is not copied.
        input_shape: Shape of one sample, such as ``LabeledArrays.input_shape``. The backbone is run once on two samples
            of zeros, in evaluation mode, to determine its number of outputs.
        num_classes: C, the number of outputs and of prototypes.
        latent: d_z. A linear layer to this size and ReLU are appended to the backbone and belong to it, so that
            architectures with outputs of any size can have common latents. None: the backbone's own outputs are the
            latents. The paper has 512.
        projection: d_p, the size of projections and prototypes. Default: d_z, as in the paper.
        hidden: Width of the projection's hidden layer. Default: d_z.
        norm: Normalization of that layer: ``batch``, the paper's, ``layer`` or ``none``.
        dtype: Data type of inputs, for backbones that read integers. Default: that of the backbone's parameters.

    Shapes:
        inputs: ``[B, *input_shape]``.
        output: logits [B, C]; with ``embed=True`` an `Embedded` of logits [B, C], latent [B, d_z]
        and projection [B, d_p].

    Raises:
        ValueError: The backbone cannot read such samples, or does not return one row per sample.

    Example:
        >>> model = SplitModel(nn.Conv2d(1, 2, 3), (1, 8, 8), num_classes=10, latent=16)
        >>> {name: tuple(value.shape) for name, value in model(torch.zeros(5, 1, 8, 8), embed=True)._asdict().items()}
        {'logits': (5, 10), 'latent': (5, 16), 'projection': (5, 16)}
    """

    parts: ClassVar[Mapping[str, list[str]]] = MappingProxyType(
        {name: [name] for name in ("backbone", "prototypes", "projection", "head")}
    )

    @checked
    def __init__(
        self,
        backbone: nn.Module,
        input_shape: Sequence[Count],
        num_classes: Count,
        latent: Count | None = None,
        projection: Count | None = None,
        hidden: Count | None = None,
        norm: Literal["batch", "layer", "none"] = "batch",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        first = next(backbone.parameters(), torch.empty(0))
        like: dict[str, Any] = {"device": first.device, "dtype": first.dtype}
        features = _count_features(
            backbone, torch.zeros(2, *input_shape, device=first.device, dtype=dtype or first.dtype)
        )
        width = features if latent is None else latent
        projection, hidden = projection or width, hidden or width
        if latent is not None:
            layers = {"features": backbone, "flatten": nn.Flatten(), "latent": nn.Linear(features, latent, **like)}
            backbone = nn.Sequential(OrderedDict(layers, relu=nn.ReLU()))
        self.backbone = backbone
        self.prototypes = nn.Linear(projection, num_classes, bias=False, **like).weight
        hidden_layers = nn.Linear(width, hidden, **like), _NORMS[norm](hidden, **like), nn.ReLU()
        self.projection = nn.Sequential(*hidden_layers, nn.Linear(hidden, projection, **like))
        self.head = nn.Linear(width, num_classes, **like)

    @classmethod
    def for_shape(
        cls,
        input_shape: Sequence[int],
        num_classes: int,
        backbone: str = "cnn",
        width: int = 16,
        latent: int | None = 64,
        projection: int | None = None,
        hidden: int | None = None,
        norm: Literal["batch", "layer", "none"] = "batch",
    ) -> SplitModel:
        """Build the model with one of the four `small_backbones` for images of a given shape."""
        features = small_backbone(backbone, input_shape, width)
        return cls(features, input_shape, num_classes, latent, projection, hidden, norm)

    def forward(self, inputs: Tensor, embed: bool = False) -> Tensor | Embedded:
        """Return the logits, or with ``embed`` also the latents and their projections."""
        latent = self.backbone(inputs).flatten(1)
        logits: Tensor = self.head(latent)
        return Embedded(logits, latent, self.projection(latent)) if embed else logits

    def extra_repr(self) -> str:
        """Show the prototypes' shape, which the ``repr`` of a module omits."""
        return f"(prototypes): {' x '.join(map(str, self.prototypes.shape))}"


def _count_features(backbone: nn.Module, inputs: Tensor) -> int:
    """Return the number of outputs of a backbone per sample, using two samples."""
    name = type(backbone).__name__
    training = {module: module.training for module in backbone.modules()}
    try:
        with torch.no_grad():
            out = backbone.eval()(inputs)
    except (RuntimeError, ValueError, IndexError) as error:
        kind = f"samples of shape {tuple(inputs.shape[1:])} and type {inputs.dtype}"
        raise ContractError("backbone", f"SplitModel: {name} cannot read {kind}: {error}") from error
    finally:
        for module, mode in training.items():
            module.training = mode
    shape = tuple(out.shape) if isinstance(out, Tensor) else (type(out).__name__,)
    if len(shape) < 2 or shape[0] != 2 or not math.prod(shape):
        raise ContractError("backbone", f"SplitModel: {name} must return one row for each of 2 samples, got {shape}")
    return math.prod(shape[1:])


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
    """Put the same parts behind several backbones: a `SplitModel` each, with equal prototypes, projection and head.

    All start with the first one's prototypes, projection and head, so nodes of all architectures start with a common
    head, like nodes of one architecture. Initial parameters are drawn from PyTorch's global generator: seed it first,
    or give the same models to all runs to be compared (a run copies its modules).

    Args:
        backbones: One module per architecture, in the order used by the argument ``architecture`` of `graphcollab.run`;
            names of a mapping are used in messages. Backbones become part of the models and are not copied. SplitModels
            are copied.
        input_shape: See `SplitModel` for this and the following arguments.
        num_classes: C.
        latent: d_z of all architectures. None: the backbones' outputs, which must then have the same size.
        projection: d_p.
        hidden: Width of the projection's hidden layer.
        norm: Normalization of that layer.
        dtype: Data type of inputs.
        common: Whether prototypes, projection and head are initialized equally; else each model keeps its own.

    Raises:
        ValueError: There are no backbones, sizes do not agree, or a backbone cannot read such samples.

    Example:
        >>> models = split_models({"plain": nn.Flatten(), "deep": nn.Conv2d(1, 4, 3)}, (1, 8, 8), 10, latent=16)
        >>> torch.equal(models[0].head.weight, models[1].head.weight)
        True
    """
    if not backbones:
        raise EmptyError("backbones", "split_models: no backbones were given")
    models = {}
    given = (input_shape, num_classes, latent, projection, hidden, norm, dtype)
    for place, backbone in backbones.items() if isinstance(backbones, Mapping) else enumerate(backbones):
        name = repr(place) if isinstance(place, str) else f"module {place}"
        models[name] = copy.deepcopy(backbone) if isinstance(backbone, SplitModel) else SplitModel(backbone, *given)
    asked = {"num_classes": num_classes, "latent": latent, "projection": projection, "hidden": hidden}
    _check_sizes(models, {option: size for option, size in asked.items() if size is not None})
    first, *others = models.values()
    if common:
        state = {name: value for name, value in first.state_dict().items() if not name.startswith("backbone.")}
        for model in others:
            model.load_state_dict({**model.state_dict(), **state})
    return [first, *others]


def _sizes(model: SplitModel) -> dict[str, int | str]:
    sizes: dict[str, int | str] = {"num_classes": model.head.out_features, "latent": model.head.in_features}
    layers: Sequence[Any] = [*model.projection]
    norm = type(layers[1]).__name__
    return {**sizes, "projection": model.prototypes.shape[1], "hidden": layers[0].out_features, "norm": norm}


def _check_sizes(models: Mapping[str, SplitModel], asked: Mapping[str, int | str]) -> None:
    """Reject models whose sizes differ from those requested, or else from the first model."""
    first = next(iter(models))
    for option, size in {**_sizes(models[first]), **asked}.items():
        why = "was asked for" if option in asked else f"is what {first} has"
        hint = "; `latent` gives all architectures latents of one size" if option == "latent" else ""
        for name, model in models.items():
            if (got := _sizes(model)[option]) != size:
                raise MismatchError(option, f"split_models: {option}={size} {why}, but {name} has {option}={got}{hint}")
