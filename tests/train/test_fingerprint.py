from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import functools
import logging
import os
import random
import re
import subprocess
import sys
import threading
import types
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab.engine import AddNoise
from graphcollab.methods import mapl
from graphcollab.train.fingerprint import describe, fingerprint
from tests.forked import interpret

ROOT = Path(__file__).parents[2]


def settings(module):
    """What a module is, without its parameters."""
    return describe(module, "m", tensors=False)


def double(x):
    return 2 * x


class Layer(nn.Module):
    """A user's own."""

    def __init__(self, power=2):
        super().__init__()
        self._power = power

    def forward(self, x):
        return x**self._power


def test_functions_count_by_name_and_what_partials_set():
    different = [
        double,
        functools.partial(double, x=1),
        functools.partial(double, x=2),
        Layer(2).forward,
        Layer(3).forward,
        AddNoise(0.1),
        AddNoise(0.2),
        torch.relu,
        torch.tanh,
        nn.functional.relu,
        np.exp,
        np.sin,
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(weight=torch.ones(2)),
        nn.CrossEntropyLoss(weight=torch.zeros(2)),
    ]
    texts = [fingerprint(one) for one in different]
    assert [text for text in texts if texts.count(text) > 1] == []


def test_what_code_does_is_not_read():
    def made(value):
        return lambda x: x + value

    assert describe(made(1), "f") == describe(made(2), "f")
    assert describe(double, "f") == {"f": f"{__name__}.double"}


def test_settings_of_layers():
    assert settings(nn.ReLU()) == {"m": "torch.nn.modules.activation.ReLU", "m.inplace": False}
    assert settings(nn.BatchNorm1d(3, momentum=0.2))["m.momentum"] == 0.2
    assert settings(nn.Sequential(nn.Dropout(0.3)))["m.0.p"] == 0.3
    assert settings(Layer(2)) != settings(Layer(3))
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    assert settings(frozen)["m.frozen"] == ["bias"]
    hooked = nn.ReLU()
    hooked.register_forward_hook(lambda module, given, made: made * 2)
    assert settings(hooked) != settings(nn.ReLU())
    patched = nn.ReLU()
    patched.forward = double
    assert settings(patched)["m.forward"] == f"{__name__}.double"


def test_where_a_setting_of_a_method_is():
    assert describe(mapl(), "m") == describe(mapl(), "m")
    name = "m.next.local.views.augment"
    assert describe(mapl(augment=AddNoise(0.2)), "m")[f"{name}.std"] == 0.2


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Held:
    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def computed(self):
        return self.value


class Kept(collections.UserDict):
    """A container of a user's own."""


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("no text")


def of_many_classes(value):
    return [
        argparse.Namespace(a=value),
        types.SimpleNamespace(a=value),
        collections.OrderedDict(a=value),
        fractions.Fraction(value),
        decimal.Decimal(value),
        datetime.timedelta(value),
        Path(str(value)),
        bytearray([int(value)]),
        torch.eye(2).mul(value).to_sparse(),
        float("inf") if value > 1 else float("nan"),
        Slotted(value),
        Held(value),
        Kept(a=value),
        [Held({"a": (value,)})],
        "long " * 1000 + str(value),
        ["long"] * 10000 + [value],
        {value, "a"},
        {(1, value): 2},
        {Slotted(value), Slotted(0)},
        {(1, Slotted(value)): 2, (1, Slotted(0)): 2},
        np.array([None, Held(value)]),
        frozenset({(Held(value), "a"), (Held(7), "b")}),
    ]


def test_what_objects_of_any_class_hold_counts():
    for one, two, again in zip(*map(of_many_classes, (1, 2, 1)), strict=True):
        assert fingerprint(one) == fingerprint(again) != fingerprint(two), one
        assert len(str(describe(one, "x"))) < 6000
        made = []
        for value in (one, two):
            module = nn.ReLU()
            module.value = value
            made.append(settings(module))
        assert made[0] != made[1], one


class Counting:
    """A loss that counts its calls."""

    def __init__(self, scale):
        self.scale = scale
        self.reset()

    def reset(self):
        self.calls = 0


def test_what_a_reset_forgets_is_no_setting():
    used = Counting(1)
    used.calls = 5
    assert fingerprint(used) == fingerprint(Counting(1)) != fingerprint(Counting(2))
    assert used.calls == 5


def test_what_is_computed_once_is_no_setting():
    one = Held(1)
    before = fingerprint(one)
    assert one.computed == 1
    assert fingerprint(one) == before


class Activated(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.activation = activation

    def forward(self, x):
        return self.activation(x)


def test_generated_code_counts():
    made = [torch.fx.symbolic_trace(Activated(one)) for one in (torch.relu, torch.tanh, torch.relu)]
    one, two, again = map(settings, made)
    assert one == again != two
    one, two = (torch.jit.script(nn.Sequential(kind())) for kind in (nn.ReLU, nn.Tanh))
    assert settings(one) != settings(two)


def test_values_may_be_deep_or_hold_themselves_or_resist():
    deep = round_ = Held(0)
    for _ in range(5000):
        deep = Held(deep)
    round_.value = [round_, {"a": deep}]
    assert fingerprint(deep) == fingerprint(deep)
    member = Held(None)
    member.value = {member}
    assert fingerprint(member) == fingerprint(member)
    for odd in (Odd(), threading.Lock(), sys.stdout, (one for one in ()), object(), re.finditer("a", "b"), os.environ):
        assert fingerprint(odd) == fingerprint(odd)
        assert "0x" not in str(describe(odd, "x"))


class Color(Enum):
    RED = object()


def test_no_addresses_are_shown():
    for value in (Color.RED, [Held(object()), functools.partial(Held), Color]):
        assert "0x" not in str(describe(value, "x"))


def test_the_state_of_a_program_that_runs_does_not_count():
    value = {"rng": random.Random(1), "log": logging.getLogger("mine"), "lock": threading.RLock()}
    before = fingerprint(value)
    value["rng"].random()
    value["log"].setLevel(10)
    assert fingerprint(value) == before


@dataclass(frozen=True)
class Own:
    names: frozenset = frozenset("abcdefgh")
    kinds: tuple = (int, Layer)


SCRIPT = """
import sys
import torch
from torch import nn
from tests.train.test_fingerprint import Layer, Own, describe, double, of_many_classes
from graphcollab.methods import mapl, meta_l2c
things = [lambda x: x, double, Layer(), Own(), nn.LSTM(2, 3), nn.MultiheadAttention(4, 2), *of_many_classes(1),
          mapl(), {Own, Layer, Own()}, nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)).eval()]
for thing in things:
    print(describe(thing, "thing", tensors=not isinstance(thing, nn.Module)))

from dataclasses import replace
from graphcollab import run
from graphcollab.testing import Scene
tasks = replace(Scene.small(torch.float32).tasks, loss=lambda o, t: nn.functional.cross_entropy(o, t) * len({'a', 'b'}))
model = lambda: nn.Sequential(nn.Linear(4, 5), Layer(), nn.Linear(5, 3))
run(meta_l2c(epochs=1), tasks, model, rounds=int(sys.argv[1]), checkpoint=sys.argv[2])
"""


@pytest.mark.slow
def test_the_same_in_every_process(tmp_path):
    script, saved = tmp_path / "script.py", tmp_path / "saved"
    script.write_text(SCRIPT)
    seed = "0" if os.environ.get("PYTHONHASHSEED") == "77" else "77"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), "2", str(saved)]
    begun = lambda: subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT)  # noqa: E731
    shown = []
    for start in (lambda: interpret(script, 1, saved), begun):  # the second goes on, so it must be the same run
        done = start()
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert shown[0] == shown[1]
    assert sorted(path.name for path in saved.iterdir()) == ["round-000001", "round-000002"]
    assert " at 0x" not in shown[0]
    assert len(shown[0].splitlines()) > 10
