from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import fractions
import functools
import importlib
import logging
import operator
import os
import random
import re
import statistics
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

from graphcollab import mapl
from graphcollab.engine import AddNoise
from graphcollab.train.fingerprint import fingerprint
from graphcollab.train.identity import found_in, layers
from tests.forked import interpret


def settings(module):
    """What one module is, without its children."""
    return layers(module)[""]


ROOT = Path(__file__).parents[2]
FACTOR = 2.0


def double(x):
    return FACTOR * x


def uses_double(x):
    return double(x) + 1


class Layer(nn.Module):
    """A user's own."""

    scale = 3

    def __init__(self, power=2):
        super().__init__()
        self._power = power

    def forward(self, x):
        return self.scale * x**self._power


def test_equal_functions_are_equal_wherever_they_stand():
    def add(x, one=1):
        """Comments and places do not count."""
        return x + one

    one = fingerprint(add)

    def add(x, one=1):
        # another comment

        return x + one

    assert fingerprint(add) == one
    assert one.startswith("code ")


def test_what_functions_do_counts():
    def closed(value):
        return lambda x: x + value

    def made(default):
        return lambda x, y=default: x + y

    different = [
        lambda x: x,
        lambda x: -x,
        lambda x: x + 1,
        lambda x: x + 2,
        lambda x: x.sum(),
        lambda x: x.mean(),
        lambda x: [y for y in x if y in {1, 2}],
        lambda x: [y for y in x if y in {1, 3}],
        closed(1),
        closed(2),
        closed(torch.ones(2)),
        closed(torch.zeros(2)),
        closed(nn.Linear(1, 1)),
        made(1),
        made(2),
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
        lambda x: np.exp(x),
        lambda x: np.sin(x),
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        nn.CrossEntropyLoss(weight=torch.ones(2)),
        nn.CrossEntropyLoss(weight=torch.zeros(2)),
    ]
    texts = [fingerprint(one) for one in different]
    assert [text for text in texts if texts.count(text) > 1] == []
    assert fingerprint(closed(1)) == texts[8]
    assert fingerprint(closed(torch.ones(2))) == texts[10]


def test_what_functions_use_counts(monkeypatch):
    module = sys.modules[__name__]
    before = fingerprint(uses_double)
    monkeypatch.setattr(module, "FACTOR", 3.0)
    changed = fingerprint(uses_double)
    monkeypatch.setattr(module, "double", lambda x: x)
    assert len({before, changed, fingerprint(uses_double)}) == 3


def test_a_users_file_may_be_named_like_one_of_pythons(tmp_path, monkeypatch):
    texts = []
    for factor in (1, 2):
        (tmp_path / "this.py").write_text(f"def loss(x):\n    return {factor} * x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "this", raising=False)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            texts.append(fingerprint(importlib.import_module("this").loss))
        finally:
            sys.dont_write_bytecode = before
            del sys.modules["this"]
    assert texts[0] != texts[1]
    assert fingerprint(statistics.mean) == "statistics.mean"


def test_what_a_function_counts_does_not():
    calls = 0

    def count(x):
        nonlocal calls
        calls += 1
        return x

    before = fingerprint(count)
    count(1)
    assert fingerprint(count) == before


def test_functions_that_call_themselves_or_each_other():
    def one(x):
        return other(x) if x else one(x)

    def other(x):
        return one(x)

    assert fingerprint(one) == fingerprint(one)


def test_settings_of_layers():
    assert settings(nn.ReLU()) == "ReLU(inplace=False)"
    assert settings(nn.Linear(6, 3)) == "Linear(in_features=6, out_features=3)"
    assert "momentum=0.2" in settings(nn.BatchNorm1d(3, momentum=0.2))
    assert settings(Layer(2)) != settings(Layer(3))
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    assert settings(frozen) == "Linear(frozen=['bias'], in_features=2, out_features=2)"


def test_settings_hold_the_users_code():
    class Other(Layer):
        def forward(self, x):
            return self.scale + x**self._power

    Other.__name__ = "Layer"
    assert settings(Other()) != settings(Layer())
    patched, hooked = nn.ReLU(), nn.ReLU()
    patched.forward = lambda x: x
    hooked.register_forward_hook(lambda module, given, made: made * 2)
    assert len({settings(patched), settings(hooked), settings(nn.ReLU())}) == 3


def test_where_the_code_in_a_method_is():
    assert list(found_in(mapl(), "m")) == list(found_in(mapl(), "m"))
    own = mapl(augment=lambda samples: samples)
    assert "code of m.next.local.views.augment" in dict(found_in(own, "m"))
    assert dict(found_in(own, "m")) != dict(found_in(mapl(augment=lambda samples: -samples), "m"))


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Held:
    def __init__(self, value):
        self.value = value


class Kept(collections.UserDict):
    """A container of a user's own."""


class Odd:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("no text")


def of_standard_classes(value):
    return [
        argparse.Namespace(a=value),
        types.SimpleNamespace(a=value),
        collections.deque([value]),
        collections.deque([1], maxlen=int(value)),
        collections.defaultdict(lambda: value),
        collections.OrderedDict(a=value),
        fractions.Fraction(value),
        decimal.Decimal(value),
        datetime.timedelta(value),
        Path(str(value)),
        operator.itemgetter(value),
        re.compile(str(value)),
        functools.lru_cache(lambda: value),
        bytearray([int(value)]),
        [1, 2, 3].count if value > 1 else [1, 2].count,
        np.array([value, None]),
        torch.eye(2).mul(value).to_sparse(),
        Slotted(value),
        Held(value),
        Kept(a=value),
        [Held({"a": (value,)})],
        "long " * 1000 + str(value),
        ["long"] * 10000 + [value],
    ]


def test_what_objects_of_any_class_hold_counts():
    for one, two, again in zip(*map(of_standard_classes, (1, 2, 1)), strict=True):
        assert fingerprint(one) == fingerprint(again) != fingerprint(two), one
        assert len(fingerprint(one)) < 6000
        made = []
        for value in (one, two):
            module = nn.ReLU()
            module.value = value
            made.append(settings(module))
        assert made[0] != made[1], one


USED = None


class Uses(nn.Module):
    held = None

    def forward(self, x):
        return USED, x


@pytest.mark.parametrize("number", range(23))
def test_what_names_and_classes_hold_counts(monkeypatch, number):
    module, seen = sys.modules[__name__], {"global": [], "class": []}
    for value in (1, 2, 1):
        with monkeypatch.context() as patch:
            patch.setattr(module, "USED", of_standard_classes(value)[number])
            seen["global"].append(settings(Uses()))
        with monkeypatch.context() as patch:
            patch.setattr(Uses, "held", of_standard_classes(value)[number])
            seen["class"].append(settings(Uses()))
    for where, (one, two, again) in seen.items():
        assert one == again != two, where


def test_classes_that_classes_name_count(monkeypatch):
    seen = set()
    for kind in (nn.ReLU, nn.Tanh):
        monkeypatch.setattr(Uses, "held", kind)
        seen.add(settings(Uses()))
    assert len(seen) == 2


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
    assert layers(one) != layers(two)


def test_values_may_be_deep_or_hold_themselves_or_resist():
    deep = round_ = Held(0)
    for _ in range(5000):
        deep = Held(deep)
    round_.value = [round_, {"a": deep}]
    other = Held(1)
    for _ in range(5000):
        other = Held(other)
    assert fingerprint(deep) == fingerprint(deep) != fingerprint(other)
    member = Held(None)
    member.value = {member}
    assert fingerprint(member) == fingerprint(member)
    for odd in (Odd(), threading.Lock(), sys.stdout, (one for one in ()), object(), re.finditer("a", "b"), os.environ):
        assert fingerprint(odd) == fingerprint(odd)
        assert "0x" not in fingerprint(odd)


class Colour(Enum):
    RED = object()


def test_no_places_in_memory_are_shown():
    assert "0x" not in fingerprint(Colour.RED)
    assert "0x" not in fingerprint([Held(object()), functools.partial(Held), Colour])


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
from graphcollab.train.fingerprint import fingerprint
from tests.train.test_fingerprint import settings
from tests.train.test_fingerprint import Own, Uses, uses_double, Layer, of_standard_classes
from graphcollab import mapl, meta_l2c
things = [lambda x: x in {'a', 'b', 'c', 'd'}, uses_double, Layer(), Own(), nn.LSTM(2, 3), nn.MultiheadAttention(4, 2),
          *of_standard_classes(1), {Uses, Own, Layer, Own()},
          nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)).eval().requires_grad_(False)]
for thing in things:
    for module in thing.modules() if isinstance(thing, nn.Module) else ():
        print(settings(module))
    print(fingerprint(thing if not isinstance(thing, nn.Module) else type(thing)))

from dataclasses import replace
from graphcollab import run
from graphcollab.testing import Scene
tasks = replace(Scene.small(torch.float32).tasks, loss=lambda o, t: nn.functional.cross_entropy(o, t) * len({'a', 'b'}))
model = lambda: nn.Sequential(nn.Linear(4, 5), Layer(), nn.Linear(5, 3))
run(meta_l2c(epochs=1), tasks, model, rounds=int(sys.argv[1]), checkpoint=sys.argv[2])
"""


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
