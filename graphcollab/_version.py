"""The package's version, for those of its parts that write it into files."""

from __future__ import annotations

__version__ = "0.1.0"
