"""``python -m graphcollab``: the command ``graphcollab``."""

from __future__ import annotations

from graphcollab.cli.app import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
