"""How often is a loss or a gain claimed where all sites have one law and inputs tell nothing?

    false_losses.py --runs 100

A site of few rows may have one class by chance, and then seems to lose by collaborating. Prints a line per setting: in
how many runs anything was claimed of a site or a mean, by each metric, and in how many it would have been if sites with
almost only one class or value were judged as the others are. One to two seconds of CPU time a run.
"""

# ci: --runs 2 --rounds 2 --settings small

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass, replace

import torch

from graphcollab import Tasks, benefit, build_model
from graphcollab.gains import Benefit

WIDTH = 3


@dataclass(frozen=True)
class Setting:
    """Sites of one law: shares of classes, or of zeros among amounts."""

    sites: int
    rows: int
    shares: tuple[float, ...] = ()
    zeros: float = 0.0

    def tasks(self, seed: int) -> Tasks:
        """Draw all sites' rows."""
        draw = torch.Generator().manual_seed(seed)
        samples = []
        for _ in range(self.sites):
            x = torch.randn(self.rows, WIDTH, generator=draw)
            if self.shares:
                y = torch.multinomial(torch.tensor(self.shares), self.rows, True, generator=draw)
            else:
                zero = torch.rand(self.rows, 1, generator=draw) < self.zeros
                y = torch.where(zero, 0.0, torch.randn(self.rows, 1, generator=draw).exp())
            samples.append((x, y))
        return Tasks.from_samples(
            samples, **({"metric": "log_loss"} if self.shares else {"loss": "mse", "metric": "mse"})
        )


SETTINGS = {
    "12 percent": Setting(12, 20, (0.88, 0.12)),
    "small": Setting(3, 20, (0.88, 0.12)),
    "three classes": Setting(10, 40, (0.8, 0.15, 0.05)),
    "5 percent": Setting(10, 40, (0.95, 0.05)),
    "zeros": Setting(12, 20, zeros=0.85),
}


def claims(found: Benefit) -> set[tuple[str, str]]:
    """Return by which metrics what is claimed."""
    return {(name, gain.verdict) for name, one in told(found).items() for gain in one.found}


def told(found: Benefit) -> dict[str, Benefit]:
    """Return what was found by every metric."""
    return {found.metric: found, **found.also}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--settings", nargs="+", choices=SETTINGS, default=[*SETTINGS], help="default: all")
    add("--runs", type=int, default=100, help="default: %(default)s")
    add("--rounds", type=int, default=30, help="default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in args.settings:
        one, counted, before = SETTINGS[name], Counter(), Counter()
        further = ["brier", "accuracy"] if one.shares else ["mae"]
        for seed in range(args.runs):
            settings = {"rounds": args.rounds, "lrs": [0.1], "limit": 2, "seed": 1000 * seed}
            torch.manual_seed(seed)
            model = build_model("mlp", (WIDTH,), max(len(one.shares), 1), hidden=64)  # the same on every split
            found = benefit(one.tasks(seed), model, methods={}, metrics=further, **settings)
            counted.update(claims(found))
            also = {key: replace(each, minority=None) for key, each in found.also.items()}
            before.update(claims(replace(found, minority=None, also=also)))
        for metric in told(found):
            loses, gains = ((counted[metric, verdict], before[metric, verdict]) for verdict in ("loses", "gains"))
            print(
                f"{name}, {one.sites} x {one.rows}, {metric}: losses in {loses[0]} of {args.runs} runs "
                f"(judged as others: {loses[1]}), gains in {gains[0]} ({gains[1]})",
                flush=True,
            )


if __name__ == "__main__":
    main()
