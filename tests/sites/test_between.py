"""What docs/deploying.md says of methods and settings between sites is what happens there."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

from graphcollab import Tasks, methods, run, site
from graphcollab.models import MLP, SplitModel
from graphcollab.sites.site import ONE_RUN
from graphcollab.train import Checkpoint, Compute, WatchMetrics
from tests.sites.apart import early_method
from tests.sites.in_threads import NAMES, meet
from tests.sites.test_every_method import SHOWN
from tests.sites.test_site import require_same

DRAW = torch.Generator().manual_seed(0)
COUNT, FEATURES, CLASSES = 96, 4, 3
PLACE = torch.arange(COUNT) % len(NAMES)
TARGETS = torch.randint(CLASSES, (COUNT,), generator=DRAW)
INPUTS = torch.randn(COUNT, FEATURES, generator=DRAW) + TARGETS[:, None]

# Who lets whom listen, by column of the table: all; Long Beach nobody; two pairs of hospitals.
PAIRS = [NAMES[:2], NAMES[2:]]
LISTENERS = [{}, {"va": []}, {one: [other] for pair in PAIRS for one, other in (pair, pair[::-1])}]
# Adam makes large steps of small gradients, and so of rounding.
STEPS = {"mapl": {"lr": 0.01}}
PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")


def cells_of_page(name: str) -> list[str]:
    """Return what the page says of a method, by who lets whom listen."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | "))
    return [cell.strip() for cell in line.strip("| ").split(" | ")[1:]]


def play(method, listeners=None, rounds=2, settings=lambda name: {}):
    """Return what one process finds, and what each hospital finds."""
    listeners = listeners or {}
    inputs = INPUTS.view(-1, 1, 2, 2) if method.embeds else INPUTS

    def model() -> nn.Module:
        if method.embeds:  # a bias before a batch norm has no gradient but rounding, which Adam makes a step of
            return SplitModel(nn.Flatten(), (1, 2, 2), CLASSES, 5, 4, norm="layer")
        return MLP(FEATURES, (6,), CLASSES)

    edges = [(one, to) for one in NAMES for to in listeners.get(one, NAMES) if to != one] if listeners else None
    tasks = Tasks.from_arrays(inputs, TARGETS, [NAMES[k] for k in PLACE])

    def act(here):
        own, name = NAMES.index(here.name) == PLACE, here.name
        party = site(name, (inputs[own], TARGETS[own]), listeners=listeners.get(name))
        return party.run(method, model, rounds=rounds, **settings(name))

    found = meet(act)
    try:
        alone = run(method, tasks, model, edges, rounds=rounds, **settings("alone"))
    except ValueError as error:
        alone = error
    return alone, found


# Where all listen, test_site.py plays those that are SHOWN, and test_private.py rounds of all methods; here are, of the
# others, those that have several phases, centers, prototypes, or what no site has.
QUICK = [(name, column) for column in (1, 2) for name in SHOWN]
QUICK += [(name, 0) for name in ("directed", "ifca", "mapl", "oracle", "pens")]
COLUMNS = [
    pytest.param(name, column, marks=[] if (name, column) in QUICK else [pytest.mark.slow])
    for column in range(len(LISTENERS))
    for name in methods.__all__
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "column"), COLUMNS)
def test_the_table_of_methods_is_true(name, column):
    """Where a method works, it finds what one process finds; else all sites have the same error before training."""
    said = cells_of_page(name)[column]
    alone, found = play(early_method(name, **STEPS.get(name, {})), LISTENERS[column])
    if said == "works":
        require_same(alone, found)
        return
    why = said.removeprefix("refused: ")
    (error,) = {str(one) for one in found.values()}
    assert all(isinstance(one, ValueError) for one in found.values())
    if why == "averages are told to all":
        assert "tells all sites the averages of those who may hear each other" in error
    else:
        assert error.startswith(why.removesuffix(" all"))


def test_the_table_has_every_method():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    listed = [line.split("`")[1] for line in rows if "works" in line or "refused: " in line]
    assert listed == methods.__all__


# Those of a group are tried together.
SETTINGS = {
    "loop": {
        "seed": 3,
        "architecture": [0, 0, 0, 0],
        "evaluate_every": 2,
        "callbacks": lambda name: [WatchMetrics(["log_loss", "brier"], ("val", "test"))],
        "on_nonfinite": "isolate",
    },
    "checkpoints": {
        "checkpoint": lambda name: Checkpoint(name, every=1, resume=False),
        "compute": Compute("cpu", "loop", chunk=1, microbatch=4, num_threads=1),
    },
    "autocast": {"compute": Compute(autocast=True)},
}


def test_every_setting_is_tried_or_refused():
    known = {*inspect.signature(run).parameters} - {"method", "model", "rounds"}
    assert {setting for group in SETTINGS.values() for setting in group} == known - {*ONE_RUN}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", SETTINGS)
def test_settings_that_are_not_refused_work(group, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def settings(site):
        return {name: value(site) if callable(value) else value for name, value in SETTINGS[group].items()}

    require_same(*play(methods.l2c(epochs=1), settings=settings))
