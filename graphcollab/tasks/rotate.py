"""Rotation of images by any angle."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional as F

from graphcollab.settings import Finite, checked

__all__ = ["rotate"]


@checked
def rotate(images: Tensor, angle: Finite, fill: Tensor | Finite = 0.0) -> Tensor:
    """Rotate images about their centre, counter-clockwise as they are seen (first row on top).

    Multiples of 90 degrees move pixels and lose nothing. Any other angle interpolates bilinearly between pixels, keeps
    the size, and takes what lies outside of the image to be ``fill``.

    Args:
        images: The images.
        angle: Degrees; negative ones rotate clockwise.
        fill: Value outside of the images, a number or one per channel as [C, 1, 1].

    Shapes:
        images: [N, C, H, W].
        Output: [N, C, H, W].

    Raises:
        ValueError: If the inputs are not images, or images that are not square are to be rotated by 90 or 270 degrees.

    Example:
        >>> import torch
        >>> rotate(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 90)[0, 0]
        tensor([[2., 4.],
                [1., 3.]])
    """
    if images.dim() != 4:
        raise ValueError(f"rotation needs images [N, C, H, W], got inputs of shape {tuple(images.shape)}")
    if not images.is_floating_point():
        raise ValueError(
            f"rotation needs images as floating-point numbers, got {images.dtype}: convert them by .float()"
        )
    height, width = images.shape[2:]
    turns, rest = divmod(angle % 360, 90)
    if rest == 0:
        if turns % 2 and height != width:
            raise ValueError(f"rotating by {angle} degrees needs square images, got {height} x {width} pixels")
        return images.rot90(int(turns), (2, 3))
    # theta [1, 2, 3] maps an output's place to the input's; places run from -1 to 1 in both directions, y points down
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    theta = images.new_tensor([[[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]]])
    grid = F.affine_grid(theta, [1, 1, height, width], align_corners=False).expand(len(images), -1, -1, -1)
    return F.grid_sample(images - fill, grid, padding_mode="zeros", align_corners=False) + fill
