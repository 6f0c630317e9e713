"""`Comparison.final`: models fitted to all rows by what was chosen, and one of all sites."""

from __future__ import annotations

import pickle
from functools import partial
from statistics import median

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import GraphcollabError, Tasks, build_model, compare, load, run
from graphcollab.analysis.final import Final, with_all_rows
from graphcollab.analysis.trials import Contestant
from graphcollab.data.samples import Pool, Split
from graphcollab.methods import fedavg, local, meta_l2c
from graphcollab.persistence.answers import Answers
from tests.raising import warns

NAMES = ("east", "north", "west")


def samples():
    """Three sites of 12 samples with two classes, which differ in the first number."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(36, 2, generator=draw)
    y = (x[:, 0] + 0.5 * torch.randn(36, generator=draw) > 0).long()
    return {name: (x[k::3], y[k::3]) for k, name in enumerate(NAMES)}


def dealt(seed: int) -> Tasks:
    return Tasks.from_samples(samples(), val_fraction=0).hold_out(0.25, seed, into="test").hold_out(0.25, seed)


def linear(tasks: Tasks) -> nn.Module:
    return build_model("mlp", tasks.input_shape, 2, hidden=())


@pytest.fixture(scope="module")
def compared():
    grids = {"*": {"lr": [0.01, 0.3]}}
    made = {"local": local, "fedavg": fedavg}
    return compare(made, dealt, linear, [0, 1, 2], grids, rounds=8, patience=2)


def parameters(module: nn.Module) -> torch.Tensor:
    return torch.cat([one.detach().flatten() for one in module.parameters()])


def test_all_rows_are_put_together_once():
    tasks = with_all_rows(dealt(1))
    assert tasks.sizes("train").tolist() == [12, 12, 12]
    assert [*tasks.splits] == ["train"]
    for k, name in enumerate(NAMES):
        own = tasks.splits["train"].of(k)
        assert torch.equal(tasks.pools["all"].inputs[own], samples()[name][0])
        assert torch.equal(tasks.pools["all"].targets[own], samples()[name][1])
    x, y = samples()["east"]
    apart = Tasks.from_samples([(x[:4], y[:4])], val=[(x[4:6], y[4:6])], test=[(x[6:], y[6:])])
    whole = with_all_rows(apart, {"val"})
    assert torch.equal(whole.pools["all"].inputs[whole.splits["train"].of(0)], torch.cat([x[:4], x[6:]]))
    assert torch.equal(whole.pools["all"].inputs[whole.splits["val"].of(0)], x[4:6])


def test_final_models_are_those_of_one_run_on_all_rows(compared):
    """As many rounds as the median over seeds of the best ones, by the chosen step size, and from the last seed."""
    rounds = int(median(trial.kept for trial in compared.chosen["local"]))
    assert len({trial.kept for trial in compared.chosen["local"]}) > 1
    setting = compared.chosen["local"][0].setting
    pool = Pool(*(torch.cat(parts) for parts in zip(*samples().values(), strict=True)))
    split = Split.from_lists("all", list(torch.arange(36).split(12)))
    whole = Tasks({"all": pool}, {"train": split}, NAMES, node_id=dealt(0).ids)
    alone = run(local(**setting), whole, linear, rounds=rounds, seed=2)
    final = compared.final("local")
    assert final.result.data.round == rounds
    for name in NAMES:
        assert torch.equal(parameters(final.result.model(name)), parameters(alone.model(name)))
    together = run(fedavg(**setting), whole, linear, rounds=rounds, seed=2)
    assert torch.equal(final.shared, parameters(together.model(0)))
    assert not torch.equal(final.shared, parameters(alone.model(0)))


def test_a_method_that_ends_in_one_model_has_that_for_others(compared):
    final = compared.final("fedavg")
    assert torch.equal(final.shared, parameters(final.result.model("west")))


def test_best_rounds_are_those_of_the_validation_metric():
    """The median is of rounds that were kept, not of those that were played."""
    comparison = compare({"local": local}, dealt, linear, [0, 1], {"local": {"lr": [0.3]}}, rounds=9, patience=3)
    for trial in comparison.chosen["local"]:
        result = run(local(lr=0.3), dealt(trial.seed), linear, rounds=9, seed=trial.seed, patience=3)
        means = zip(*map(result.history.mean, ("val_metric", "val_loss")), strict=True)
        order = [(metric, -loss) for metric, loss in means]  # of equal metrics the smaller loss
        assert trial.kept == result.history.rounds[order.index(max(order))]
        assert trial.kept <= trial.rounds


@pytest.mark.filterwarnings("ignore:.*weights")
def test_a_method_that_needs_validation_samples_keeps_them():
    comparison = compare({"meta_l2c": meta_l2c}, dealt, linear, [0, 1], rounds=2)
    tasks = comparison.final("meta_l2c").result.tasks
    held = [int(dealt(1).sizes("val")[k]) for k in range(3)]
    assert tasks.sizes("val").tolist() == held
    assert tasks.sizes("train").tolist() == [12 - one for one in held]
    assert "fitted to all 36 rows, 6 of them to learn weights by, in " in comparison.final("meta_l2c").how


def test_what_was_saved_answers_for_sites_that_have_no_model(compared, tmp_path):
    final = compared.final("local", constant=torch.full((1, 3), 0.4), flat="the class frequencies")
    models = load(final.save(tmp_path / "final"))
    assert models.has_shared
    x = samples()["north"][0]
    linear_ = nn.functional.linear(x, final.shared[:4].reshape(2, 2), final.shared[4:])
    assert np.array_equal(models.predict(None, x), linear_.argmax(1).numpy())
    assert np.allclose(models.predict_proba(None, x), linear_.softmax(1).numpy())
    assert torch.equal(parameters(models.model("north")), parameters(final.result.model("north")))
    with pytest.raises(KeyError, match=r"there is no site 'basel'.*for another site give None"):
        models.predict("basel", x)
    assert models.about["made"].startswith("fitted to all 36 rows in ")
    means = torch.tensor([trial.per_node for trial in compared.chosen["local"]]).mean(0).tolist()
    assert models.about["means"]["test"] == pytest.approx(means)
    assert models.about["rows"] == 36
    assert models.about["setting"] == compared.chosen["local"][0].setting
    plain = load(compared.results["local"].save(tmp_path / "plain"))
    assert not plain.has_shared
    with pytest.raises(GraphcollabError, match="no model of all sites was saved"):
        plain.model(None)


def test_models_no_better_than_constants_are_warned_of(compared):
    means = torch.tensor([trial.per_node for trial in compared.chosen["local"]]).double().mean(0)
    words = {0.1: "at 3 of 3 sites (east, north, west)", -0.1: ""}
    for above, where in words.items():
        final = compared.final("local", constant=(means + above)[None], flat="the class frequencies")
        assert final.warning.endswith(where)
        assert ("in the mean over sites" in final.warning) == bool(where)
    final = compared.final(
        "local", constant=torch.stack([means[:1] - 0.1, means[1:2], means[2:] - 0.1], 1), flat="a constant"
    )
    assert (
        final.warning == "on test rows such models were no better in accuracy than a constant at 1 of 3 sites (north)"
    )


def test_sites_with_means_of_their_own_leave_none_for_others():
    rows = {"site": ["a", "b"] * 12, "age": [*range(24)], "y": [0, 0, 1, 1] * 6}
    deal = lambda seed: Tasks.from_frame(rows, pooled="per_site", seed=seed)  # noqa: E731
    assert compare({"local": local}, deal, linear, [0], rounds=1).final("local").shared is None


def test_a_comparison_that_was_pickled_says_what_it_lacks(compared):
    again = pickle.loads(pickle.dumps(compare({"local": local}, dealt, nn.Linear(2, 2), [0], rounds=1)))
    with pytest.raises(GraphcollabError, match="compare again"):
        again.final("local")


def test_outputs_are_read_with_temperature_and_threshold():
    """Margins 0, 2 and 4, halved, are probabilities of 0.5, 0.731 and 0.881 of the second class."""
    margins = torch.tensor([0.0, 2.0, 4.0])
    two = torch.stack([torch.zeros(3), margins], 1)
    for kind, outputs in (("classes", two), ("binary", margins[:, None])):
        read = Answers(kind, True, ("no", "yes"), temperature=2.0, threshold=0.8)
        shares = 1 / (1 + np.exp([0.0, -1.0, -2.0]))
        assert np.allclose(read.probabilities(outputs)[:, 1], shares)
        assert read.predict(outputs).tolist() == ["no", "no", "yes"]
        assert Answers(kind, True, ("no", "yes"), threshold=0.7).predict(outputs).tolist() == ["no", "yes", "yes"]
    for odd in ({"temperature": 0.0}, {"threshold": 1.0}, {"threshold": float("nan")}):
        with pytest.raises(GraphcollabError, match="a temperature is above 0"):
            Answers("binary", **odd)


def test_the_best_of_the_late_rounds_is_kept_where_the_last_is_wild(compared):
    """Training samples stand in for validation samples: by a step too large for them, every other round is worse."""
    wild = compare({"local": local}, dealt, linear, [0], {"*": {"lr": [6.0], "batch_size": [12]}}, rounds=9)
    tasks = with_all_rows(dealt(0))
    final = Final.fit(wild.again["local"], tasks, 9, metric="accuracy", test=torch.ones(1, 3))
    assert torch.equal(*(final.result.tasks.splits[name].index for name in ("train", "val")))
    every = wild.again["local"](final.result.tasks, 9).history
    late = {round_: loss for round_, loss in zip(every.rounds, every.mean("val_loss"), strict=True) if round_ >= 5}
    assert min(late, key=late.__getitem__) == final.result.data.round < 9
    assert "to learn weights by" not in final.how


def test_final_models_are_trained_for_as_long_as_was_chosen_though_metrics_tie(compared):
    """Of 40 rows two are of class 1: from the first round on, all models say 0, and losses go on falling."""
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.arange(40) % 20 == 0).long()
    rare = Tasks.from_samples([(x, y), (x + 0.1, y)])
    played = Final.fit(partial(_played, local(lr=0.01)), rare, 12, metric="accuracy", test=torch.ones(1, 2))
    assert played.result.data.round == 12


def test_a_site_that_diverges_takes_no_other_along(compared):
    """Inputs of one site are a thousand times as large: its training diverges, and the others' goes on to the end."""
    x = torch.randn(3, 30, 2, generator=torch.Generator().manual_seed(0))
    sites = [(one * (1000 if k == 2 else 1), one.sum(1, keepdim=True)) for k, one in enumerate(x)]
    tasks = Tasks.from_samples(sites, loss="mse", metric="mse")
    with warns("diverged"):
        final = Final.fit(partial(_played, local(lr=0.01), outputs=1), tasks, 20, metric="mse", test=torch.ones(1, 3))
    assert final.result.data.round == 20
    assert [*final.result.history.isolated] == ["node 2"]
    assert bool((final.result.history.table("val_loss")[-1][:2] < 0.1).all())


def _played(method, tasks, rounds, other=None, outputs=2):
    one = Contestant("local", 0, {}, lambda: method, lambda: nn.Linear(2, outputs))
    return one.play({}, 0, tasks, rounds, other)
