from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from graphcollab.data.partition.shift import rotate
from tests.raising import raises


@pytest.mark.parametrize("angle", [10, 350, 37.5, -10, 190, 89.99, 271])
@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 1, 7, 7), (1, 2, 6, 9)])
def test_equals_scipy(angle, shape):
    """Axes (3, 2) are to a batch of images what SciPy's default (1, 0) is to one."""
    values = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    expected = ndimage.rotate(values.double().numpy(), angle, (3, 2), False, order=1, mode="grid-constant", cval=0.0)
    np.testing.assert_allclose(rotate(values, angle).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("angle", "turns"), [(0, 0), (90, 1), (180, 2), (270, 3), (360, 0), (-90, 3), (540, 2)])
def test_right_angles_move_pixels(angle, turns):
    values = torch.rand(2, 1, 5, 5)
    assert torch.equal(rotate(values, angle), torch.rot90(values, turns, (2, 3)))


def test_counter_clockwise():
    """A spot right of the center goes up."""
    values = torch.zeros(1, 1, 9, 9)
    values[0, 0, 4, 8] = 1
    row, column = divmod(int(rotate(values, 45).argmax()), 9)
    assert (row, column) == (1, 7)


def test_fill():
    values = torch.full((1, 2, 6, 6), 2.0)
    turned = rotate(values, 45, torch.tensor([2.0, -1.0]).view(2, 1, 1))
    torch.testing.assert_close(turned[:, 0], values[:, 0])
    assert turned[0, 1, 0, 0] == -1


def test_half_turns_need_no_square():
    values = torch.rand(1, 1, 2, 3)
    assert torch.equal(rotate(values, 180), values.flip(2, 3))
    with raises("shape", "inputs", "90", "2", "3"):
        rotate(values, 90)


def test_refuses_what_is_no_image():
    with raises("shape", "inputs", "3", "4"):
        rotate(torch.zeros(3, 4), 10)
