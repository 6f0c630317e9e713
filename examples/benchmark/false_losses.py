"""How often is a loss or a gain claimed where all sites have one law and inputs tell nothing, and where one is true?

    false_losses.py --runs 75 --settings twelve opposite
    false_losses.py --runs 60 --settings small three
    false_losses.py --runs 60 --settings counts few-counts
    false_losses.py --runs 60 --settings small --metrics auc

A site of few rows may have one class by chance, and then seems to lose by collaborating. Prints a table: in
how many runs anything was claimed of a site or a mean, and in how many it would have been if sites with almost only one
class or value were judged as the others are. In the setting ``opposite`` inputs tell the class, and at one site the
other one, so that it loses by collaborating: what is claimed of that site counts. One to two seconds of CPU time a run.
"""

# ci: --runs 1 --rounds 2 --settings small opposite

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import torch
from _measure import add_device  # type: ignore

from graphcollab import Tasks, benefit, build_model
from graphcollab.analysis import Benefit

WIDTH = 3


@dataclass(frozen=True)
class Setting:
    """Sites of one law: shares of classes, amounts with a share of zeros, or counts with a mean, their ``rate``.

    With ``signal`` the law of the last site is opposite.
    """

    targets: str
    sites: int
    rows: int
    shares: tuple[float, ...] = ()
    zeros: float = 0.0
    rate: float = 0.0
    signal: float = 0.0

    def tasks(self, seed: int) -> Tasks:
        """Draw all sites' rows."""
        draw = torch.Generator().manual_seed(seed)
        samples = []
        for _ in range(self.sites):
            x = torch.randn(self.rows, WIDTH, generator=draw)
            if self.shares:
                y = torch.multinomial(torch.tensor(self.shares), self.rows, True, generator=draw)
            elif self.rate:
                y = torch.poisson(torch.full((self.rows, 1), self.rate), generator=draw)
            else:
                zero = torch.rand(self.rows, 1, generator=draw) < self.zeros
                y = torch.where(zero, 0.0, torch.randn(self.rows, 1, generator=draw).exp())
            if self.signal:
                x[:, 0] += self.signal * y
            samples.append((x, y))
        if self.signal:
            x, y = samples[-1]
            samples[-1] = (x, 1 - y)
        if self.shares:
            return Tasks.from_samples(samples, metric="log_loss")
        return Tasks.from_samples(samples, loss="mse", metric="mse")

    def claims(self, found: Benefit) -> set[tuple[str, str]]:
        """Return by which metrics what is claimed; where a site is of opposite law, of that one."""
        return {
            (name, gain.verdict)
            for name, one in told(found).items()
            for gain in one.found
            if not self.signal or gain.site == one.names[-1]
        }


SETTINGS = {
    "twelve": Setting("12 % of class 1", 12, 20, (0.88, 0.12)),
    "small": Setting("12 % of class 1", 3, 20, (0.88, 0.12)),
    "five": Setting("5 % of class 1", 10, 40, (0.95, 0.05)),
    "three": Setting("80, 15 and 5 % of three classes", 10, 40, (0.8, 0.15, 0.05)),
    "zeros": Setting("amounts, 85 % of them 0", 12, 20, zeros=0.85),
    "counts": Setting("counts of mean 0.5", 12, 20, rate=0.5),
    "few-counts": Setting("counts of mean 2", 3, 20, rate=2.0),
    "many": Setting("12 % of class 1", 160, 20, (0.88, 0.12)),
    "many-counts": Setting("counts of mean 2", 160, 20, rate=2.0),
    "opposite": Setting("20 % of class 1; claims of the site of opposite law", 10, 40, (0.8, 0.2), signal=3.0),
}


def told(found: Benefit) -> dict[str, Benefit]:
    """Return what was found by every metric."""
    return {found.metric: found, **found.also}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--settings", nargs="+", choices=SETTINGS, default=[*SETTINGS], help="default: all")
    add("--runs", type=int, default=75, help="default: %(default)s")
    add("--metrics", nargs="+", help="further metrics (default: brier and accuracy, of amounts mae)")
    add("--first", type=int, default=1000, help="first seed; the rule was chosen on those below 100 (%(default)s)")
    add("--rounds", type=int, default=30, help="default: %(default)s")
    add("--epochs", type=int, default=3, help="passes over a site's samples in a round (default: %(default)s)")
    add_device(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| targets | sites × rows | metric | runs | a loss | without the rule | a gain | without |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in args.settings:
        one = SETTINGS[name]
        counted, before = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        further = args.metrics or (["brier", "accuracy"] if one.shares else ["mae"])
        model = partial(build_model, "mlp", (WIDTH,), max(len(one.shares), 1), hidden=64)
        for seed in range(args.first, args.first + args.runs):
            lrs = [0.1] if one.shares else [0.02]  # by larger steps a site of one large amount diverges
            work = {"rounds": args.rounds, "epochs": args.epochs, "lrs": lrs}
            settings = {"limit": 2, "seed": 1000 * seed, "compute": args.device}
            found = benefit(one.tasks(seed), model, methods={}, metrics=further, **work, **settings)
            counted.update(one.claims(found))
            also = {key: replace(each, minority=None) for key, each in found.also.items()}
            before.update(one.claims(replace(found, minority=None, also=also)))
        for metric in told(found):
            cells = (count[metric, verdict] for verdict in ("loses", "gains") for count in (counted, before))
            line = (one.targets, f"{one.sites} × {one.rows}", metric, args.runs, *cells)
            print(f"| {' | '.join(map(str, line))} |", flush=True)


if __name__ == "__main__":
    main()
