"""What is kept of one run of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphcollab.train.result import Result

__all__ = ["COLUMNS", "Reached", "Trial"]

COLUMNS = ("mean", "worst10", "worst20", "std", "bytes_per_node", "seconds")


class Reached(NamedTuple):
    """When a run first reached a target.

    Args:
        rounds: Rounds played.
        seconds: Seconds since the start; NaN where they were not kept.
        bytes_per_node: Bytes that a node had sent, mean over nodes; NaN where they were not kept.
    """

    rounds: int
    seconds: float
    bytes_per_node: float


@dataclass(frozen=True)
class Trial:
    """One method with one setting on one seed.

    Args:
        method: Name of the method.
        seed: Seed of tasks and run.
        setting: What was chosen from the grid.
        validation: Mean validation metric of the returned models; NaN where there is none, or a node diverged.
        summary: Test metric over nodes, bytes and seconds; ``nodes`` says over how many the mean is.
        curve: Rounds and mean test metric at every evaluation.
        per_node: Test metric of every node's returned model; NaN where a node has none.
        test_loss: Mean test loss of the returned models.
        seconds: Seconds since the start at every evaluation.
        sent: Bytes that a node had sent at every evaluation, mean over nodes.
        messages: Messages that all nodes together had sent at every evaluation.
        failure: What went wrong, if the trial failed; all its numbers are NaN then.
    """

    method: str
    seed: int
    setting: Mapping[str, Any]
    validation: float
    summary: Mapping[str, float]
    curve: tuple[list[int], list[float]] = field(repr=False, default=((), ()))  # type: ignore[assignment]
    per_node: tuple[float, ...] = field(repr=False, default=())
    test_loss: float = field(repr=False, default=math.nan)
    seconds: tuple[float, ...] = field(repr=False, default=())
    sent: tuple[float, ...] = field(repr=False, default=())
    messages: tuple[float, ...] = field(repr=False, default=())
    failure: str = ""

    @property
    def isolated(self) -> int:
        """How many nodes were left behind since they diverged."""
        return int(self.summary.get("isolated", 0))

    @classmethod
    def failed(cls, method: str, seed: int, setting: Mapping[str, Any], failure: str) -> Trial:
        """Return what is kept of a run that failed."""
        return cls(method, seed, setting, math.nan, dict.fromkeys(COLUMNS, math.nan), failure=failure)

    @classmethod
    def from_result(cls, method: str, seed: int, setting: Mapping[str, Any], result: Result) -> Trial:
        """Return what is kept of a run."""
        history = result.history

        def final(name: str) -> float:
            return history.mean(name)[history.returned] if name in history.values else math.nan

        return cls(
            method,
            seed,
            setting,
            final("val_metric"),
            result.summary(),
            (list(history.rounds), history.mean("test_metric")),
            tuple(history.final("test_metric").tolist()),
            final("test_loss"),
            tuple(history.seconds),
            tuple(history.mean("bytes_sent")),
            tuple(history.table("messages_sent").sum(1).tolist()),
        )

    def reached(self, target: float, higher_is_better: bool = True) -> Reached | None:
        """Return when the mean test metric was first as good as a target, or None where it never was.

        It is the first evaluation at which that is so: nothing is interpolated, so it can be late by as many rounds as
        lie between evaluations.

        Example:
            >>> trial = Trial("local", 0, {}, 0.0, {}, ([10, 20, 30], [0.4, 0.7, 0.6]))
            >>> trial.reached(0.6).rounds, trial.reached(0.8)
            (20, None)
        """
        rounds, values = self.curve
        for t, (round_, value) in enumerate(zip(rounds, values, strict=True)):
            if value >= target if higher_is_better else value <= target:
                seconds, sent = (kept[t] if kept else math.nan for kept in (self.seconds, self.sent))
                return Reached(round_, seconds, sent)
        return None

    def within(self, budget: float, unit: str = "messages") -> tuple[int, float] | None:
        """Return when a budget was last kept, and the mean test metric then.

        It is the last evaluation before which all nodes together had sent no more than the budget: nothing is
        interpolated, so it can be early by as many rounds as lie between evaluations.

        Args:
            budget: Messages, or bytes, of all nodes together.
            unit: ``"messages"`` or ``"bytes"``.

        Returns:
            Round and mean test metric, or None where more had been sent before the first evaluation.

        Raises:
            ValueError: If the unit is neither, or it was not kept how much was sent.

        Example:
            >>> trial = Trial("mapl", 0, {}, 0.0, {}, ([1, 2, 3], [0.4, 0.6, 0.7]), messages=(6.0, 10.0, 12.0))
            >>> trial.within(10), trial.within(5)
            ((2, 0.6), None)
        """
        sent = self.total(unit)
        if not sent:
            raise ValueError(
                f"a trial of {self.method!r} does not hold how many {unit} its nodes sent: make it by a run"
            )
        kept = [t for t, total in enumerate(sent) if total <= budget * (1 + 1e-12)]  # a mean times K is rounded
        rounds, values = self.curve
        return (rounds[kept[-1]], values[kept[-1]]) if kept else None

    def total(self, unit: str = "messages") -> list[float]:
        """Return what all nodes together had sent at every evaluation; empty where it was not kept.

        Args:
            unit: ``"messages"`` or ``"bytes"``.

        Raises:
            ValueError: If the unit is neither.
        """
        if unit not in ("messages", "bytes"):
            raise ValueError(f"unit must be 'messages' or 'bytes', got {unit!r}")
        return list(self.messages) if unit == "messages" else [len(self.per_node) * mean for mean in self.sent]
