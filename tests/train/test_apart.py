"""Long values are shown where they differ first."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from graphcollab import methods
from graphcollab.train.apart import shown_apart

FIT = "Fit(of=<function loss_of_all_samples>, after=None, batch_size=10, "
SHAPES = "[{'backbone.1.weight': [16, 23], 'backbone.1.bias': [16], 'head.weight': [2, 16]}]"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["0", "3"], ["0", "3"]),
        (["None", "5.0"], ["None", "5.0"]),
        (["[1, 0]", "[0, 1]"], ["[1, 0]", "[0, 1]"]),
        (["Fit(lr=1)", "SGD(lr=1)"], ["Fit(lr=1)", "SGD(lr=1)"]),
        (["SGD(lr=1, momentum=0)", "SGD(lr=2, momentum=0)"], ["SGD(lr=1, momentum=0)", "SGD(lr=2, momentum=0)"]),
        ([f"{FIT}b=B(c=1))", f"{FIT}b=B(c=2))"], ["b.c=1", "b.c=2"]),
        ([f"{FIT}b=[B(1)])", f"{FIT}b=[B(1), B(2)])"], ["b=nothing more", "b=B(2)"]),
        ([SHAPES, SHAPES.replace("16", "32")], ["'backbone.1.weight': [16, 23]", "'backbone.1.weight': [32, 23]"]),
        ([SHAPES, "[{'weight': [2, 23]}]"], ["'backbone.1.weight': [16, 23]", "no 'backbone.1.weight'"]),
    ],
)
def test_by_hand(texts, shown):
    assert shown_apart(texts) == shown


def test_a_setting_at_the_end_of_a_long_text_is_named():
    usual, other = (repr(methods.meta_l2c(lr=lr)) for lr in (0.01, 0.5))
    assert shown_apart([usual, other, usual]) == [
        "local.fit.optimizer.lr=0.01",
        "local.fit.optimizer.lr=0.5",
        "local.fit.optimizer.lr=0.01",
    ]


def test_of_other_methods_the_names_are_shown():
    assert shown_apart([repr(methods.fedavg()), repr(methods.meta_l2c())]) == ["name='fedavg'", "name='meta_l2c'"]


@pytest.mark.parametrize("long", ["is not Python " * 100, "A(text='" + "a" * 1000])
def test_what_cannot_be_named_is_cut_where_it_differs(long):
    one, other = shown_apart([f"{long}one')", f"{long}two')"])
    assert "one" in one[-5:]
    assert "two" in other[-5:]
    assert max(len(one), len(other)) <= 121


def test_what_is_long_after_the_difference_is_cut():
    one, other = shown_apart(["x" + "a" * 500, "y" + "a" * 500])
    assert (one, other) == ("x" + "a" * 119 + "…", "y" + "a" * 119 + "…")


def test_threads_that_read_at_the_same_time_get_the_same():
    texts = [f"{FIT}b=B(c=1))", f"{FIT}b=B(c=2))"]
    interval, threshold, callback = sys.getswitchinterval(), gc.get_threshold(), lambda *_: sum(range(50))
    gc.callbacks.append(callback)  # in which other threads may take over while a tree is being built
    try:
        gc.freeze()
        gc.set_threshold(1)
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as pool:
            shown = [*pool.map(lambda _: shown_apart(texts), range(200))]
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.unfreeze()
        gc.callbacks.remove(callback)
    assert shown == [["b.c=1", "b.c=2"]] * 200
