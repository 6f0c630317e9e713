"""Settings of a run that belong together: `Compute`, where and how models are computed, and `Checkpoint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import torch
from torch import Tensor

from graphcollab._base.errors import UnsupportedError
from graphcollab._base.piece import Field
from graphcollab._base.settings import Count, Natural, check_settings
from graphcollab.components.env import Isolate, Participation
from graphcollab.components.state import LOOP
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.callbacks import Callback
from graphcollab.train.graph_input import Graph
from graphcollab.train.start import Architecture, Model

Placement: TypeAlias = Annotated[Sequence[Natural] | Tensor | None, "the number of a process for every node, or None"]


@dataclass(frozen=True)
class Compute:
    """Where and how models are computed, on which results depend by their last digits at most.

    Args:
        device: Where to compute. ``"auto"``: on the GPU, if there is one.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time. Default: by rule.
        microbatch: Samples of a node that go through its model at once in training, at most (gradient accumulation),
            so memory is that of a part of the batch. Default: by rule, 1,024 tokens (16,384 on a GPU) where nodes share
            most of a model, as under adapters, else all of a batch.
        num_threads: CPU threads. Default: all that ``torch.set_num_threads`` allows for convolutions and large stacked
            models, else one. The caller's setting is restored, and runs in several threads do not change each other's.
        autocast: Compute forward passes in bfloat16.
        placement: In a run of several processes (docs/scaling.md) the process of every node, [K], as numbers from 0.
            Default: that which has a node's samples, where each has those of some (`Tasks.share`); else contiguous
            shares, balanced by local steps of a round (by samples where those are not known).

    Example:
        >>> Compute(device="cpu", num_threads=4).num_threads
        4
    """

    device: torch.device | str = "cpu"
    backend: Literal["auto", "vmap", "loop", "shared"] = "auto"
    chunk: Count | None = None
    microbatch: Count | None = None
    num_threads: Count | None = None
    autocast: bool = False
    placement: Placement = None

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def of(cls, given: Computing) -> Compute:
        """Return settings for which a device alone may stand."""
        return given if isinstance(given, Compute) else cls(given)

    def found_device(self) -> torch.device:
        """Return the device, if it can be computed on; an `UnsupportedError` names those that this machine has."""
        try:
            auto = "cuda" if torch.cuda.is_available() else "cpu"
            found = torch.device(auto if self.device == "auto" else self.device)
            torch.zeros(1, device=found).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            known = ["'cpu'", *(f"'cuda:{k}'" for k in range(torch.cuda.device_count()))]
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UnsupportedError(
                "device", f"device {self.device!r} cannot be used ({reason}); this machine has {', '.join(known)}"
            ) from error
        return found


Computing: TypeAlias = Annotated[Compute | torch.device | str, "a device, such as 'cuda', or Compute(...)"]
"""Where and how to compute: a device, such as ``"cuda"``, or `Compute`."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its checkpoints, how often it saves, and whether it goes on from the newest.

    Args:
        folder: Folder for checkpoints. One run at a time may use it.
        every: Rounds between checkpoints. Default: as often as saving takes at most a tenth of the time, so a killed
            run loses at most one round and ten times what a checkpoint takes. The last state is always saved, also
            after Ctrl-C and before a round that fails.
        resume: Go on from the newest complete checkpoint in the folder if there is one; it must be of the same run:
            method, seed, data, models (with their layers' settings and code), edges, and versions. On a CPU the result
            then equals that of an uninterrupted run bit for bit. More rounds may be asked for, but not fewer than were
            played. If False, start afresh and remove the checkpoints in the folder.
    """

    folder: str | Path
    every: Count | None = None
    resume: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def of(cls, given: Checkpoints) -> Checkpoint | None:
        """Return settings for which a folder alone may stand."""
        return given if isinstance(given, Checkpoint | None) else cls(given)

    def within(self, name: str) -> Checkpoint:
        """Return the same in a folder inside of this one."""
        return replace(self, folder=Path(self.folder) / name)


Checkpoints: TypeAlias = Annotated[Checkpoint | str | Path | None, "a folder, Checkpoint(...), or None"]
"""A folder, or `Checkpoint`; None: no checkpoints are written."""


@dataclass(frozen=True)
class RunSettings:
    """What a run is to do; fields are arguments of `graphcollab.run`."""

    method: Method | Phases
    tasks: Tasks = field(repr=False)
    model: Model
    graph: Graph
    rounds: int
    seed: int
    architecture: Architecture
    evaluate_every: int
    patience: int | None
    callbacks: Sequence[Callback]
    on_nonfinite: str | Isolate
    participation: Participation | None
    checkpoint: Checkpoint | None
    compute: Compute

    @property
    def isolate(self) -> Isolate | bool:
        """Whether nodes that diverge are isolated, and by which bounds."""
        return self.on_nonfinite if isinstance(self.on_nonfinite, Isolate) else self.on_nonfinite == "isolate"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that the state may have."""
        return (*LOOP, *self.method.fields)
