"""The goals for a card, each a value that is read from what was measured, and whether it was met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

Found = Mapping[str, Mapping[str, float]]

ALL, TEN = "100 × 878,538, all pairs", "100 × 878,538, 10 neighbors"
MANY, SHORT = "1,000 × 100,000, 10 neighbors", "100,000 × 34, 10 neighbors"
FORWARD, TO_MODELS, TO_WEIGHTS = CALLS = "forward", "to models", "to weights"
CNNS = "CNN, 20", "CNN, 100", "CNN, 500"
BARE, GRAPH = "bare loop", "loop in a graph"


class Goal(NamedTuple):
    """What is to be reached, in which section it is measured, and how it is read from what that found."""

    section: str
    name: str
    limit: float
    value: Callable[[Found], float]
    least: bool = False

    @property
    def text(self) -> str:
        """The goal in words."""
        return f"{self.name} {'≥' if self.least else '≤'} {self.limit:g}"

    def verdict(self, found: Found, with_card: bool) -> str:
        """Return *met* or *missed* with the number, or *not measured* with the reason."""
        if not with_card:
            return "not measured (no card)"
        try:
            value = self.value(found)
        except NotImplementedError:
            return "not measured (not built)"
        except KeyError:
            return "not measured (left out, or failed)"
        return f"{'met' if (value >= self.limit if self.least else value <= self.limit) else 'missed'} ({value:.3g})"


def number(what: str, *key: str) -> Callable[[Found], float]:
    """Return what reads one number."""
    return lambda found: found[" | ".join(key)][what]


def not_built(found: Found) -> float:
    """Stand for what is not there to be measured."""
    raise NotImplementedError


def mixed(case: str, call: str, way: str, found: Found) -> float:
    """Return the milliseconds of a way to mix in single precision."""
    return number("ms", "mixing", case, call, "fp32", way)(found)


def copies(case: str, call: str, found: Found) -> float:
    """Return the package's time in copies of the models."""
    return number("copies", "mixing", case, call, "fp32", "graphcollab")(found)


def readings(case: str, found: Found) -> float:
    """Return the weights' gradient in times of what reads as much: the inner product of both, or a copy of one."""
    both = min(mixed(case, TO_WEIGHTS, way, found) for way in ("torch.dot of both", "copy_"))
    return mixed(case, TO_WEIGHTS, "graphcollab", found) / both


def share(case: str, other: str, found: Found) -> float:
    """Return the package's time in those of another way to mix, of the call where that is the most."""
    return max(mixed(case, call, "graphcollab", found) / mixed(case, call, other, found) for call in CALLS)


def trained(case: str, found: Found) -> float:
    """Return the milliseconds of the way to train that the package's rule takes on a card, in single precision."""
    return number("ms", "training", case, "fp32", "stacked with graphs")(found)


def faster(case: str, other: str, found: Found) -> float:
    """Return how many times as fast as another way to train that is."""
    return number("ms", "training", case, "fp32", other)(found) / trained(case, found)


def of_mixing() -> Iterator[Goal]:
    """Yield the goals of mixing."""
    for case, most, how in ((ALL, 1.5, ""), (TEN, 1.5, ""), (MANY, 3.5, " through L2")):
        for call in (FORWARD, TO_MODELS):
            yield Goal("mixing", f"{case}, {call}: copies{how}", most, partial(copies, case, call))
    for call in (FORWARD, TO_MODELS):
        yield Goal("mixing", f"{MANY}, {call}: copies by shared memory", 2, not_built)
    for case in (ALL, TEN):
        yield Goal("mixing", f"{case}, {TO_WEIGHTS}: readings of both", 1.5, partial(readings, case))
    for case in (ALL, TEN, MANY):
        yield Goal("mixing", f"{case}, slowest call: of torch.mm", 1, partial(share, case, "torch.mm"))
    for case in (ALL, TEN, MANY, SHORT):
        yield Goal("mixing", f"{case}, slowest call: of cached cuSPARSE", 1, partial(share, case, "torch.sparse"))


def of_training() -> Iterator[Goal]:
    """Yield the goals of local training."""
    yield Goal("training", "MLP, 100 nodes, ten steps: ms", 1.5, partial(trained, "MLP, 100"))
    for case, other, times in (("MLP, 100", BARE, 100), ("MLP, 100", GRAPH, 15), (CNNS[0], BARE, 4)):
        yield Goal("training", f"{case} nodes: times as fast as a {other}", times, partial(faster, case, other), True)
    for case in CNNS:
        yield Goal("training", f"{case} nodes: times as fast as a {GRAPH}", 1, partial(faster, case, GRAPH), True)


def of_runs() -> Iterator[Goal]:
    """Yield the goals of rounds and of memory."""
    for name, what, most in (
        ("l2c", "L2C", 1.2),
        ("meta_l2c, one model", "meta-L2C", 1.5),
        ("meta_l2c, two models", "meta-L2C while its second model trains", 2.2),
    ):
        yield Goal(
            "rounds", f"{what}, 50 steps: rounds of local training", most, number("local_rounds", "rounds", name)
        )
    yield Goal("size", "4-layer CNN, 500 nodes: GB", 5, number("GB", "size", "4-layer CNN, 500 nodes"))
    text = "evaluation, 20 nodes, 5,000 images: of 1.2 × models and data + 1 GiB"
    yield Goal("size", text, 1, number("of_limit", "size", "evaluation"))


GOALS = [*of_mixing(), *of_training(), *of_runs()]
