from __future__ import annotations

import pytest
import torch

from graphcollab.engine.samples import _take


@pytest.mark.parametrize("start", [0, 3])
def test_samples_that_lie_one_behind_the_other_are_not_copied(start):
    values = torch.arange(40.0).view(20, 2)
    lined = start + torch.tensor([[0, 1, 2], [5, 6, 7], [10, 11, 12]])
    taken = _take(values, lined)
    assert torch.equal(taken, values[lined])
    assert taken.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    for index in (lined.flip(0), lined.flip(1), lined[:, [0, 2, 1]], lined[[0, 0, 1]], lined + 5 - start):
        assert torch.equal(_take(values, index), values[index])
