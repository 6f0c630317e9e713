"""`Past`: what sites told each other before the first round, for a site whose script is started again."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

from graphcollab.errors import MismatchError
from graphcollab.sites.frame import Frame, FrameError

HEAD = struct.Struct("<16sI")  # a checksum of what this site told, and how many messages came
ITEM = struct.Struct("<IQ")  # lengths of a sender's name and of its message


class Past:
    """A file with what was told outside of rounds, so that a script that is started again need not ask for it.

    A script asks for the same in the same order whenever it is started. If the others do not know this site
    (``known``), what the file holds is of another run. Without a ``path`` nothing is kept.
    """

    def __init__(self, path: Path | None, known: bool = False) -> None:
        self.path, self._records = path, list[tuple[bytes, dict[str, Frame]]]()
        if path is None:
            return
        length = self._read(path.read_bytes()) if known and path.is_file() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(length)  # what a killed process had not finished, or another run has left
        self._records.reverse()

    @property
    def recalls(self) -> bool:
        """Whether there is something left of what was told before."""
        return bool(self._records)

    def recall(self, told: bytes | None) -> dict[str, Frame]:
        """Return what came, by sender, when this site told the same, by checksum (None: any); else a ValueError."""
        before, frames = self._records.pop()
        if told not in (None, before):
            raise MismatchError(
                "data",
                "this site tells something else than when the run began: its data or its script have changed since, "
                "so it cannot come back into the run",
            )
        return frames

    def keep(self, told: bytes, frames: Mapping[str, Frame]) -> None:
        """Write down what has come."""
        if self.path is None:
            return
        parts = [HEAD.pack(told, len(frames))]
        for sender, frame in frames.items():
            name, content = sender.encode(), frame.pack()
            parts += [ITEM.pack(len(name), len(content)), name, content]
        with self.path.open("ab") as file:
            file.write(b"".join(parts))
            file.flush()
            os.fsync(file.fileno())

    def _read(self, content: bytes) -> int:
        """Read whole records, and return where the last of them ends."""
        end = 0
        while True:
            try:
                told, many = HEAD.unpack_from(content, end)
                at, frames = end + HEAD.size, dict[str, Frame]()
                for _ in range(many):
                    name, length = ITEM.unpack_from(content, at)
                    at += ITEM.size + name
                    frames[content[at - name : at].decode()] = Frame.unpack(content[at : at + length])
                    at += length
            except (struct.error, FrameError, UnicodeDecodeError):
                return end
            self._records.append((told, frames))
            end = at
