"""Figures written to files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from graphcollab.errors import FormatError
from graphcollab.files import write_whole
from graphcollab.settings import checked

# What would make two files of the same picture differ.
_DATES = {"pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate", "svg": "Date"}


@checked
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format that the file name ends with, such as ``.png`` or ``.pdf``, and return its path.

    The file is there whole or not at all. Missing folders are made. A ``ValueError`` names the formats of matplotlib.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise FormatError("path", f"the file name must end in one of {', '.join(known)}, got {path.name!r}")
    content = BytesIO()
    metadata = {_DATES[kind]: None} if kind in _DATES else None
    figure.savefig(content, format=kind, dpi=figure.dpi, metadata=metadata)
    return write_whole(path, content.getvalue())
