"""Seeds that are played in several processes."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from graphcollab import Tasks, compare
from graphcollab._base.naming import AS_OPTIONS
from graphcollab._base.settings import SettingError
from graphcollab.analysis.processes import _sendable, progress_bar
from graphcollab.methods import fedavg, local
from graphcollab.models import MLP
from graphcollab.testing import differences
from graphcollab.train import Callback
from tests.raising import raises, warns
from tests.train.forged import latest_checkpoint

METHODS = {"local": partial(local, epochs=1, batch_size=5), "fedavg": lambda **given: fedavg(epochs=1, **given)}
LRS = {"*": {"lr": [0.001, 0.3]}}


def make_tasks(seed: int, scale: float = 1.0, **settings) -> Tasks:
    draw = torch.Generator().manual_seed(seed)
    nodes = [(x, (x[:, 0] > 0).long()) for x in scale * torch.randn(3, 40, 3, generator=draw)]
    train, test = ([(x[rows], y[rows]) for x, y in nodes] for rows in (slice(20), slice(20, None)))
    return Tasks.from_samples(train, test=test, seed=seed, **settings)


def compare_methods(tasks=make_tasks, seeds=(4, 5, 6), grids=LRS, **settings):
    return compare(METHODS, tasks, lambda: MLP(3, (4,), 2), seeds, grids, **{"rounds": 3, **settings})


def numbers(trial) -> list[object]:
    """Return what is known of a trial but how long it took."""
    told = {name: value for name, value in vars(trial).items() if name != "seconds"}
    return [told | {"summary": {name: value for name, value in trial.summary.items() if name != "seconds"}}]


def test_results_are_those_of_one_process_bit_for_bit() -> None:
    order: list[tuple[str, int, int, int]] = []
    note = lambda trial, result, number, total: order.append((trial.method, trial.seed, number, total))  # noqa: E731
    alone = compare_methods(on_trial=note)
    first, order[:] = list(order), []
    together = compare_methods(on_trial=note, n_jobs=2)
    assert order == first
    assert [numbers(trial) for trial in together.trials] == [numbers(trial) for trial in alone.trials]
    assert together.chosen.keys() == together.results.keys() == alone.chosen.keys()
    for name, result in alone.results.items():
        other = together.results[name]
        assert differences(other.data, result.data) == []
        assert all(map(torch.equal, other.history.values["test_loss"], result.history.values["test_loss"]))
        assert isinstance(other.model(0), MLP)


def test_trials_that_fail_are_told_as_in_one_process() -> None:
    def tasks(seed: int) -> Tasks:
        if seed == 5:
            raise SettingError("x", "small", seed)  # an error that cannot be made from a text alone
        return make_tasks(seed)

    told = []
    for jobs in (1, 2):
        with warns("value", "method 'local'", "5") as heard:
            found = compare({"local": local}, tasks, lambda: nn.Linear(3, 2), [4, 5], rounds=1, n_jobs=jobs)
        told.append(([trial.failure for trial in found.trials], [str(one.message) for one in heard]))
        assert found.results["local"].env.seed == 4
    assert told[0] == told[1]
    assert told[0][0] == ["", "SettingError: x must be small, got 5"]


def test_an_error_before_anything_is_finished_is_raised() -> None:
    with raises("contract", "model") as caught:
        compare({"local": local}, make_tasks, lambda: nn.Linear(9, 2), [4, 5], rounds=1, n_jobs=2)
    assert "trial 1 of 2: method 'local'" in caught.value.__notes__[0]


def test_errors_that_can_be_sent() -> None:
    assert type(_sendable(ValueError("a"))) is ValueError
    sent = _sendable(SettingError("lr", "small", 3))
    assert (type(sent).__name__, str(sent)) == ("SettingError", "lr must be small, got 3")
    assert isinstance(_sendable(type("Lost", (ArithmeticError,), {})("gone")), ArithmeticError)


@pytest.mark.slow
def test_warnings_are_given_here() -> None:
    def tasks(seed: int) -> Tasks:
        one = (torch.randn(6, 3), torch.ones(6).long())
        both = (torch.randn(6, 3), torch.tensor([0, 1] * 3))
        warnings.warn(f"drawn {seed}", stacklevel=1)
        return Tasks.from_samples([one, both], [one, both], [one, both], metric="auc")

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        compare({"local": local}, tasks, lambda: nn.Linear(3, 2), [0, 1], rounds=1, n_jobs=2)
    told = [str(one.message) for one in heard]
    assert sum("auc is not defined for 1 of 2 sites (node 0; split val, test)" in one for one in told) == 1
    assert told.count("drawn 1") == 1  # in another process


class Count(Callback):
    """Counts in a file how many rounds are played, in any process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def on_round(self, data, history) -> None:
        with self.file.open("a") as file:
            file.write(".")


def test_what_is_finished_is_not_played_again(tmp_path: Path) -> None:
    settings = {"checkpoint": tmp_path / "saved", "callbacks": [Count(tmp_path / "rounds")]}
    first = compare_methods(n_jobs=2, **settings)
    played = 3 * 2 * (3 + 6)  # seeds, step sizes, rounds: batches of ten take twice as many for the same steps
    assert (tmp_path / "rounds").stat().st_size == played
    again = compare_methods(**settings)
    assert (tmp_path / "rounds").stat().st_size == played
    assert [trial.per_node for trial in again.trials] == [trial.per_node for trial in first.trials]


def test_progress_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    compare_methods(grids=None, n_jobs=2, progress=True)
    assert "6/6" in capsys.readouterr().err


def test_a_command_writes_a_line_a_minute_into_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    token = AS_OPTIONS.set(True)
    try:
        with progress_bar(4, "run", True) as shown:
            assert (shown.delay, shown.mininterval) == (60, 60)
            shown.update(4)
            assert not capsys.readouterr().err
    finally:
        AS_OPTIONS.reset(token)
    with progress_bar(4, "run", True):
        assert "0/4" in capsys.readouterr().err


class Slow(Count):
    """Takes its time, so that an interrupt comes in the middle of a run."""

    def on_round(self, data, history) -> None:
        super().on_round(data, history)
        time.sleep(0.05)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path: Path) -> None:
    rounds, over = tmp_path / "rounds", threading.Event()

    def interrupt() -> None:
        while not (rounds.exists() or over.wait(0.02)):
            pass
        if not over.wait(0.3):
            os.kill(os.getpid(), signal.SIGINT)  # as a notebook does: the others are not told by it

    watching = threading.Thread(target=interrupt)
    watching.start()
    settings = {"rounds": 1000, "checkpoint": tmp_path / "saved", "callbacks": [Slow(rounds)]}
    play = lambda **other: compare({"local": local}, make_tasks, lambda: nn.Linear(3, 2), [0, 1], **settings | other)  # noqa: E731
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background ignore
    try:
        with pytest.raises(KeyboardInterrupt):
            play(n_jobs=2)
    finally:
        over.set()
        signal.signal(signal.SIGINT, before)
        watching.join()
    played = rounds.stat().st_size
    assert played < 100
    saved = [latest_checkpoint(tmp_path / "saved" / f"local-0-seed-{seed}") for seed in range(2)]
    numbers = [0 if path is None else int(path.name.removeprefix("round-")) for path in saved]
    assert 0 < sum(numbers) <= played
    found = play(rounds=60, budget="rounds")
    assert rounds.stat().st_size - played == 120 - sum(numbers)
    assert [trial.rounds for trial in found.trials] == [60, 60]


@pytest.mark.slow
def test_one_process_gives_no_warning_of_its_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_methods(grids=None, seeds=(1, 2), rounds=1, n_jobs=2)
