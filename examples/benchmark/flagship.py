"""L2C and meta-L2C against local training and FedAvg, in settings of different kinds, all tuned on validation data.

    flagship.py
    flagship.py --settings fashion_mlp cifar10 hospitals --root DATA --checkpoint results/flagship --json results.json
    flagship.py --methods local l2c meta_l2c meta_l2c:mixer_lr=0.1,scale=mean 'meta_l2c:mixer_lr=[0.1,0.03]'

Any method can be named, with settings after a colon; of values in brackets the best is chosen on validation data, as
step sizes are for all methods. Nothing is dropped unless drop_round is given. Settings are described in _settings.py;
the table of patients is read from the folder DATA/tabular. With --checkpoint, the same command resumes what
was stopped by Ctrl-C or killed.

Two tables at the end have a row for every setting, with 95 % t-intervals of the paired differences over seeds: one is
of validation data, to choose by, the other of test data. The weights of the last round are described by what nodes give
to their own model, and by their entropy: 1 where all models count alike, 0 where one does.
"""

# ci: --seeds 1 --rounds 2 --checkpoint $OUT/flagship --json $OUT/flagship.json
# ci: --seeds 1 --rounds 2 --checkpoint $OUT/flagship
# ci: --settings digits groups --methods local l2c meta_l2c:mixer_lr=[0.01,0.1] --seeds 2 --rounds 1 --workers 2

from __future__ import annotations

import argparse
import ast
import json
import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _measure import add_device  # type: ignore
from _settings import SETTINGS  # type: ignore

from graphcollab import compare, get_method, report
from graphcollab._base.files import write_whole
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics import paired_difference
from graphcollab.analysis.metrics.weight_spread import weight_spread
from graphcollab.analysis.trial import Trial
from graphcollab.methods.method import last_graph
from graphcollab.report._terms import failures
from graphcollab.report.values import mean_cell, number, text_table
from graphcollab.train import Compute, Result

REFERENCES = ("local", "l2c")


@dataclass(frozen=True)
class Contender:
    """A method under the name it was given by, with fixed settings, and with values to choose from."""

    name: str
    fixed: dict[str, Any]
    grid: dict[str, list[Any]]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.name.partition(":")[0]

    @classmethod
    def parse(cls, text: str) -> Contender:
        """Read ``name`` or ``name:setting=value,setting=value``."""
        name, _, given = text.partition(":")
        call = ast.parse(f"{name}({given})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError(f"expected a method, or method:setting=value,setting=value, got {text!r}")
        values = {
            str(pair.arg): pair.value.id if isinstance(pair.value, ast.Name) else ast.literal_eval(pair.value)
            for pair in call.keywords
        }
        make = get_method(name)
        fixed = {key: value for key, value in values.items() if not isinstance(value, list)}
        made = cls(text, fixed, {key: value for key, value in values.items() if isinstance(value, list)})
        make(**fixed, **{key: value[0] for key, value in made.grid.items()})  # a wrong setting is refused here
        return made


@dataclass(frozen=True)
class Outcome:
    """What is known of a setting in the end: a comparison, and the weights of methods that have some, by seed."""

    comparison: Comparison
    weights: dict[str, list[dict[str, float]]]


def weights(result: Result) -> dict[str, float]:
    """Return what nodes give to their own models in the last round, and the entropy of their weights.

    There is nothing of methods that do not weigh along edges.
    """
    edges, given = last_graph(result.data)
    if not len(given):
        return {}
    spread = weight_spread(edges, given, result.tasks.num_nodes)
    own = spread.own[spread.own.isfinite()]  # of nodes that hear others
    found = {"own": own.mean(), "lowest own": own.min(), "highest own": own.max(), "entropy": spread.entropy.nanmean()}
    return {key: float(value) for key, value in found.items()}


def play(name: str, contenders: list[Contender], args: argparse.Namespace) -> Outcome:
    """Run all methods in a setting, with all step sizes and on all seeds."""
    setting = SETTINGS[name](args.root)
    rounds = args.rounds or setting.rounds
    seen: dict[int, dict[str, float]] = {}

    def tell(trial: Trial, result: Result | None, number: int, total: int) -> None:
        seen[id(trial)] = {} if result is None else weights(result)
        chosen = " ".join(f"{key}={value}" for key, value in trial.setting.items())
        scores = f"validation {trial.validation:.4g}, test {trial.summary['mean']:.4g}"
        print(f"{name} {trial.method} {number}/{total}: {chosen} seed {trial.seed}: {scores}", flush=True)

    shared = {"batch_size": setting.batch_size}
    comparison = compare(
        {one.name: partial(get_method(one.method), **{**shared, **one.fixed}) for one in contenders},
        setting.tasks,
        setting.model,
        range(args.seeds),
        {one.name: {**({} if "lr" in one.fixed else {"lr": args.lrs}), **one.grid} for one in contenders},
        on_trial=tell,
        rounds=rounds,
        budget="rounds",
        evaluate_every=rounds,
        n_jobs=args.workers,
        compute=Compute(num_threads=args.threads, device=args.device),
        checkpoint=None if args.checkpoint is None else args.checkpoint / name,
    )
    found = {method: [seen[id(trial)] for trial in trials] for method, trials in comparison.chosen.items()}
    return Outcome(replace(comparison, results={}), {method: some for method, some in found.items() if all(some)})


def weight_table(outcome: Outcome) -> str:
    """Return own weight and entropy of every method that has weights, means over seeds."""
    rows = []
    for method, some in outcome.weights.items():
        own, lowest, highest, entropy = (sum(one[key] for one in some) / len(some) for key in some[0])
        rows.append([method, f"{own:.4f}", f"{lowest:.4f}", f"{highest:.4f}", f"{entropy:.4f}"])
    return text_table(["weights in the last round", "own", "lowest", "highest", "entropy"], rows)


def summary_table(found: dict[str, Outcome], contenders: list[Contender], split: str) -> str:
    """Return a row for every setting: all methods' metric, and what meta-L2C has beyond local training and L2C."""
    names = [one.name for one in contenders]
    metas = [one.name for one in contenders if one.method == "meta_l2c"]
    pairs = [(meta, reference) for meta in metas for reference in REFERENCES if reference in names]
    rows = []
    for setting, outcome in found.items():
        told = outcome.comparison
        scale, digits = (100.0, 2) if told.share else (1.0, 4)
        metric = f"{told.metric}{' (%)' * told.share}{'' if told.higher_is_better else ', less is better'}"
        values = {name: scale * torch.tensor(score(told, name, split), dtype=torch.float64) for name in names}
        means = [failures(told, name) or mean_cell(values[name], digits).text for name in names]
        rows.append(
            [setting, metric, *means, *(difference(values[one], values[other], digits) for one, other in pairs)]
        )
    return text_table(["setting", f"{split} metric", *names, *(f"{one} − {other}" for one, other in pairs)], rows)


def score(comparison: Comparison, method: str, split: str) -> list[float]:
    """Return a method's metric on test or validation data, one value per seed."""
    return comparison.values(method) if split == "test" else [trial.validation for trial in comparison.chosen[method]]


def difference(one: torch.Tensor, other: torch.Tensor, digits: int) -> str:
    """Write a paired difference over seeds and its 95 % interval."""
    if bool((one - other).isnan().any()):
        return number(math.nan, digits)
    found = paired_difference(one, other)
    mean, low, high = (number(end, digits, signed=True) for end in (found.mean, found.low, found.high))
    return mean if math.isnan(found.low) else f"{mean} ({low} … {high})"


def arguments() -> tuple[argparse.Namespace, list[Contender]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--settings", nargs="+", default=["digits"], choices=SETTINGS, help="default: digits, which needs no files")
    add("--methods", nargs="+", default=["local", "fedavg", "l2c", "meta_l2c"], help="default: %(default)s")
    add("--lrs", type=float, nargs="+", default=[0.02, 0.05, 0.1], help="step sizes to choose from: %(default)s")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--seeds", type=int, default=5, help="number of partitions (default: %(default)s)")
    add("--rounds", type=int, help="default: those of the setting")
    add_device(parser)
    add("--threads", type=int, default=1, help="CPU threads of a process (default: %(default)s)")
    add("--workers", type=int, default=1, help="processes, each with one seed at a time (default: %(default)s)")
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there, anew after every setting")
    args = parser.parse_args()
    for given in (args.settings, args.methods):
        if len(set(given)) < len(given):
            parser.error(f"each setting and method can be named once, got {' '.join(given)}")
    try:
        contenders = [Contender.parse(text) for text in args.methods]
        for name in args.settings:
            SETTINGS[name](args.root)  # what is missing is missed before anything is played
    except (ValueError, TypeError, SyntaxError, FileNotFoundError) as error:
        parser.error(str(error))
    return args, contenders


def main() -> None:
    args, contenders = arguments()
    found: dict[str, Outcome] = {}
    content: dict[str, Any] = {"arguments": vars(args), "settings": {}}
    for name in args.settings:
        found[name] = outcome = play(name, contenders, args)
        told = outcome.comparison
        print(f"\n{name}\n{report.results_table(told)}")
        for reference in [one for one in REFERENCES if one in told.chosen and len(told.chosen) > 1]:
            print(f"\n{report.paired_table(told, reference, over='seeds')}")
        if outcome.weights:
            print("\n" + weight_table(outcome))
        print(flush=True)
        numbers = json.loads(report.results_json(told, "local" if "local" in told.chosen else None))
        content["settings"][name] = {**numbers, "weights": outcome.weights}
        if args.json:
            write_whole(args.json, json.dumps(content, default=str, indent=2).encode())
    for split in ("validation", "test"):
        print(summary_table(found, contenders, split) + "\n")
    if args.json:
        print("wrote", args.json)


if __name__ == "__main__":
    main()
