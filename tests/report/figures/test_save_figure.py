from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import image
from matplotlib.figure import Figure

from graphcollab.report import save_figure
from graphcollab.report.figures._style import new_figure
from tests.raising import raises


def test_png_has_the_size_in_inches_times_150(tmp_path: Path) -> None:
    path = save_figure(new_figure(2, 1, "title"), tmp_path / "new" / "a.png")
    assert image.imread(path).shape == (150, 300, 4)
    assert [file.name for file in path.parent.iterdir()] == ["a.png"]


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_the_same_picture_is_the_same_file(tmp_path: Path, kind: str) -> None:
    one, other = (save_figure(new_figure(1, 1), tmp_path / f"{n}.{kind}").read_bytes() for n in range(2))
    assert one == other


def test_unknown_ending(tmp_path: Path) -> None:
    with raises("format", "path", "'a.txt'"):
        save_figure(Figure(), tmp_path / "a.txt")
