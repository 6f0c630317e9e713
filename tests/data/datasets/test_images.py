from __future__ import annotations

import numpy as np
import torch

from graphcollab.data.datasets.arrays import scale_images, standardize


def test_scale_images() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert torch.allclose(scale_images(images), torch.tensor([0.0, 0.2, 1.0]))
    assert images.tolist() == [0, 51, 255]


def test_standardize_agrees_with_numpy_and_ignores_the_test_images() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 3, 4, 5)).astype(np.float64)
    train, test = torch.tensor(pixels[:20]).float(), torch.tensor(pixels[20:]).float()
    mean = pixels[:20].mean(axis=(0, 2, 3), keepdims=True)
    std = pixels[:20].std(axis=(0, 2, 3), keepdims=True)
    standardize(train, test)
    np.testing.assert_allclose(train.numpy(), (pixels[:20] - mean) / std, atol=1e-5)
    np.testing.assert_allclose(test.numpy(), (pixels[20:] - mean) / std, atol=1e-5)


def test_standardize_of_a_constant_channel_only_shifts() -> None:
    train, test = torch.full((2, 1, 1, 1), 5.0), torch.full((1, 1, 1, 1), 7.0)
    standardize(train, test)
    assert (train.flatten().tolist(), test.item()) == ([0.0, 0.0], 2.0)
