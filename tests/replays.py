"""Replays without a card: operations are traced once, and replayed on the tensors that they were traced on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch.fx.experimental.proxy_tensor import make_fx

from graphcollab.engine import static_steps


def trace(monkeypatch: Any) -> list[Any]:
    """Trace what would be recorded as a CUDA graph, and return the traces."""
    made: list[Any] = []

    def record(step: Any, changed: Any, memory: Any) -> SimpleNamespace:
        made.append(make_fx(step)())
        return SimpleNamespace(replay=made[-1])

    monkeypatch.setattr(static_steps, "record", record)
    return made
