"""From stored images to the float32 tensors that models read."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["scale_images", "standardise"]


def scale_images(images: Tensor) -> Tensor:
    """Return uint8 values 0 .. 255 as new float32 numbers in [0, 1]."""
    return images.float().div_(255.0)


def standardise(train: Tensor, test: Tensor) -> None:
    """Shift and scale every channel, **in place**, by the mean and standard deviation of the training images.

    A channel that is constant over all training images is only shifted. Test images never enter the statistics.

    Args:
        train: Training images, changed in place (a copy of MiniImageNet would take 4 GB).
        test: Test images, changed in place by the same numbers.

    Shapes:
        train, test: [N, C, H, W] float32.

    Example:
        >>> import torch
        >>> train, test = torch.tensor([0.0, 2.0]).view(2, 1, 1, 1), torch.tensor([3.0]).view(1, 1, 1, 1)
        >>> standardise(train, test)
        >>> train.flatten().tolist(), test.item()
        ([-1.0, 1.0], 2.0)
    """
    # [C] each; over the whole set, hence without Bessel's correction
    std, mean = torch.std_mean(train, dim=(0, 2, 3), correction=0)
    std = torch.where(std > 0, std, torch.ones_like(std))
    for images in (train, test):
        images.sub_(mean[:, None, None]).div_(std[:, None, None])
