"""`Finding`: an observation as a value, which every medium renders without parsing text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """An observation about the data or a result.

    Args:
        code: The kind of finding, such as ``"sentinel"`` or ``"tells-target"``.
        subject: Its subject, such as ``"column 'age'"`` or ``"site 'basel'"``.
        message: The finding in one sentence, with a recommended action.
        numbers: Its figures by name.
    """

    code: str
    subject: str
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message
