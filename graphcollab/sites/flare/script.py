"""`the_script`: the file that a site runs in every job, as the environment of its FLARE client names it."""

from __future__ import annotations

import os
from pathlib import Path

from graphcollab.errors import MissingFileError

SCRIPT = "GRAPHCOLLAB_SITE"


def the_script() -> str:
    """Return the path of this site's own script; an error says what to do if there is none."""
    path = os.environ.get(SCRIPT, "")
    if os.access(path, os.R_OK) and Path(path).is_file():
        return path
    given = f"is {path!r}, which is no file that this user can read" if path else "is not set"
    raise MissingFileError(
        SCRIPT,
        f"{SCRIPT} {given}, so this site cannot take part in jobs: start its client with the absolute path of the "
        f"site's own script, {SCRIPT}=/srv/hearts/site.py bash startup/sub_start.sh --once",
    )
