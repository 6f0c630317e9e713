"""Augmentations: drawn for every sample, computed for all at once, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphcollab.engine import AddNoise, ImageAugment
from tests.raising import raises

NOTHING = {"crop": (1.0, 1.0), "jitter": 0.0, "gray": 0.0, "blur": 0.0, "flip": 0.0}


@pytest.fixture(autouse=True)
def _own_randomness():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def gradient_image(channels=1, size=16):
    """An image whose brightness rises to the right, [C, H, W]."""
    return torch.linspace(-1, 2, size).expand(channels, size, size).contiguous()


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_number_type_are_kept_and_every_sample_has_its_own_draw(shape, dtype):
    one = torch.rand(1, *shape, dtype=dtype)
    many = ImageAugment()(one.expand(16, *shape))
    assert (many.shape, many.dtype) == ((16, *shape), dtype)
    assert bool(many.isfinite().all())
    assert len({tuple(image.flatten().tolist()) for image in many}) == 16


class Operations(TorchDispatchMode):
    """Counts the operations that are dispatched."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32)])
def test_all_images_go_through_every_operation_together(shape):
    augment, counts = ImageAugment(jitter=1.0, gray=1.0, blur=1.0, flip=1.0), []
    for number in (8, 64):
        augment(torch.rand(number, *shape))
        with Operations() as seen:
            augment(torch.rand(number, *shape))
        counts.append(seen.count)
    assert max(counts) - min(counts) <= 8, counts  # colors are changed in an order that is drawn


def test_draws_follow_the_global_generator():
    images = torch.rand(4, 3, 8, 8)
    torch.manual_seed(5)
    first = ImageAugment()(images)
    torch.manual_seed(5)
    assert torch.equal(first, ImageAugment()(images))
    assert not torch.equal(first, ImageAugment()(images))


def test_pixels_stay_within_their_own_image_where_it_is_standardized():
    images = torch.stack([gradient_image(), 10 * gradient_image()])
    changed = ImageAugment(blur=0.0)(images)
    for image, new in zip(images, changed, strict=True):
        assert float(new.min()) >= float(image.min()) - 1e-5
        assert float(new.max()) <= float(image.max()) + 1e-5


def test_switched_off_it_changes_nothing():
    images = torch.stack([gradient_image(3), -3 * gradient_image(3)])
    torch.testing.assert_close(ImageAugment(**NOTHING)(images), images, rtol=0, atol=1e-5)


def test_a_flip_mirrors():
    images = gradient_image()[None]
    flipped = ImageAugment(**{**NOTHING, "flip": 1.0})(images)
    torch.testing.assert_close(flipped, images.flip(3), rtol=0, atol=1e-5)


def test_gray_images_have_equal_channels():
    images = torch.rand(6, 3, 8, 8)
    gray = ImageAugment(**{**NOTHING, "gray": 1.0})(images)
    torch.testing.assert_close(gray[:, 0], gray[:, 1], rtol=0, atol=1e-5)
    torch.testing.assert_close(gray[:, 1], gray[:, 2], rtol=0, atol=1e-5)


def test_a_constant_image_stays_finite():
    assert bool(ImageAugment()(torch.full((4, 1, 8, 8), 3.0)).isfinite().all())


def test_noise_has_the_standard_deviation_asked_for():
    noise = AddNoise(0.5)(torch.zeros(10_000))
    assert float(noise.std()) == pytest.approx(0.5, rel=0.05)
    assert torch.equal(AddNoise(0.0)(torch.ones(3)), torch.ones(3))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"flip": 1.5}, "value"),
        ({"jitter": -0.1}, "value"),
        ({"hue": 0.6}, "value"),
        ({"brightness": 2.0}, "value"),
        ({"crop": (0.0, 1.0)}, "value"),
        ({"crop": (0.9, 0.5)}, "range"),
        ({"sigma": (0.0, 1.0)}, "value"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, code):
    with raises(code, *wrong):
        ImageAugment(**wrong)


def test_samples_that_are_no_images_are_refused():
    with raises("shape", "augment"):
        ImageAugment()(torch.zeros(4, 7))
    with raises("value", "std"):
        AddNoise(-1.0)


def test_without_kornia_it_says_what_to_install(monkeypatch):
    import importlib

    def missing(name):
        raise ModuleNotFoundError("No module named 'kornia'", name="kornia")

    monkeypatch.setattr(importlib, "import_module", missing)
    with raises("missing-package", "kornia", "graphcollab[augment]", kind=ImportError):
        ImageAugment(flip=0.123)(torch.zeros(2, 1, 8, 8))
