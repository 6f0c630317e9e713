from __future__ import annotations

import pytest
import torch

from graphcollab.nn.functional import projections
from graphcollab.nn.functional.projections import bundle_gram, bundle_sum


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("columns", [1, 128, 1000])
def test_products_and_sums_in_blocks(monkeypatch, centered, columns):
    monkeypatch.setattr(projections, "BLOCK_NUMBERS", 1)  # the narrowest blocks
    draw = torch.Generator().manual_seed(0)
    own, others = torch.randn(3, columns, generator=draw), torch.randn(3, 4, columns, generator=draw)
    weight = torch.randn(3, 5, generator=draw)
    every = torch.cat([own[:, None], others], 1).double()
    shifted = every - own[:, None].double() if centered else every
    expected = torch.einsum("rap,rbp->rab", shifted, shifted)
    torch.testing.assert_close(bundle_gram(own, others, centered), expected)
    total = bundle_sum(weight, own, others)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), torch.einsum("ra,rap->rp", weight.double(), every), rtol=1e-6, atol=1e-6)


def test_small_differences_survive_single_precision():
    own = torch.full((1, 400), 1000.0)
    others = own[:, None] + torch.tensor([1.0, -2.0])[None, :, None] * 2.0**-10
    centered = bundle_gram(own, others, centered=True)
    expected = 400 * torch.tensor([[0.0, 0, 0], [0, 1, -2], [0, -2, 4]], dtype=torch.float64) * 2.0**-20
    assert torch.equal(centered[0], expected)
