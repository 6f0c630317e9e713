"""The number of rounds of every method in a comparison, such that all do the same work."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from torch import Tensor

from graphcollab._base.errors import ConflictError, ContractError, MismatchError, MissingError, TooFewError
from graphcollab._base.settings import Count
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases

ROUNDS = 100  # default number of rounds
_MOST = 2**40  # a method without any step after so many rounds never takes one

Budget: TypeAlias = Annotated[
    Literal["steps", "rounds"] | Count | Mapping[str, Count],
    "'steps', 'rounds', a number of local steps per node, or rounds by the names of the methods",
]


@dataclass(frozen=True)
class Spending:
    """The number of rounds of a method, and the rounds between its evaluations."""

    rounds: int
    evaluate_every: int


def spend(
    made: Sequence[tuple[str, Method | Phases]], tasks: Tasks, budget: Budget, rounds: int, evaluate_every: int
) -> list[Spending]:
    """Return the spending of every method, in the order of ``made``; a ValueError if the budget cannot be met."""
    if not isinstance(budget, str) and rounds != ROUNDS:
        what = "rounds per method" if isinstance(budget, Mapping) else "local steps per node"
        raise ConflictError(
            "budget", f"budget={budget!r} gives {what}, and rounds={rounds} contradicts it: give one of the two"
        )
    if isinstance(budget, Mapping):
        if differing := sorted({name for name, _ in made} ^ set(budget)):
            raise MismatchError(
                "budget", f"budget must give rounds for every method and no other, got {dict(budget)}: {differing}"
            )
        return [Spending(budget[name], evaluate_every) for name, _ in made]
    if budget == "rounds" or (budget == "steps" and len(made) == 1):
        return [Spending(rounds, evaluate_every)] * len(made)
    sizes = tasks.sizes("train")
    for name, method in made:
        if bool(method.local_steps(sizes, 1).isnan().any()):
            raise MissingError(
                f"method {name!r}",
                f"the local piece of {name!r} does not tell its local_steps in a round: compare by budget='rounds'",
            )
    work = max(_work(method, sizes, rounds) for _, method in made) if budget == "steps" else float(budget)
    many = [_rounds_of(name, method, sizes, work) for name, method in made]
    # methods are evaluated equally often, after the same work: `evaluate_every` counts rounds of the costliest one
    return [Spending(one, max(round(evaluate_every * one / min(many)), 1)) for one in many]


def _work(method: Method | Phases, sizes: Tensor, rounds: int) -> float:
    return float(method.local_steps(sizes, rounds).mean())


def _rounds_of(name: str, method: Method | Phases, sizes: Tensor, work: float) -> int:
    """Return the number of rounds that comes nearest to a number of local steps per node; a ValueError if none does."""
    if (one := _work(method, sizes, 1)) > 2 * work:
        raise TooFewError(
            "budget",
            f"a round of {name!r} is {one:g} local steps per site, too many for the budget of {work:g}: enlarge it",
        )
    rounds = range(2, _MOST)
    enough = bisect_left(rounds, work, key=lambda many: _work(method, sizes, many))
    if enough == len(rounds):
        raise ContractError(
            f"method {name!r}", f"{name!r} takes no local steps, and not {work:g}: compare by budget='rounds'"
        )
    return min(rounds[enough] - 1, rounds[enough], key=lambda many: abs(_work(method, sizes, many) - work))
