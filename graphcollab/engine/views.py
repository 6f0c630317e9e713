"""Augmented views of the samples of local steps."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import ConflictError, ContractError, MissingPackageError, RangeError, ShapeError
from graphcollab._base.piece import Piece
from graphcollab._base.settings import Count, Fraction, NonNegative, Positive, Real, Share

Augment: TypeAlias = Callable[[Tensor], Tensor]
"""Takes samples [n, ...] to changed ones of the same shape, drawn for every sample from PyTorch's global generator."""


@dataclass(frozen=True)
class Views(Piece):
    """Several augmented views of every sample, as contrastive losses need.

    Samples of a few local steps of a node go through ``augment`` together, all views in one call, with PyTorch's global
    generator seeded by (seed, ``node_id``, round, first step) and put back afterwards. So they do not depend on chunk,
    backend or the order of nodes.

    Args:
        augment: Any function of samples [n, ...] that returns as many of the same shape, such as `ImageAugment` or
            `AddNoise`. None: samples stay as they are.
        count: Views V of every sample. A batch of B samples then has V B, one view behind the other, and as many
            targets.

    Raises:
        ValueError: When called, if the augmentation changes the samples' shape.
    """

    augment: Augment | None = None
    count: Count = 2

    def __call__(self, samples: Tensor) -> Tensor:
        """Return the views of samples [n, ...], [V, n, ...]."""
        many = torch.cat([samples] * self.count)
        if self.augment is None:
            return many.unflatten(0, (self.count, -1))
        with torch.no_grad():
            changed = self.augment(many)
        if not isinstance(changed, Tensor) or changed.shape != many.shape:
            got = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
            raise ContractError(
                "augment", f"augment must keep the shape of samples, {tuple(many.shape)}, it returned {got}"
            )
        return changed.to(many.dtype).unflatten(0, (self.count, -1))


@dataclass(frozen=True)
class AddNoise(Piece):
    """Add normally distributed noise: an augmentation for samples that are not images.

    Args:
        std: Standard deviation of the noise, in the samples' own unit.

    Raises:
        ValueError: When called, if samples are whole numbers.
    """

    std: NonNegative = 0.1

    def __call__(self, samples: Tensor) -> Tensor:
        """Return noisy samples [n, ...]."""
        if not samples.is_floating_point():
            raise ConflictError(
                "augment", f"AddNoise adds to real numbers, samples are {samples.dtype}: give augment=None for them"
            )
        return samples + self.std * torch.randn_like(samples)


@dataclass(frozen=True)
class ImageAugment(Piece):
    """Random crops, colors, gray tones, blur and flips of images, by kornia.

    The augmentations of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et
    al., 2024), table 8, with its settings as defaults; they are those of SimCLR. Every image has its own draw. Images
    keep their size (the paper's table enlarges them to 224 pixels, its code does not).

    Operations on colors need pixels in [0, 1]. Every image is mapped there by its own least and greatest pixel, and
    back, so standardized images may be given. Images with one channel have neither saturation, hue nor gray tones.

    Args:
        crop: Least and greatest share of the image's area that is cropped and scaled up to the whole.
        brightness: Factors are drawn from [1 - brightness, 1 + brightness].
        contrast: Likewise.
        saturation: Likewise.
        hue: Shift of the hue, at most, as a share of a full turn; at most ½.
        jitter: Probability that an image's colors are changed.
        gray: Probability that a color image becomes gray.
        blur: Probability that an image is blurred; the authors' code has 0.
        sigma: Least and greatest standard deviation of the blur, in pixels.
        flip: Probability of a horizontal flip; 0 where left and right have a meaning, as with digits.

    Raises:
        ValueError: If the least is greater than the greatest; when called, if samples are not images with 1 or 3
            channels.
        MissingPackageError: When called, if kornia is not installed.
    """

    crop: tuple[Share, Share] = (0.2, 1.0)
    brightness: Fraction = 0.4
    contrast: Fraction = 0.4
    saturation: Fraction = 0.4
    hue: Annotated[float, Real(least=0, most=0.5)] = 0.1
    jitter: Fraction = 0.8
    gray: Fraction = 0.2
    blur: Fraction = 0.5
    sigma: tuple[Positive, Positive] = (0.1, 2.0)
    flip: Fraction = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("crop", "sigma"):
            least, greatest = getattr(self, name)
            if least > greatest:
                raise RangeError(name, f"{name} must be two numbers, the least first, got {(least, greatest)}")

    def __call__(self, samples: Tensor) -> Tensor:
        """Return changed images [n, C, H, W]."""
        if samples.dim() != 4 or samples.shape[1] not in (1, 3):
            raise ShapeError(
                "augment",
                f"ImageAugment takes images [n, C, H, W] with 1 or 3 channels, got samples of shape "
                f"{tuple(samples.shape[1:])}: give another augmentation, such as AddNoise(), or augment=None",
            )
        low, high = samples.amin((1, 2, 3), keepdim=True), samples.amax((1, 2, 3), keepdim=True)
        span = (high - low).masked_fill(high == low, 1)
        changed: Tensor = _pipeline(self, threading.get_ident(), *samples.shape[1:])((samples - low) / span)
        return changed * span + low


@functools.lru_cache(maxsize=32)
def _pipeline(
    settings: ImageAugment, thread: int, channels: int, height: int, width: int
) -> Callable[[Tensor], Tensor]:
    """Make the operations, for every thread its own: they remember what they drew last."""
    try:
        kornia = importlib.import_module("kornia.augmentation")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "kornia", "ImageAugment needs kornia: pip install 'graphcollab[augment]', or give another augmentation"
        ) from error
    s, colors = settings, channels == 3
    kernel = 2 * (min(height, width) // 20) + 3  # about a tenth of the image, as in SimCLR, and odd
    pipeline: Callable[[Tensor], Tensor] = kornia.AugmentationSequential(
        # "resample" crops all images in one call; kornia's default cuts one image after the other
        kornia.RandomResizedCrop((height, width), scale=s.crop, p=1.0, cropping_mode="resample"),
        kornia.ColorJitter(s.brightness, s.contrast, s.saturation * colors, s.hue * colors, p=s.jitter),
        *([kornia.RandomGrayscale(p=s.gray)] if colors else []),
        kornia.RandomGaussianBlur((kernel, kernel), s.sigma, p=s.blur),
        kornia.RandomHorizontalFlip(p=s.flip),
        data_keys=["input"],
        same_on_batch=False,
    )
    return pipeline
