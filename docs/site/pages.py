"""The pages of the site: those of the repository, in the groups of docs/index.md."""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path

FOUND = ("*.md", "LICENSE", "docs/*.md", "docs/*/*.md", "docs/images/*", "datasets/*.md")
START = "index.md"  # what the README becomes
ADDED = {"Start": ["docs/index.md"], "Reference": ["api/index.rst"]}  # to the groups of the index
ROW = re.compile(r"(?:^\| |, )\[[^\]]+\]\((?!\.\./README\.md)(.+?)\)", re.MULTILINE)  # a page, in a table


def pages(root: Path) -> dict[str, str | bytes]:
    """Return all pages, and what they link to, by their place in the site."""
    files = {path.relative_to(root).as_posix(): path for pattern in FOUND for path in sorted(root.glob(pattern))}
    texts: dict[str, str | bytes] = {}
    for name, path in files.items():
        if path.suffix != ".md":
            texts[name] = path.read_bytes()
        else:
            texts[START if name == "README.md" else name] = at_start(name, path.read_text(encoding="utf-8"))
    index = (root / "docs" / "index.md").read_text(encoding="utf-8")
    texts[START] = f"{texts[START]}\n{contents(index)}"
    texts["datasets/README.md"] = f"{texts['datasets/README.md']}\n{tree('', ['*'], 'glob')}"
    return texts


def at_start(name: str, text: str) -> str:
    """Return a page whose links to the README lead to the first page, which the README is here."""
    up = "../" * name.count("/")
    return text.replace(f"]({up}README.md", f"]({up}{START}")


def contents(index: str) -> str:
    """Return the tables of contents: a group for every heading of the index, with the pages of its table."""
    groups = re.split(r"^## (.+)\n", index, flags=re.MULTILINE)[1:]
    return "\n".join(
        tree(title, [*ADDED.get(title, []), *(place(link) for link in ROW.findall(rows))])
        for title, rows in zip(groups[::2], groups[1::2], strict=True)
    )


def place(link: str) -> str:
    """Return where the site has what the index links."""
    return normpath(f"docs/{link}")


def tree(title: str, entries: list[str], *options: str) -> str:
    """Return a table of contents that is shown at the side only."""
    lines = [f":caption: {title}"] * bool(title) + [":hidden:", *(f":{one}:" for one in options)]
    return "\n".join(["```{toctree}", *lines, "", *entries, "```", ""])
