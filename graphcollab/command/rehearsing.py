"""`graphcollab site`: a site's part in a run between sites, or its rehearsal."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphcollab.command.chosen import OWN, chosen, fixed, method_option, points_of
from graphcollab.command.data import MODEL, OF_TABLE, model_for, require_data
from graphcollab.command.declared import Setting, settings_of
from graphcollab.command.folder import CHECKPOINTS, folder_of, out_for
from graphcollab.command.settings_file import RUN
from graphcollab.command.work import Work, note, tell
from graphcollab.report import site_table
from graphcollab.settings import look_up
from graphcollab.sites import site
from graphcollab.sites.gathering import CONNECTION
from graphcollab.sites.leaving import Leaving
from graphcollab.sites.refused import ONE_RUN
from graphcollab.train import Result, run
from graphcollab_command.wording import on_the_line

__all__ = ["SITE"]

NAME = Setting("name", str, text="Name of this site, as on its certificate.", required=True)
DATA = Setting("data", str, text="A CSV or Parquet file with this site's own rows.", required=True)
REHEARSE = [
    Setting("dry_run", bool, False, "Rehearse: nothing leaves this site, and what would is listed."),
    Setting("others", Sequence[str], (), "Names of the other sites, for the rehearsal. Default: three others."),
]
OF_SITE = [
    *settings_of(site, "site", only=("listeners",)),
    *(one for one in OF_TABLE if one.name not in ("node", "split")),
    *settings_of(run, "run", only=("seed",)),
]
OF_RUN = [one for one in settings_of(run, "run") if one.name not in (*ONE_RUN, "rounds")]
ROUNDS = [one for one in settings_of(run, "run") if one.name == "rounds"]
METHOD = Setting(
    "method", str, None, "The method, the same at all sites.", words=method_option("").words, required=True
)
OUT = out_for(
    "the site's models, their history and checkpoints; the same command goes on where it was stopped, also with more "
    "rounds"
)


def play_site(asked: dict[str, Any]) -> None:
    """Take part in a run, or rehearse it."""
    require_data(asked["data"])
    look_up("method", asked["method"], dict.fromkeys(METHOD.words))
    makers = chosen([asked["method"]])
    points = points_of([*makers], asked[OWN.name])
    method = functools.partial(makers[asked["method"]], **fixed(points, [*makers])[asked["method"]])()
    if not asked["dry_run"] and CONNECTION.get() is None:
        raise ValueError(
            f"{asked['name']} is not connected to other sites: rehearse it by --dry-run; in a job, FLARE starts a "
            "script with the same settings (docs/command_line.md)"
        )
    usual = {one.name: one.default for one in OF_SITE if one.name not in ("listeners", "seed")}
    table = {name: asked[name] for name in usual if asked[name] != usual[name]}
    settings = {one.name: asked[one.name] for one in (*OF_RUN, *ROUNDS)}
    own = {name: {key: v[0] for key, v in told.items()} for name, told in points.items()}
    told = {**{name: value for name, value in asked.items() if name != "quiet"}, OWN.name: own}
    dry_run = asked["others"] or True if asked["dry_run"] else False
    target = table.pop("target", None)
    here = site(asked["name"], asked["data"], target=target, listeners=asked["listeners"], dry_run=dry_run, **table)
    folder = None if asked["dry_run"] else asked["out"]
    with folder_of(folder, "site", told) as out:
        place = None if out is None else out / CHECKPOINTS
        found = here.run(method, model_for(asked["hidden"]), seed=asked["seed"], checkpoint=place, **settings)
        tell(on_the_line(str(found), SITE.settings) if isinstance(found, Leaving) else str(site_table(found)))
        if isinstance(found, Result) and out is not None:
            _write(found, out, asked["quiet"])


def _write(found: Result, out: Path, quiet: bool) -> None:
    found.history.to_json(out / "history.json")
    for path in (found.save(out / "models"), out / "history.json", out / RUN):
        note(f"wrote {path}", quiet)


SITE = Work(
    "site",
    [METHOD, *ROUNDS, *REHEARSE, *OF_SITE, *OF_RUN, *MODEL, OWN, OUT],
    play_site,
    "Take part in a run between sites that keep their data, or rehearse it by --dry-run.",
    NAME,
    DATA,
)
