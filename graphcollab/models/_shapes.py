"""Reading the shape of a sample."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["image_size"]


def image_size(model: str, input_shape: Sequence[int]) -> tuple[int, tuple[int, int]]:
    """Return channels and (height, width) of an image's shape.

    Args:
        model: The model's name, for the message.
        input_shape: (channels, height, width).

    Raises:
        ValueError: The shape does not have three axes.

    Example:
        >>> image_size("FedAvgCNN", (3, 32, 32))
        (3, (32, 32))
    """
    if len(input_shape) != 3:
        raise ValueError(
            f"{model} reads images (channels, height, width), got samples of shape {tuple(input_shape)}; "
            "reshape the inputs, or take the model 'mlp'"
        )
    channels, height, width = input_shape
    return channels, (height, width)
