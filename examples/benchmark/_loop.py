"""A round of federated averaging in plain PyTorch, for comparison; also as fast as a CPU with bfloat16 plays it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def loop_round(
    module: nn.Module, samples: list[tuple[Tensor, Tensor]], batch_size: int, lr: float, half: bool = False
) -> Callable[[], None]:
    """Return a function that plays a round in plain PyTorch; the module has the average afterwards.

    With ``half`` forward passes are in bfloat16, and channels last.
    """
    if half:
        module = module.to(memory_format=torch.channels_last)
        samples = [(inputs.to(memory_format=torch.channels_last), labels) for inputs, labels in samples]
    state = {name: value.clone() for name, value in module.state_dict().items()}

    def play() -> None:
        total = {name: torch.zeros_like(value) for name, value in state.items()}
        for inputs, labels in samples:
            module.load_state_dict(state)
            optimizer = torch.optim.SGD(module.parameters(), lr=lr)
            for x, y in zip(inputs.split(batch_size), labels.split(batch_size), strict=True):
                optimizer.zero_grad()
                with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
                    outputs = module(x)
                F.cross_entropy(outputs.float(), y).backward()
                optimizer.step()
            for name, value in module.state_dict().items():
                total[name].add_(value, alpha=1 / len(samples))
        state.update(total)
        module.load_state_dict(state)

    return play
