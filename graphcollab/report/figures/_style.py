"""Common style of figures, on top of matplotlib's defaults."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import MaxNLocator

from graphcollab._base.errors import FormatError
from graphcollab._base.files import write_whole
from graphcollab._base.settings import checked

DPI = 150
PANELS = 4  # maximum number in a row
LONG = 24  # maximum number of letters of names at axes; longer ones are shortened
GRAY = "#E3E3E3"
_DATES = {"pdf": "CreationDate", "ps": "CreationDate", "eps": "CreationDate", "svg": "Date"}
"""Metadata to suppress, since they would make two files of the same figure differ."""

# The palette of Okabe and Ito, suitable for color-blind readers; without its yellow, which is faint on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LOOKS = cycler(linestyle=("-", "--", ":", "-.")) * cycler(color=COLORS)
"""Styles of consecutive series, distinct for the first 28."""


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """Return an empty figure, with size in inches, whose layout avoids overlapping text."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="compressed")
    if title:
        figure.suptitle(title)
    return figure


def new_panels(
    count: int, width: float, height: float, beside: float, title: str | None, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels of a size in inches, in as many rows as needed, and room beside them."""
    rows = math.ceil(count / PANELS)
    columns = math.ceil(count / rows)
    figure = new_figure(width * columns + beside, height * rows + 0.4, title)
    panels = figure.subplots(rows, columns, squeeze=False, **shared).flatten().tolist()
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels[:count]


def figure_names(names: Sequence[str]) -> list[str]:
    """Return names with escaped dollar signs; long ones lose their middle unless they would become identical."""
    begin, end = LONG // 2, LONG - LONG // 2 - 1
    short = [n if len(n) <= LONG else f"{n[:begin].rstrip()}…{n[-end:].lstrip()}" for n in names]
    alike = Counter(short)
    return [(s if alike[s] == 1 else n).replace("$", r"\$") for s, n in zip(short, names, strict=True)]


def over_rounds(axes: Axes, ylabel: str, xlabel: str = "round") -> None:
    """Finish a panel of curves over rounds."""
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color=GRAY)


def legend_right(figure: Figure) -> None:
    """Add one legend for all panels to their right."""
    named = {name: line for one in figure.axes for line, name in zip(*one.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), frameon=False, loc="outside right center")


@checked
def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure in the format of the file name's extension, such as ``.png`` or ``.pdf``, and return its path.

    The file is written atomically. Missing folders are created. A ``ValueError`` lists matplotlib's formats.
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
