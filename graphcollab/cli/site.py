"""`graphcollab site`: a site's part in a run between sites, or its rehearsal."""

from __future__ import annotations

from typing import Any

from graphcollab._base.errors import StateError
from graphcollab._base.files import write_whole
from graphcollab.cli.data import changed, model_for, require_data
from graphcollab.cli.folder import CHECKPOINTS, RUN, note_files, request_of, require_free, tell
from graphcollab.cli.options import Columns, Training, compute_of
from graphcollab.cli.values import only_values
from graphcollab.methods import get_method
from graphcollab.report import site_table
from graphcollab.sites.site import site
from graphcollab.sites.transport import CONNECTION
from graphcollab.train import Result


def play_site(asked: dict[str, Any]) -> None:
    """Take part in a run, or rehearse it."""
    name, data = asked["name"], str(asked["data"])
    require_data(data)
    method = get_method(asked["method"])(**only_values(asked["method"], asked["set"]))
    if not asked["dry_run"] and CONNECTION.get() is None:
        raise StateError(
            "dry_run", f"{name} is not connected to other sites: rehearse by --dry-run, or see docs/command_line.md"
        )
    dry_run = (asked["others"] or True) if asked["dry_run"] else False
    here = site(name, data, listeners=asked["listeners"], dry_run=dry_run, **changed(Columns, asked))
    settings = {key: asked[key] for key in ("rounds", "seed", *vars(Training()))}
    settings["compute"] = compute_of(asked)
    out, request = None if asked["dry_run"] else asked["out"], request_of("site", asked)
    require_free(out, request)
    checkpoint = None if out is None else out / CHECKPOINTS
    found = here.run(method, model_for(asked["hidden"]), checkpoint=checkpoint, **settings)
    tell(str(site_table(found) if isinstance(found, Result) else found))
    if isinstance(found, Result) and out is not None:
        found.history.to_json(out / "history.json")
        run = write_whole(out / RUN, request.encode())
        note_files([found.save(out / "models"), out / "history.json", run], asked["quiet"])
