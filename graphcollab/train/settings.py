"""Grouped settings of a run: `Compute`, where and how models are computed, and `Checkpoint`."""

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
from graphcollab.components import Isolate, Participation
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
    """Where and how models are computed; results depend on it in their last digits at most.

    Args:
        device: Device to compute on. ``"auto"``: the GPU, if there is one.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``.
        chunk: Rows computed at a time. Default: by rule.
        microbatch: Maximum number of samples of a node that pass through its model at once in training (gradient
            accumulation); memory is that of such a part of the batch. Default: by rule, 1,024 tokens (16,384 on a GPU)
            if nodes share most of a model, as with adapters, else the whole batch.
        num_threads: CPU threads. Default: all that ``torch.set_num_threads`` allows for convolutions and large stacked
            models, else one. The caller's setting is restored, and runs in several threads do not affect each other's.
        autocast: Compute forward passes in bfloat16.
        placement: In a multi-process run (docs/scaling.md), the process of every node, [K], as numbers from 0.
            Default: the process that has a node's samples, if each has those of some nodes (`Tasks.share`); else
            contiguous shares, balanced by the local steps of a round (by samples if the steps are not known).

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
        """Return the settings, for which a device alone is accepted as well."""
        return given if isinstance(given, Compute) else cls(given)

    def found_device(self) -> torch.device:
        """Return the device if it is usable; an `UnsupportedError` names the devices of this machine."""
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
    """Where a run keeps its checkpoints, how often it saves, and whether it resumes from the newest.

    Args:
        folder: Folder for checkpoints. Only one run at a time may use it.
        every: Rounds between checkpoints. Default: as often as possible with saving taking at most a tenth of the time,
            so a killed run loses at most one round and ten times the duration of a checkpoint. The last state is always
            saved, also after Ctrl-C and before a round that fails.
        resume: Resume from the newest complete checkpoint in the folder, if there is one; it must be of the same run:
            method, seed, data, models (with their layers' settings and code), edges, and versions. On a CPU the result
            then equals that of an uninterrupted run bit for bit. You may request more rounds, but not fewer than were
            played. If False, start afresh and remove the checkpoints in the folder.
    """

    folder: str | Path
    every: Count | None = None
    resume: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    @classmethod
    def of(cls, given: Checkpoints) -> Checkpoint | None:
        """Return the settings, for which a folder alone is accepted as well."""
        return given if isinstance(given, Checkpoint | None) else cls(given)

    def within(self, name: str) -> Checkpoint:
        """Return the same settings with a subfolder of this folder."""
        return replace(self, folder=Path(self.folder) / name)


Checkpoints: TypeAlias = Annotated[Checkpoint | str | Path | None, "a folder, Checkpoint(...), or None"]
"""A folder, or `Checkpoint`; None: no checkpoints are written."""


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run; fields are arguments of `graphcollab.run`."""

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
        """Whether diverged nodes are isolated, and by which bounds."""
        return self.on_nonfinite if isinstance(self.on_nonfinite, Isolate) else self.on_nonfinite == "isolate"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that the state may have."""
        return (*LOOP, *self.method.fields)
