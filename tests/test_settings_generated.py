"""Settings are checked when they are given: values of all kinds for every setting of the package."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

import graphcollab
from graphcollab import Method, Tasks, compare, methods, partition, run
from graphcollab._base import settings
from graphcollab._base.settings import Known, Natural, NonNegative
from graphcollab.components import Count, Exchanger, Local, Piece, Real, Rewiring, Stop, Weigher
from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.samples import Pool
from graphcollab.engine import SGD, Adam, Objective
from graphcollab.engine.optimizer import RowOptimizer
from graphcollab.methods.declare import Weights, method
from graphcollab.testing import Scene
from tests.methods.quick import EARLY, QUICK
from tests.raising import raises
from tests.settings_cases import Owner, good, sample, singles

BUILDERS = ("linear_regression_tasks", "class_clusters", "concept_shift", "covariate_shift", "disjoint_classes")
BUILDERS += ("grouped_tasks", "label_shift", "majority_tasks", "permuted_labels", "rotation_shift", "shard_tasks")


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def pieces() -> list[type]:
    """All pieces of the package, and the objectives and optimizers that they hold."""
    for module in pkgutil.walk_packages(graphcollab.__path__, "graphcollab."):
        if not any(name in module.name for name in ("torchvision", "triton", "__main__")):
            importlib.import_module(module.name)
    bases = {Piece, Local, Weigher, Exchanger, Rewiring, Stop}
    found = dict.fromkeys(one for base in (Piece, Objective, RowOptimizer) for one in subclasses(base))
    return [
        one
        for one in found
        if one not in bases
        and one.__module__.startswith("graphcollab.")
        and not inspect.isabstract(one)
        and not one.__name__.startswith("_")
        and "__dataclass_fields__" in vars(one)
    ]


def play(made) -> None:
    """Play one tiny round, on a graph that every method takes."""
    if not callable(getattr(made, "play", None)):
        return
    Scene.small(sizes=(4, 5, 4, 5), embeds=made.embeds).play(made, rounds=1)


def of_methods() -> list[Owner]:
    found = []
    for name in methods.__all__:
        function = methods.get_method(name)
        known = inspect.signature(function).parameters
        quick = {key: value for key, value in {**QUICK, **EARLY, "augment": None}.items() if key in known}
        found.append(Owner(name, _without_own(function, quick), play, quick))
    return found


def _without_own(function, quick):
    """Give an optimizer object without the step size that quick settings have."""

    @functools.wraps(function)
    def make(**settings):
        if isinstance(settings.get("optimizer"), RowOptimizer) and settings.get("lr") == quick.get("lr"):
            settings.pop("lr")
        return function(**settings)

    return make


def of_pieces() -> list[Owner]:
    found = []
    for kind in pieces():
        owner = Owner(kind.__name__, kind)
        required = [n for n, p in inspect.signature(kind).parameters.items() if p.default is p.empty]
        hints = owner.settings()
        needs = {name: (good(hints[name]) or [torch.nn.functional.mse_loss])[0] for name in required}
        found.append(Owner(kind.__name__, kind, None, needs))
    return found


@dataclass(frozen=True)
class Impatient(Method):
    """Trains for a few rounds and no more, whatever nonsense a run takes for a number of rounds."""

    def play(self, data, env):
        if data.round > 4:
            raise RuntimeError("it goes on for ever")
        return super().play(data, env)


def impatient(**settings) -> Impatient:
    return Impatient("local", methods.local(epochs=1, **settings).local)


def of_runs() -> list[Owner]:
    scene = Scene.small(sizes=(4, 5, 4))
    splits = scene.tasks.splits
    tested = dataclasses.replace(scene.tasks, splits={**splits, "test": splits["val"]})
    needs = {"method": impatient(), "tasks": scene.tasks, "model": list(scene.modules), "rounds": 1}
    several = {
        "methods": {"local": impatient},
        "tasks": lambda seed: tested,
        "model": list(scene.modules),
        "seeds": (0,),
        "rounds": 1,
    }
    return [Owner("run", run, None, needs, at_once=True), Owner("compare", compare, None, several, at_once=True)]


def of_tasks() -> list[Owner]:
    draw = torch.Generator().manual_seed(0)
    inputs, targets = torch.rand(240, 1, 4, 4, generator=draw), torch.arange(240) % 6
    data = LabeledArrays("made", Pool(inputs, targets), Pool(inputs[:120], targets[:120]), tuple("abcdef"))
    many = replace(data, name="many", train=Pool(inputs.repeat(40, 1, 1, 1), targets.repeat(40)), test=data.train)
    few = {"train": 6, "val": 2, "test": 2}
    needs = {
        "linear_regression_tasks": {"nodes": (2, 2), "dim": 3, **few},
        "class_clusters": {"data": many, "nodes": 4, "overlap": 1, "test": 1},
        "concept_shift": {"sources": [data], "nodes": (2,), **few},
        "covariate_shift": {"data": data, "transforms": [torch.neg], "nodes": (2,), **few},
        "disjoint_classes": {"data": data, "nodes": (1, 1), **few},
        "grouped_tasks": {"data": data, "groups": 2, "nodes_per_group": 2},
        "label_shift": {"data": data, "groups": [[0, 1, 2], [3, 4, 5]], "nodes": (1, 1), **few},
        "majority_tasks": {"data": data, "majorities": [[0, 1], [2, 3]], **few},
        "permuted_labels": {"data": data, "nodes": (1, 1), **few},
        "rotation_shift": {"data": data, "angles": (0, 90), "nodes": (1, 1), **few},
        "shard_tasks": {"data": data, "shards": 6},
        "Tasks.from_samples": {"train": [(inputs, targets)] * 2},
    }
    builders = {name: getattr(partition, name) for name in BUILDERS} | {"Tasks.from_samples": Tasks.from_samples}
    return [Owner(name, builder, None, needs[name], at_once=True) for name, builder in builders.items()]


def owners() -> list[Owner]:
    return [*of_methods(), *of_pieces(), *of_runs(), *of_tasks()]


def faults(cases) -> list[str]:
    """Return what is wrong with the answers to some cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [fault for case in cases if (fault := case.fault())]


def test_every_owner_works_with_what_it_needs():
    for owner in owners():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = owner.make(**owner.needs)
            if owner.play is not None:
                owner.play(made)


def test_settings():
    """Every setting once, and more at random."""
    assert faults(sample(owners(), 1000)) == []


@pytest.mark.slow
def test_many_settings():
    assert faults(sample(owners(), 10_000, seed=1)) == []


# Settings whose strings are names that models, tasks, files or users give.
OPEN = {"part", "head", "split", "pretrained", "within", "name", "field"}
OPEN |= {"pfedgraph(compare)", "NoExchange(shown)", "Fit(through)"}  # parts of models
OPEN |= {"run(checkpoint)", "run(compute)", "run(graph)", "run(architecture)"}
OPEN |= {"compare(methods)", "compare(model)", "compare(grids)", "compare(graphs)", "compare(budget)", "join(allowed)"}
OPEN |= {f"Tasks.from_samples({split})" for split in ("train", "val", "test")}


def leaves(annotation) -> Iterator[object]:
    """Yield the kinds inside an annotation that have no range."""
    inside = typing.get_args(annotation)
    if any(isinstance(one, range | Real | Known) for one in inside) or typing.get_origin(annotation) is typing.Literal:
        return
    if inside and typing.get_origin(annotation) is not collections.abc.Callable:
        yield from (leaf for one in inside for leaf in leaves(one))
    else:
        yield annotation


def unlimited(owner: Owner) -> list[str]:
    """Return the settings of an owner that are numbers of no range, or strings of no list."""
    found = []
    for name, annotation in owner.settings().items():
        kinds, setting = [*leaves(annotation)], f"{owner.name}({name})"
        if int in kinds or float in kinds or (str in kinds and not {name, setting} & OPEN):
            found.append(f"{setting}: {annotation}")
    return found


def test_numbers_have_ranges_and_names_are_listed():
    assert [one for owner in owners() for one in unlimited(owner)] == []


# Mutants: what is wrong with settings must be seen.


@method()
def toy(*, lr: NonNegative = 0.1, epochs: Count = 1, weights: Weights = "counts"):
    return methods.local(lr=lr, epochs=epochs)


@method()
def without_range(*, lr: float = 0.1, epochs: Count = 1, weights: Weights = "counts"):
    return methods.local(lr=lr, epochs=epochs)


@method()
def wider_than_what_runs(*, lr: NonNegative = 0.1, epochs: Natural = 1, weights: Weights = "counts"):
    return methods.local(lr=lr, epochs=epochs)


@method()
def any_name(*, lr: NonNegative = 0.1, epochs: Count = 1, weights: str = "counts"):
    return methods.local(lr=lr, epochs=epochs)


def unchecked(*, lr: NonNegative = 0.1, epochs: Count = 1, weights: Weights = "counts"):
    return methods.local(lr=lr, epochs=epochs)


@functools.wraps(methods.fedavg)
def fedavg_without_checks(**settings):
    inside = inspect.unwrap(methods.fedavg)
    return inside(**{**{name: one.default for name, one in inspect.signature(inside).parameters.items()}, **settings})


@method()
def refuses_without_a_name(*, lr: NonNegative = 0.1, epochs: Count = 1, weights: Weights = "counts"):
    if weights == "uniform":
        raise ValueError("this is not possible")
    return methods.local(lr=lr, epochs=epochs)


@dataclass(frozen=True)
class Unchecked(Local):
    """A piece that forgets its base's checks."""

    lr: NonNegative = 0.1

    def __post_init__(self) -> None:
        pass

    def __call__(self, data, env):
        return data


def found_in(make) -> list[str]:
    owner = Owner(make.__name__, make, play)
    return faults(singles(owner)) + unlimited(owner)


def test_a_function_with_good_annotations_has_no_faults():
    assert found_in(toy) == []


@pytest.mark.parametrize(
    ("mutant", "seen"),
    [
        (without_range, "without_range(lr): <class 'float'>"),
        (wider_than_what_runs, "wider_than_what_runs(epochs=0): SettingError: epochs must be"),
        (any_name, "any_name(weights): <class 'str'>"),
        (unchecked, "unchecked(weights='x'): nonsense is accepted"),
        (refuses_without_a_name, "refuses_without_a_name(weights='uniform'): ValueError: this is not possible"),
        (Unchecked, "Unchecked(lr='x'): nonsense is accepted"),
        (fedavg_without_checks, "fedavg(fraction=True): nonsense is accepted"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mutants_are_found(mutant, seen):
    assert any(fault.startswith(seen) for fault in found_in(mutant)), found_in(mutant)[:5]


@pytest.mark.parametrize("kind", [range, Real])
def test_ranges_that_let_everything_pass_are_found(kind, monkeypatch):
    is_in = settings.is_in
    monkeypatch.setattr(settings, "is_in", lambda bounds, value: isinstance(bounds, kind) or is_in(bounds, value))
    assert any(fault.endswith("nonsense is accepted") for fault in found_in(toy))


def test_an_optimizer_brings_its_own_settings():
    with raises("conflict", "optimizer"):
        methods.fedavg(optimizer=SGD(lr=0.1), momentum=0.5, lr=0.2)
    with raises("conflict", "momentum", "'adam'"):
        methods.fedavg(optimizer="adam", momentum=0.5)
    nesterov = SGD(lr=0.3, momentum=0.9, nesterov=True)
    assert methods.flt(optimizer="adam", lr=0.2).local.optimizer == Adam(lr=0.2)
    assert methods.flt(optimizer=nesterov).local.optimizer == nesterov


ORDER = ("lr", "epochs", "steps", "batch_size", "optimizer", "momentum", "weight_decay")


@pytest.mark.parametrize("name", methods.__all__)
def test_arguments_are_named_ordered_and_documented_alike(name):
    function = methods.get_method(name)
    known = inspect.signature(function).parameters
    assert all(one.kind is one.KEYWORD_ONLY for one in known.values())
    training = [one for one in known if one in ORDER]
    assert [*known][: len(training)] == training == sorted(training, key=ORDER.index)
    assert {"lr", "batch_size", "momentum", "weight_decay"} <= {*training}
    assert [one for one in known if one in ("part", "buffers")] == [*known][
        len(known) - len({"part", "buffers"} & {*known}) :
    ]
    documented = re.findall(r"^    (\w+): ", function.__doc__.partition("\nArgs:\n")[2].partition("\n\n")[0], re.M)
    assert documented == [*known]
    assert max(map(len, function.__doc__.splitlines())) <= 180
