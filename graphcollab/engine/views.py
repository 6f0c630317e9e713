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
"""A function from samples [n, ...] to modified ones of the same shape, drawn per sample from the global generator."""


@dataclass(frozen=True)
class Views(Piece):
    """Several augmented views of every sample, as needed by contrastive losses.

    Samples of a few local steps of a node go through ``augment`` together, all views in one call, with PyTorch's global
    generator seeded by (seed, ``node_id``, round, first step) and restored afterwards. The views thus do not depend on
    chunk, backend or the order of nodes.

    Args:
        augment: Any function of samples [n, ...] that returns as many of the same shape, such as `ImageAugment` or
            `AddNoise`. None: samples are unchanged.
        count: Number of views V of every sample. A batch of B samples then has V B, one view after another, and as many
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
    """Add Gaussian noise: an augmentation for samples that are not images.

    Args:
        std: Standard deviation of the noise, in the unit of the samples.

    Raises:
        ValueError: When called, if samples are integers.
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
    """Random crops, colors, grayscale, blur and flips of images, by kornia.

    The augmentations of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_ (Mukherjee et
    al., 2024), table 8, with its settings as defaults; they are those of SimCLR. Every image has its own draw. Images
    keep their size (the paper's table enlarges them to 224 pixels, its code does not).

    Color operations need pixels in [0, 1]. Every image is mapped there by its own minimum and maximum pixel, and back,
    so standardized images are supported. For images with one channel, saturation, hue and grayscale are skipped.

    Args:
        crop: Minimum and maximum share of the image's area that is cropped and resized to the full size.
        brightness: Factors are drawn from [1 - brightness, 1 + brightness].
        contrast: Likewise.
        saturation: Likewise.
        hue: Maximum shift of the hue, as a share of a full turn; at most ½.
        jitter: Probability that an image's colors are changed.
        gray: Probability that a color image becomes gray.
        blur: Probability that an image is blurred; the authors' code has 0.
        sigma: Minimum and maximum standard deviation of the blur, in pixels.
        flip: Probability of a horizontal flip; use 0 if left and right have a meaning, as with digits.

    Raises:
        ValueError: If a minimum exceeds its maximum; when called, if samples are not images with 1 or 3 channels.
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
        """Return augmented images [n, C, H, W]."""
        if samples.dim() != 4 or samples.shape[1] not in (1, 3):
            raise ShapeError(
                "augment", f"ImageAugment takes images [n, C, H, W], C = 1 or 3, got {[*samples.shape]}: use AddNoise()"
            )
        low, high = samples.amin((1, 2, 3), keepdim=True), samples.amax((1, 2, 3), keepdim=True)
        span = (high - low).masked_fill(high == low, 1)
        changed: Tensor = _pipeline(self, threading.get_ident(), *samples.shape[1:])((samples - low) / span)
        return changed * span + low


@functools.lru_cache(maxsize=32)
def _pipeline(
    settings: ImageAugment, thread: int, channels: int, height: int, width: int
) -> Callable[[Tensor], Tensor]:
    """Make the operations, separately for every thread, since they store their last draw."""
    try:
        kornia = importlib.import_module("kornia.augmentation")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "kornia", "ImageAugment needs kornia: pip install 'graphcollab[augment]', or give another augmentation"
        ) from error
    s, colors = settings, channels == 3
    kernel = 2 * (min(height, width) // 20) + 3  # about a tenth of the image, as in SimCLR, and odd
    pipeline: Callable[[Tensor], Tensor] = kornia.AugmentationSequential(
        # "resample" crops all images in one call; kornia's default crops one image at a time
        kornia.RandomResizedCrop((height, width), scale=s.crop, p=1.0, cropping_mode="resample"),
        kornia.ColorJitter(s.brightness, s.contrast, s.saturation * colors, s.hue * colors, p=s.jitter),
        *([kornia.RandomGrayscale(p=s.gray)] if colors else []),
        kornia.RandomGaussianBlur((kernel, kernel), s.sigma, p=s.blur),
        kornia.RandomHorizontalFlip(p=s.flip),
        data_keys=["input"],
        same_on_batch=False,
    )
    return pipeline
