"""Datasets from arrays, and preprocessing of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.errors import InvalidTypeError, ShapeError
from graphcollab._base.settings import checked
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.samples import Pool

_CHANNELS = (1, 3, 4)  # gray, RGB, RGB with alpha


@checked
def from_arrays(
    train_inputs: np.ndarray | Tensor,
    train_targets: np.ndarray | Tensor,
    test_inputs: np.ndarray | Tensor,
    test_targets: np.ndarray | Tensor,
    name: str = "arrays",
    class_names: Sequence[str] | None = None,
) -> LabeledArrays:
    """Build a dataset from NumPy arrays or tensors, which are copied, so later changes to them have no effect.

    Floating-point inputs are kept (as float32). uint8 inputs are treated as pixels or other bytes: they are divided by
    255, and images become [N, C, H, W]. Nothing is standardized.

    Args:
        train_inputs: Training samples.
        train_targets: Their labels, of any integer type, counted from 0.
        test_inputs: Test samples.
        test_targets: Their labels.
        name: Name of the dataset in messages.
        class_names: One name per label. Default: "0", "1", ... up to the largest label in either part.

    Shapes:
        Floating-point inputs: [N, ...], kept.
        uint8 inputs: [N, H, W] becomes [N, 1, H, W]; [N, H, W, C] with 1, 3 or 4 channels becomes [N, C, H, W];
            [N, C, H, W] with 1, 3 or 4 channels and [N, features] keep their axes. If both the last and the second axis
            could be channels, the last one is used.
        Targets: [N] or [N, 1].

    Raises:
        TypeError: Inputs are neither floating point nor uint8, or labels are not integers.
        ValueError: The image axes are ambiguous, or :class:`LabeledArrays` rejects the result.
    """
    labels = _to_targets(name, "train_targets", train_targets), _to_targets(name, "test_targets", test_targets)
    if class_names is None:
        largest = max((int(values.max()) for values in labels if values.numel()), default=-1)
        class_names = [str(label) for label in range(largest + 1)]
    train, test = _to_inputs(name, "train_inputs", train_inputs), _to_inputs(name, "test_inputs", test_inputs)
    return LabeledArrays(name, Pool(train, labels[0]), Pool(test, labels[1]), tuple(class_names))


def _to_tensor(name: str, what: str, values: np.ndarray | Tensor) -> Tensor:
    """Return a tensor that shares no memory with ``values``."""
    if isinstance(values, Tensor):
        return values.detach().clone()
    array = np.asarray(values)
    if array.dtype.kind not in "buif":
        raise InvalidTypeError(what, f"{name}: {what} must be an array of numbers, got dtype {array.dtype}")
    # torch reads only arrays in native byte order and with positive strides
    return torch.tensor(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def _to_targets(name: str, what: str, values: np.ndarray | Tensor) -> Tensor:
    targets = _to_tensor(name, what, values)
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise InvalidTypeError(
            what, f"{name}: {what} must be integers (the number of the class, from 0), got {targets.dtype}"
        )
    if targets.dim() == 2 and targets.shape[1] == 1:  # [N, 1] -> [N], as Keras stores labels
        targets = targets[:, 0]
    return targets.long()


def _to_inputs(name: str, what: str, values: np.ndarray | Tensor) -> Tensor:
    inputs = _to_tensor(name, what, values)
    if inputs.is_floating_point():
        return inputs.float()
    if inputs.dtype != torch.uint8:
        raise InvalidTypeError(
            what, f"{name}: {what} must be floating point, or uint8 for pixels 0 .. 255, got {inputs.dtype}"
        )
    if inputs.dim() == 3:  # [N, H, W] -> [N, 1, H, W]
        inputs = inputs.unsqueeze(1)
    elif inputs.dim() == 4 and inputs.shape[3] in _CHANNELS:  # [N, H, W, C] -> [N, C, H, W]
        inputs = inputs.permute(0, 3, 1, 2).contiguous()
    elif inputs.dim() == 4 and inputs.shape[1] not in _CHANNELS:
        raise ShapeError(
            what,
            f"{name}: {what} of type uint8 must be images [N, H, W, C] or [N, C, H, W] with C = 1, 3 or 4, got "
            f"{list(inputs.shape)}",
        )
    return scale_images(inputs)


def scale_images(images: Tensor) -> Tensor:
    """Convert uint8 values 0 .. 255 to new float32 values in [0, 1]."""
    return images.float().div_(255.0)


def standardize(train: Tensor, test: Tensor) -> None:
    """Standardize every image channel, **in place**, with the mean and standard deviation of the training images.

    It works in place because a copy of MiniImageNet would take 4 GB. A channel that is constant over all training
    images is only shifted. Images are [N, C, H, W] float32.
    """
    # [C] each; computed over the whole set, hence without Bessel's correction
    std, mean = torch.std_mean(train, dim=(0, 2, 3), correction=0)
    std = torch.where(std > 0, std, torch.ones_like(std))
    for images in (train, test):
        images.sub_(mean[:, None, None]).div_(std[:, None, None])
