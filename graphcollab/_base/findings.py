"""`Finding`: something that was noticed, as a value; each medium renders it, and nobody parses its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something noticed in the data or in a result.

    Args:
        code: The kind of finding, such as ``"sentinel"`` or ``"tells-target"``.
        subject: What it is about, such as ``"column 'age'"`` or ``"site 'basel'"``.
        message: The finding in one sentence, and what to do.
        numbers: The figures in it, by name.
    """

    code: str
    subject: str
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message
