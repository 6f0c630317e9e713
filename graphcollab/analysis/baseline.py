"""Baselines on the same splits: constants, and scikit-learn's linear models per site, pooled, and with the site."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError, UnsupportedError
from graphcollab.analysis.constants import ADDED, constants, scores_of
from graphcollab.analysis.metrics import Metric, as_metric
from graphcollab.analysis.metrics.statistics import summarize
from graphcollab.analysis.shared_samples import identify_samples
from graphcollab.analysis.trial import COLUMNS, Trial
from graphcollab.data.losses import predicted_by
from graphcollab.data.samples import Pool
from graphcollab.data.tasks import Tasks
from graphcollab.train.identity import identify_tasks

Baseline: TypeAlias = Literal["sklearn"] | None
OWN = "sklearn per site on training rows"
SKLEARN = ("sklearn per site", "sklearn pooled", "sklearn pooled with site", OWN)
CONSTANT = "constant"
BASELINES = (CONSTANT, *SKLEARN)
FOLDS = 5  # of cross-validation; fewer if the rarest class has fewer rows
CS, ALPHAS = np.logspace(-3, 3, 7), np.logspace(-3, 5, 17)
PENALTIES = np.logspace(-4, 2, 7)
Fitted: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Predictions for inputs [n, D], in the form of a network's outputs: [n, C] or [n, D']."""


def require_baseline(tasks: Tasks, names: Collection[str], baseline: str) -> None:
    """Check that baselines can be fitted to tasks, and that no method has the name of a baseline."""
    if taken := [name for name in BASELINES if name in names]:
        raise ConflictError(f"method {taken[0]!r}", f"a method cannot be called {taken[0]!r}, as a row of baseline=")
    if baseline == CONSTANT:
        unlike = tasks.loss == "cross_entropy" and tasks.classes is None
        if unlike or not isinstance(tasks.loss, str):
            raise UnsupportedError("baseline", f"no constant is known for loss {tasks.loss!r} here: leave it out")
        return
    tasks.require_here(
        torch.arange(tasks.num_nodes), ", and baseline='sklearn' fits models of all sites' rows in one: leave it out"
    )
    pools = [tasks.pools[split.pool] for split in tasks.splits.values()]
    odd = predicted_by(tasks.loss) not in ("classes", "amounts", "counts") or not all(
        p.inputs.is_floating_point() for p in pools
    )
    odd |= tasks.loss == "cross_entropy" and tasks.classes is None
    if odd or (tasks.loss == "bce" and any(bool(((p.targets != 0) & (p.targets != 1)).any()) for p in pools)):
        raise UnsupportedError(
            "baseline",
            "baseline='sklearn' needs inputs of numbers, and a class, amount or count of each row: leave it out",
        )


def baseline_scores(tasks: Tasks, metrics: Sequence[Metric], splits: Sequence[str] = ("test",)) -> dict[str, Tensor]:
    """Return metrics [M, H, K] of scikit-learn's linear models on splits of tasks, by `SKLEARN`.

    Models are fitted to training and validation rows of each site, of all sites, and of all sites with the site as
    one-hot inputs, and to each site's training rows alone: logistic regression for classes, with C chosen by
    cross-validated log loss, ridge regression for real targets, or Poisson regression for counts.
    """
    nodes, site = range(tasks.num_nodes), np.eye(tasks.num_nodes)
    own = [tasks.of(k, *[name for name in ("train", "val") if name in tasks.splits]).to("cpu") for k in nodes]
    every = Pool.joined(own)
    with own_filter("ignore"):  # scikit-learn's warnings about iterations and few rows
        pooled = _fit(tasks, every, inputs_of(every))
        with_site = _fit(tasks, every, np.concatenate([inputs_of(rows, site[k]) for k, rows in enumerate(own)]))
        each = [_fit(tasks, rows, inputs_of(rows)) for rows in own]
        less = [tasks.of(k, "train").to("cpu") for k in nodes] if "val" in tasks.splits else []
        fewer = [_fit(tasks, rows, inputs_of(rows)) for rows in less] or each

    def predict(node: int, rows: Pool) -> list[Tensor]:
        x = inputs_of(rows)
        outputs = each[node](x), pooled(x), with_site(inputs_of(rows, site[node])), fewer[node](x)
        shape = (len(rows), -1) if tasks.loss == "cross_entropy" else rows.targets.shape
        return [torch.from_numpy(values).reshape(shape) for values in outputs]

    return dict(zip(SKLEARN, scores_of(tasks, metrics, splits, predict, len(SKLEARN)), strict=True))


def inputs_of(rows: Pool, site: Sequence[float] | np.ndarray = ()) -> np.ndarray:
    """Return inputs as scikit-learn expects them, [n, D], followed by the site's encoding."""
    return np.hstack([rows.inputs.flatten(1).double().numpy(), np.tile(site, (len(rows), 1))])


def baseline_trials(tasks: Tasks, seed: int, baseline: str) -> list[Trial]:
    """Return test metrics of baselines on a seed's tasks, as trials of methods named as in `BASELINES`."""
    metric, sizes, trials = as_metric(tasks.metric), tasks.sizes("test").tolist(), []
    identity: dict[str, Any] = {"tasks": identify_tasks(tasks), "samples": identify_samples(tasks)}
    found = {} if (flat := constants(tasks, [metric], ["test"])) is None else {CONSTANT: flat[1]}
    for name, scores in (found | (baseline_scores(tasks, [metric]) if baseline == "sklearn" else {})).items():
        values = scores[0, 0].tolist()
        tested = {k: size for k, size, v in zip(tasks.names, sizes, values, strict=True) if not math.isnan(v)}
        summary = dict.fromkeys(COLUMNS, math.nan) | summarize(values, metric.higher_is_better)
        known = {"per_node": tuple(values), "tested": tested, **identity}
        trials.append(Trial(name, seed, {}, math.nan, summary, **known))
    return trials


def _fit(tasks: Tasks, rows: Pool, x: np.ndarray) -> Fitted:
    """Return a function from inputs to the outputs of a network trained with the tasks' loss."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight.double().numpy()
    x, y, weight = (some[weight > 0] for some in (x, rows.targets.numpy(), weight))
    if tasks.loss == "mse":
        return _fit_amounts(x, y.reshape(len(y), -1), weight)
    if tasks.loss == "poisson":
        fits = [_fit_counts(x, column, weight) for column in y.reshape(len(y), -1).T]
        return lambda x: np.stack([one(x) for one in fits], 1) - math.log(tasks.scale)
    if tasks.loss == "cross_entropy" and tasks.classes is not None:
        return _fit_classes(x, y, weight, tasks.classes.size(1))
    fitted = [_fit_classes(x, column, weight, 2) for column in y.reshape(len(y), -1).T]
    return lambda x: np.stack([said[:, 1] - said[:, 0] for said in (one(x) for one in fitted)], 1)


def _fit_amounts(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Fitted:
    from sklearn.linear_model import RidgeCV  # imported here because it is slow

    if len(y) < 3:
        mean = np.average(y, axis=0, weights=weight) if len(y) else np.zeros(y.shape[1])
        return lambda x: np.tile(mean, (len(x), 1))
    model = RidgeCV(alphas=ALPHAS).fit(x, y, sample_weight=weight)
    return lambda x: model.predict(x).reshape(len(x), -1)


def _fit_counts(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Fitted:
    """Fit log rates, or their mean if few rows have any events."""
    from sklearn.linear_model import PoissonRegressor
    from sklearn.model_selection import GridSearchCV, KFold

    if (y > 0).sum() < FOLDS:
        mean = np.log(max(np.average(y, weights=weight) if len(y) else 0.0, ADDED / max(len(y), 1)))
        return lambda x: np.full(len(x), mean)
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    given = {"scoring": "neg_mean_poisson_deviance", "cv": folds}
    search = GridSearchCV(PoissonRegressor(max_iter=1000), {"alpha": PENALTIES}, **given)
    model = search.fit(x, y, sample_weight=weight).best_estimator_
    return lambda x: x @ model.coef_ + model.intercept_


def _fit_classes(x: np.ndarray, y: np.ndarray, weight: np.ndarray, classes: int) -> Fitted:
    """Fit class probabilities for classes with at least two rows; use frequencies for other classes and single ones."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    x, y, weight = (some[y >= 0] for some in (x, y, weight))  # losses ignore −100
    y = y.astype(np.int64)
    held = np.bincount(y, weight, classes) / max(weight.sum(), np.finfo(float).tiny)
    share = (len(y) * held + ADDED) / (len(y) + classes * ADDED)
    many = np.bincount(y, minlength=classes)
    fit = many > 1
    if fit.sum() < 2:
        return lambda x: np.tile(np.log(share), (len(x), 1))
    known = fit[y]  # rows are ordered by site, so contiguous folds would consist of sites
    folds = StratifiedKFold(min(FOLDS, int(many[fit].min())), shuffle=True, random_state=0)
    model = LogisticRegressionCV(Cs=CS, cv=folds, scoring=_log_likelihood, max_iter=1000)
    model.fit(x[known], y[known], sample_weight=weight[known])

    def said(x: np.ndarray) -> np.ndarray:
        p = np.tile(share, (len(x), 1))
        p[:, fit] = (1 - share[~fit].sum()) * model.predict_proba(x)
        return np.log(p.clip(np.finfo(float).eps))

    return said


def _log_likelihood(model: Any, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the same as scikit-learn's "neg_log_loss", which spends most of its time validating arguments."""
    p = model.predict_proba(x)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(np.average(np.log(p.clip(np.finfo(p.dtype).eps)), weights=sample_weight))
