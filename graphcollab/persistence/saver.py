"""`Saver`: when a run is saved, and which checkpoints its folder keeps."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from graphcollab._base.errors import MismatchError
from graphcollab._base.files import flush_folder, own_name
from graphcollab._base.piece import Field
from graphcollab.comm.plane import Plane
from graphcollab.components.state import LOOP, split_rows, tell_all
from graphcollab.persistence.checkpoint import (
    Loaded,
    is_stale,
    list_checkpoints,
    newest,
    remove_checkpoint,
    write_checkpoint,
    write_rows,
)
from graphcollab.persistence.folder import encode
from graphcollab.persistence.history import History

KEEP = 2
SHARE = 0.1  # maximum share of a run's time for saving if the user does not set how often to save


class Saver:
    """Writes the checkpoints of a run into a folder that it has locked, and keeps the last two, which share no byte."""

    def __init__(
        self, folder: str | Path, every: int | None = None, plane: Plane | None = None, fields: Sequence[Field] = LOOP
    ) -> None:
        self.folder, self.every, self.plane, self.fields = Path(folder), every, plane or Plane(), fields
        self.about: Mapping[str, Any] = {}
        self._saved = (0, 0)  # rounds and evaluations of the last one; before the first there is nothing to save
        self._cost, self._end = 0.0, -float("inf")
        self._kept: list[Path] = []

    def resume(self) -> Loaded | None:
        """Return the newest undamaged checkpoint, or None if there is none; see `newest`."""
        found = newest(self.folder)
        if (
            not self.plane.cross_silo
            and len({*self.plane.all_gather_object(None if found is None else found[0].name)}) > 1
        ):
            raise MismatchError(
                "checkpoint",
                f"processes see other checkpoints in {self.folder}: it must be on a disk that all of them share",
            )
        if found is None:
            return None
        path, (data, history, about) = found
        self._kept, self._saved = [path], (data.round, len(history))
        return data, history, about

    def begin(self, about: Mapping[str, Any], data: Data, afresh: bool) -> None:
        """Set the run's identity, reject data that cannot be stored, and remove unfinished files, or all if afresh."""
        encode(data.to_dict(), "data", {}, copy=False)
        self.about = about
        if not self.plane.is_main:
            return
        self._clean([] if afresh else list_checkpoints(self.folder))

    def due(self, round_: int) -> bool:
        """Return whether it is time to save, by this process's clock: the main process decides."""
        if self.every is not None:
            return round_ % self.every == 0
        return time.perf_counter() - self._end >= self._cost * (1 / SHARE - 1)

    def save(self, data: Data, history: History) -> Path:
        """Write a checkpoint, and return its path."""
        began = time.perf_counter()
        with self.plane.raise_on_all():
            path = self._save(data, history)
        self._saved = (data.round, len(history))
        self._end = time.perf_counter()
        self._cost = self._end - began
        return path

    def _save(self, data: Data, history: History) -> Path:
        plane = self.plane
        names = (f"round-{data.round:06d}{f'-{again}' if again else ''}" for again in itertools.count())
        path = next(path for path in map(self.folder.joinpath, names) if not os.path.lexists(path))
        part = own_name(path)
        if not plane.cross_silo:
            path, part = map(self.folder.joinpath, plane.all_gather_object([path.name, part.name])[0])
        try:
            if plane.is_main:
                part.mkdir(parents=True)
            state, rows = data.to_dict(), list[Mapping[str, str]]()
            if not plane.alone:
                state, own = split_rows(tell_all(data, self.fields, plane).to_dict(), self.fields)
                written = write_rows(part, plane.own, own)
                rows = [written] if plane.cross_silo else plane.all_gather_object(written)
            if plane.is_main:
                self._finish_part(part, path, state, rows, history)
        except BaseException:
            if plane.is_main:
                shutil.rmtree(part, ignore_errors=True)
            raise
        return path

    def _finish_part(
        self, part: Path, path: Path, state: Mapping[str, Any], rows: Sequence[Mapping[str, str]], history: History
    ) -> None:
        write_checkpoint(part, state, history, self.about, rows)
        part.rename(path)
        flush_folder(self.folder)
        self._kept = [*self._kept, path][-KEEP:]
        self._clean(self._kept)

    def finish(self, data: Data, history: History) -> None:
        """Write a checkpoint, unless the last one is of the same state."""
        if self._saved != (data.round, len(history)):
            self.save(data, history)

    def _clean(self, keep: list[Path]) -> None:
        for path in [*filter(is_stale, self.folder.iterdir()), *list_checkpoints(self.folder)]:
            if path not in keep:
                remove_checkpoint(path)
