"""A round of federated averaging in plain PyTorch, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["loop_round"]


def loop_round(
    module: nn.Module, samples: list[tuple[Tensor, Tensor]], batch_size: int, lr: float
) -> Callable[[], None]:
    """Return a function that plays a round in plain PyTorch; the module has the average afterwards."""
    state = {name: value.clone() for name, value in module.state_dict().items()}

    def play() -> None:
        total = {name: torch.zeros_like(value) for name, value in state.items()}
        for inputs, labels in samples:
            module.load_state_dict(state)
            optimizer = torch.optim.SGD(module.parameters(), lr=lr)
            for x, y in zip(inputs.split(batch_size), labels.split(batch_size), strict=True):
                optimizer.zero_grad()
                F.cross_entropy(module(x), y).backward()
                optimizer.step()
            for name, value in module.state_dict().items():
                total[name].add_(value, alpha=1 / len(samples))
        state.update(total)
        module.load_state_dict(state)

    return play
