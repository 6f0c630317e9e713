"""Images in other units than those of other nodes or splits are warned of."""

from __future__ import annotations

import torch

from graphcollab import Tasks
from tests.raising import warns

DRAW = torch.Generator().manual_seed(0)
IMAGES = [torch.rand(30, 1, 4, 4, generator=DRAW) for _ in range(3)]
CLASS = torch.arange(30) % 3


def samples(*factors):
    return [(image * factor, CLASS) for image, factor in zip(IMAGES, factors, strict=True)]


def test_images_of_one_node_that_end_at_255():
    size = 255 * IMAGES[1].double().mean()
    with warns("quality", "inputs", f"'b' (train) {size:.3g}"):
        Tasks.from_samples(samples(1, 255, 1), names=["a", "b", "c"], val_fraction=0)


def test_images_for_testing_that_end_at_255():
    with warns("quality", "inputs", "'node 0'", "'node 1'", "'node 2'", "1"):
        Tasks.from_samples(samples(1, 1, 1), test=samples(255, 255, 255))


def test_arrays_are_compared_by_node_too():
    x = torch.cat([image * factor for image, factor in zip(IMAGES, (255, 255, 1), strict=True)])
    with warns("quality", "inputs", "'c'"):
        Tasks.from_arrays(x, CLASS.repeat(3), [*("a" * 30 + "b" * 30 + "c" * 30)], val_fraction=0)


def test_dark_images_and_empty_ones_are_images():
    Tasks.from_samples(samples(1, 0.1, 0))


def test_features_may_be_of_any_size():
    Tasks.from_samples([(image.flatten(1) * 100**k, CLASS) for k, image in enumerate(IMAGES)])
