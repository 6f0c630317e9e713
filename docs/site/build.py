"""Build the documentation site from the pages and the docstrings: ``make docs``.

Pages are written for GitHub, and stay as they are. The site's sources are put together in a folder beside the site:
the pages, in the order of docs/index.md, and a page of the reference for every public package. Sphinx reads these.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

sys.path.insert(0, str(Path(__file__).parent))
from names import reference
from pages import pages

ROOT = Path(__file__).parents[2]


def build(out: Path) -> int:
    """Build the site into a folder; whatever Sphinx warns of makes it fail, after everything has been read."""
    source = out.with_name(f"{out.name}-source")
    texts = {**pages(ROOT), **reference()}
    for old in [one for one in source.rglob("*") if one.is_file()]:
        if old.relative_to(source).as_posix() not in texts:
            old.unlink()
    for name, text in texts.items():
        write(source / name, text)
    kept = out.with_name(f"{out.name}-kept")  # what has been read, for the next time
    options = ["-q", "-n", "-W", "-c", str(Path(__file__).parent), "-d", str(kept)]
    return sphinx([*options, str(source), str(out)])


def write(path: Path, text: str | bytes) -> None:
    """Write a file if that changes it: what stays as it was is not read again."""
    new = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != new:
        path.write_bytes(new)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="folder (default: build/docs)")
    out = parser.parse_args().out.resolve()
    sys.exit(build(out) or print(f"open {out / 'index.html'}"))
