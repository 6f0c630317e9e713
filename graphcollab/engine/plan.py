"""A storable plan of how the models of one architecture are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from graphcollab._base.errors import ConflictError
from graphcollab._base.settings import Count, check_settings
from graphcollab.engine.modules import MemoryFormat, Padding

GRAPHED = "vmap"  # the backend whose local steps can be recorded as a CUDA graph

BackendName: TypeAlias = Literal["vmap", "loop", "shared"]
Precision: TypeAlias = Literal["full", "bfloat16"]


@dataclass(frozen=True)
class Plan:
    """How the models of one architecture are computed, and why.

    Args:
        backend: ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time.
        reason: The deciding rule, in words.
        padding: Where batches of unequal length may be padded to one length: ``"always"``, only in ``"evaluation"``
            (for models that mix samples in training, and for those that are random in it), or ``"never"``.
        memory_format: Memory layout of images: ``"contiguous"``, channel by channel, or ``"channels_last"``, pixel by
            pixel, which only the loop supports. The nodes' models keep their layout.
        precision: Precision of forward passes: ``"full"``, the models' own, or ``"bfloat16"``.
        microbatch: Maximum number of a node's samples in a pass through a model: gradients of the parts of a larger
            batch add up. Default: the whole batch.
        graphs: Whether local steps of stacked models are recorded as CUDA graphs and replayed.
        random: Whether the model or the loss draws random numbers in training.

    Raises:
        ValueError: If ``"channels_last"`` is used without the loop, or graphs with a backend that does not take steps
            together.
    """

    backend: BackendName
    chunk: Count
    reason: str
    padding: Padding = "always"
    memory_format: MemoryFormat = "contiguous"
    precision: Precision = "full"
    microbatch: Count | None = None
    graphs: bool = False
    random: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.graphs and self.backend != GRAPHED:
            raise ConflictError(
                "graphs", f"backend {self.backend!r} takes no steps together that a graph could hold: graphs=False"
            )
        if self.backend != "loop" and self.memory_format != "contiguous":
            raise ConflictError(
                "memory_format", f"{self.memory_format!r} needs backend 'loop', got {self.backend!r}: take 'contiguous'"
            )
