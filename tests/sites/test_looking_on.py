"""What looks on at runs between sites: callbacks, figures, comparisons; and what these find if a site is lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from graphcollab import compare, methods, run
from graphcollab.analysis.metrics.traffic import contact_counts
from graphcollab.report import accuracy_curves, weight_heatmaps
from graphcollab.sites.transport import CONNECTION
from graphcollab.train import Callback, RecordGraph, session
from tests.data.rooms import prepared
from tests.raising import raises
from tests.sites.in_threads import COLUMNS, NAMES, ROWS, SETTINGS, meet, pooled_tasks, small
from tests.sites.test_site import require_same


class Ends(Callback):
    """Has seen enough after two rounds."""

    def should_stop(self, data: Any, history: Any) -> bool:
        return bool(data.round >= 2)


def test_a_callback_may_end_a_run_at_all_sites():
    found = meet(lambda here: here.run(methods.l2c(epochs=1), small, rounds=5, callbacks=[Ends()]))
    assert [one.history.rounds for one in found.values()] == [[1, 2]] * len(NAMES)


def test_classes_that_weigh_unlike():
    settings = {**SETTINGS, "loss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]))}
    method = methods.l2c(epochs=1)
    alone = run(method, prepared(COLUMNS, node="hospital", **settings), small, rounds=2)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=2), **dict.fromkeys(NAMES, settings)))


def test_comparisons_along_edges():
    made = {"l2c": partial(methods.l2c, epochs=1), "dpsgd": methods.dpsgd}
    edges = [("va", "cleveland"), ("hungarian", "va")]
    settings = {"seeds": (0,), "rounds": 2, "graphs": {"l2c": edges}}
    alone = compare(made, pooled_tasks, small, **settings)
    for own in meet(lambda here: here.compare(made, small, **settings)).values():
        assert str(own) == str(alone)


def cells(figure: Any, panel: int) -> list[list[str]]:
    """Return what is written into the cells of a heat map."""
    axes = figure.axes[panel]
    found = [[""] * len(NAMES) for _ in NAMES]
    for text in axes.texts:
        column, row = text.get_position()
        found[row][column] = text.get_text()
    return found


def test_a_site_draws_the_weights_that_it_knows():
    def act(here):
        result = here.run(methods.l2c(epochs=1), small, rounds=2, callbacks=[RecordGraph([1, 2])])
        compared = here.compare(
            {"l2c": lambda: methods.l2c(epochs=1)}, small, seeds=(0,), rounds=2, callbacks=[RecordGraph([1, 2])]
        )
        return result, compared

    for k, (result, compared) in enumerate(meet(act).values()):
        matrix = result.graph().matrix()
        drawn = {"result": result, "graph": result.graph(), "comparison": compared.results["l2c"]}
        for what, figure in {what: weight_heatmaps(one) for what, one in drawn.items()}.items():
            written = cells(figure, -2)
            assert written[k] == [f"{weight:.2f}" for weight in matrix[k].tolist()], what
            assert all(row == ["?"] * len(NAMES) for i, row in enumerate(written) if i != k), what
            assert figure.axes[-2].get_xlabel().endswith("?: known to the receiver alone")
        assert len(accuracy_curves(compared).axes[0].lines) == 1
        with raises("not-finite", "edge_weight", "2"):
            contact_counts(result.history.graphs, len(NAMES))


class PowerCut(BaseException):
    """A site stops at once."""


@dataclass
class Notes(Callback):
    """Notes what was evaluated."""

    seen: list[int] = field(default_factory=list)

    def on_evaluate(self, data: Any, history: Any) -> None:
        self.seen.append(int(data.round))


@pytest.mark.filterwarnings("ignore:.*goes on without")
def test_callbacks_hear_of_an_evaluation_in_which_a_site_was_lost(monkeypatch):
    """The last word of an evaluation is what the state is for those who look on; whoever is lost there spoils all."""
    tell_all = session.tell_all

    def cut(data, *more):
        if CONNECTION.get().name == "va" and data.round == 1:
            raise PowerCut
        return tell_all(data, *more)

    monkeypatch.setattr(session, "tell_all", cut)

    def act(here):
        notes = Notes()
        return here.run(methods.l2c(epochs=1), small, rounds=3, callbacks=[notes]).history, notes

    found = meet(act)
    assert isinstance(found.pop("va"), PowerCut)
    for history, notes in found.values():
        assert history.rounds == [1, 2, 3]
        assert notes.seen == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:.*(is not defined|one class)")
@pytest.mark.parametrize("name", ["fedavg", "l2c"])
def test_a_site_of_one_class_takes_part_where_the_metric_is_not_defined_there(name):
    method, auc = getattr(methods, name)(epochs=1), {**SETTINGS, "metric": "auc"}
    ill = {column: values[ROWS["hungarian"]["disease"] == 1] for column, values in ROWS["hungarian"].items()}
    given = {**dict.fromkeys(NAMES, auc), "hungarian": {**auc, "rows": ill}}
    kept = (COLUMNS["hospital"] != "hungarian") | (COLUMNS["disease"] == 1)
    every = {column: values[kept] for column, values in COLUMNS.items()}
    alone = run(method, prepared(every, node="hospital", **auc), small, rounds=3)
    require_same(alone, meet(lambda here: here.run(method, small, rounds=3), **given))
