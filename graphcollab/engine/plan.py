"""How the models of one architecture are computed, as a value that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Count, check_settings
from graphcollab.engine.modules import MemoryFormat, Padding

GRAPHED = "vmap"  # the backend whose local steps a CUDA graph can hold

BackendName: TypeAlias = Literal["vmap", "loop", "shared"]
Precision: TypeAlias = Literal["full", "bfloat16"]


@dataclass(frozen=True)
class Plan:
    """How the models of one architecture are computed, and why.

    Args:
        backend: ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time.
        reason: The rule that decided, in words.
        padding: Where batches of unequal length may be padded to one: ``"always"``, only in ``"evaluation"`` (of models
            that look across the batch in training, and of those that are random in it), or ``"never"``.
        memory_format: How images lie in memory: ``"contiguous"``, channel by channel, or ``"channels_last"``, pixel by
            pixel, which the loop alone can do. The nodes' models stay as they are.
        precision: That of forward passes: ``"full"``, the models' own, or ``"bfloat16"``.
        microbatch: Samples of a node that go through a model at once, at most: gradients of the parts of a larger
            batch add up. Default: all of a batch.
        graphs: Whether local steps of stacked models are recorded as CUDA graphs and replayed.

    Raises:
        ValueError: If other models than those of a loop are to have their channels last, or a backend that takes no
            steps together is to have graphs.
    """

    backend: BackendName
    chunk: Count
    reason: str
    padding: Padding = "always"
    memory_format: MemoryFormat = "contiguous"
    precision: Precision = "full"
    microbatch: Count | None = None
    graphs: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.graphs and self.backend != GRAPHED:
            raise ConflictError(
                "graphs", f"backend {self.backend!r} takes no steps together that a graph could hold: graphs=False"
            )
        if self.backend != "loop" and self.memory_format != "contiguous":
            raise ConflictError(
                "memory_format",
                f"stacked models cannot have memory_format={self.memory_format!r}: take 'contiguous', or "
                "backend 'loop'",
            )
