"""Writing figures."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from graphcollab.files import write_whole
from graphcollab.settings import checked

__all__ = ["save_figure"]

# What would make two files of the same picture differ.
_DATES = {"pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate", "svg": "Date"}


@checked
def save_figure(figure: Figure, path: str | Path) -> Path:
    r"""Write a figure in the format that the file name ends with; the file is there whole or not at all.

    Missing folders are made.

    Args:
        figure: The figure.
        path: A name that ends in ``.png``, ``.pdf``, ``.svg`` or another format of matplotlib's.

    Returns:
        The path.

    Raises:
        ValueError: If the name ends in no known format.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_figure(Figure(), f"{folder}/empty.png").read_bytes()[:4]
        b'\x89PNG'
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if kind not in known:
        raise ValueError(f"the file name must end in one of {', '.join(known)}, got {path.name!r}")
    content = BytesIO()
    metadata = {_DATES[kind]: None} if kind in _DATES else None
    figure.savefig(content, format=kind, dpi=figure.dpi, metadata=metadata)
    return write_whole(path, content.getvalue())
