"""The commands: every option with its type, its default and its help, in signatures and groups of `options`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from graphcollab.cli.options import (
    COMPUTING,
    DATA,
    EVALUATION,
    METHODS,
    OUTPUT,
    TRAINING,
    Columns,
    Computing,
    Dealing,
    Method,
    Model,
    Output,
    Strings,
    Table,
    Training,
)
from graphcollab.cli.values import SEVERAL, flat

Methods = Annotated[tuple[Method, ...], SEVERAL, Parameter(group=METHODS)]
Rows = Annotated[Path, Parameter(group=DATA)]
Folder = Annotated[Path | None, Parameter(group=OUTPUT)]
StepSizes = Annotated[tuple[float, ...], SEVERAL, Parameter(group=TRAINING)]
Rounds = Annotated[int, Parameter(group=TRAINING)]
Budget = Annotated[Literal["steps", "rounds"] | int, Parameter(group=TRAINING)]
Evaluated = Annotated[int, Parameter(group=EVALUATION)]
Baseline = Annotated[Literal["sklearn", "none"] | None, Parameter(group=EVALUATION)]
Jobs = Annotated[int, Parameter(group=COMPUTING)]
Flag = Annotated[bool, Parameter(group=OUTPUT)]


def compare(
    data: Rows,
    *,
    methods: Methods,
    table: Table = Table(),
    dealing: Dealing = Dealing(),
    model: Model = Model(),
    graphs: Annotated[tuple[str, ...], Parameter(group=METHODS)] = (),
    rounds: Rounds = 100,
    budget: Budget = "steps",
    lrs: Annotated[tuple[float, ...] | None, SEVERAL, Parameter(group=TRAINING)] = None,
    patience: Annotated[int | None, Parameter(group=TRAINING)] = 20,
    seeds: Annotated[tuple[int, ...], SEVERAL, Parameter(group=EVALUATION)] = (0, 1, 2, 3, 4),
    baseline: Annotated[Literal["constant", "sklearn", "none"] | None, Parameter(group=EVALUATION)] = None,
    n_jobs: Jobs = 1,
    training: Training = Training(),
    computing: Computing = Computing(),
    out: Folder = None,
    save: Flag = False,
    explain: Flag = False,
    by: Annotated[Strings, Parameter(group=OUTPUT)] = (),
    calibrate: Flag = False,
    threshold: Annotated[Literal["balanced"] | float, Parameter(group=OUTPUT)] = 0.5,
    output: Output = Output(),
) -> None:
    """Compare methods on a table of several sites, after the same number of local steps.

    Args:
        data: CSV or Parquet file with a row for every sample, or the name of a dataset (graphcollab datasets).
        methods: Methods to compare.
        graphs: Graph of a method, cobo=roads.csv, with the columns sender and receiver. Default: the complete graph.
        rounds: Rounds of the method with the most local steps in a round; the others take as many local steps.
        budget: All methods take the local steps of the costliest (steps), play --rounds (rounds), or take this many.
        lrs: Step sizes to choose from on validation rows; none: each method's own. Default: 0.01 and 0.1 for tables,
            each method's own for datasets without sites.
        patience: Stop after this many evaluations without improvement of the validation metric, and keep the best
            state; 0 or none: play all rounds, and keep the last.
        seeds: Seeds of partition and training; a single number says how many, 5 for 0 to 4.
        baseline: Add a row of what a constant reaches (constant), or of scikit-learn's linear models as well, per site,
            pooled, and pooled with the site as input (sklearn). Default: constant for tables, none for other datasets.
        n_jobs: Number of processes; results are the same.
        out: Folder for results and checkpoints, in which the same command goes on. Default: nothing is written.
        save: Fit every method once more, to all rows, and save these models in OUT/models, for graphcollab predict.
        explain: Show what the models of the best method and of local rely on and, of linear ones, coefficients.
        by: Columns of groups of rows, such as sex, for which the models are judged; numbers are divided into bands.
        calibrate: Scale the saved models' probabilities by what validation rows say.
        threshold: From which probability on saved models predict the second of two classes; balanced: from where on
            sensitivity and specificity on validation rows are greatest.
    """
    settings = flat(locals())
    from graphcollab.cli.comparing import play_compare

    play_compare(settings)


def benefit(
    data: Rows,
    *,
    methods: Annotated[tuple[Method, ...] | None, SEVERAL, Parameter(group=METHODS)] = None,
    table: Table = Table(),
    dealing: Dealing = Dealing(),
    model: Model = Model(),
    rounds: Rounds = 30,
    epochs: Rounds = 3,
    batch_size: Rounds = 16,
    lrs: StepSizes = (0.01, 0.03, 0.1),
    metrics: Annotated[Strings, Parameter(group=EVALUATION)] = (),
    repeats: Evaluated = 10,
    evaluations: Evaluated = 10,
    level: Annotated[float, Parameter(group=EVALUATION)] = 0.05,
    limit: Evaluated = 30,
    seed: Evaluated = 0,
    baseline: Baseline = None,
    n_jobs: Jobs = 1,
    computing: Computing = Computing(),
    out: Folder = None,
    save: Flag = False,
    output: Output = Output(),
) -> None:
    """Find out which sites gain by collaborating, with which sites, and how much.

    Args:
        data: CSV or Parquet file with a row for every sample, or the name of a dataset (graphcollab datasets).
        methods: Methods to try beside averaging. Default: meta_l2c, and for tables partial_pooling, too, to choose
            from common slopes or a pull (lam) of 30, a shrink of 0 or 10, a warmup of none or a third of the rounds.
        rounds: Rounds on every split.
        epochs: Passes over a site's samples in a round.
        batch_size: Samples of a step.
        lrs: Step sizes to choose from.
        metrics: Further metrics of the same models.
        repeats: Number of random splits, three or more.
        evaluations: Number of evaluations, after which training may stop.
        level: Probability of claiming any gain where there is none; at most 0.5.
        limit: Number of sites up to which all pairs are tried; of more sites, as many pairs are drawn.
        seed: Seed of splits, models and batches: split r has seed + r.
        baseline: Add rows of scikit-learn's linear models, per site, pooled, and pooled with the site as input
            (sklearn); a gain must then be one over that of a site's own rows, too. Default: sklearn for tables, but of
            times until an event, else none.
        n_jobs: Number of processes; results are the same.
        out: Folder for the answer, its numbers, a picture and a page. Default: nothing is written.
        save: Fit what the answer advises to all rows, and save these models in OUT/models, for graphcollab predict.
    """
    settings = flat(locals())
    from graphcollab.cli.comparing import play_benefit

    play_benefit(settings)


def predict(
    saved: Rows,
    data: Rows,
    *,
    site: Annotated[str | None, Parameter(group=DATA)] = None,
    proba: Flag = False,
    out: Folder = None,
    output: Output = Output(),
) -> None:
    """Predict the rows of a table by the saved models of their sites, as CSV with a line for every row.

    Args:
        saved: Folder of saved models, such as OUT/models/ditto.
        data: CSV or Parquet file with the same columns.
        site: Site of all rows; for a new one the model of all sites answers. Default: the table has a column of sites.
        proba: Write the probability of every class, too.
        out: CSV file, which is not there yet. Default: standard output.
    """
    settings = flat(locals())
    from graphcollab.cli.predicting import play_predict

    play_predict(settings)


def site(
    name: Annotated[str, Parameter(group=DATA)],
    data: Rows,
    *,
    method: Annotated[Method, Parameter(group=METHODS)],
    columns: Columns = Columns(),
    model: Model = Model(),
    rounds: Rounds = 100,
    seed: Evaluated = 0,
    training: Training = Training(),
    computing: Computing = Computing(),
    dry_run: Flag = False,
    others: Annotated[Strings, Parameter(group=OUTPUT)] = (),
    listeners: Annotated[tuple[str, ...] | None, SEVERAL, Parameter(group=OUTPUT)] = None,
    out: Folder = None,
    output: Output = Output(),
) -> None:
    """Take part in a run between sites that keep their data, or rehearse it by --dry-run.

    Args:
        name: Name of this site, as on its certificate.
        data: CSV or Parquet file with this site's rows.
        method: The method, the same at all sites.
        rounds: Rounds to play.
        seed: Seed of everything random.
        dry_run: Rehearse: list what would leave this site, and send nothing.
        others: Names of the other sites in the rehearsal. Default: three other sites.
        listeners: Sites that may receive this site's models. Default: all.
        out: Folder for models, history and checkpoints, in which the same command goes on. Default: nothing is written.
    """
    settings = flat(locals())
    from graphcollab.cli.site import play_site

    play_site(settings)


def methods() -> None:
    """List the methods."""
    from graphcollab.cli.listing import list_methods

    list_methods()


def datasets() -> None:
    """List the datasets that are known by name."""
    from graphcollab.cli.listing import list_datasets

    list_datasets()


def show(name: str, *, table: Table = Table(), out: Folder = None, output: Output = Output()) -> None:
    """Show a method's settings, a dataset, a folder of results or saved models, or a table: sites, columns, findings.

    Args:
        name: A method, a dataset, a CSV or Parquet file, or a folder.
        out: Folder for what is shown of a table, as text and as a page. Default: nothing is written.
    """
    settings = flat(locals())
    from graphcollab.cli.listing import show_name

    show_name(name, settings)


COMMANDS: tuple[Callable[..., None], ...] = (compare, benefit, predict, site, methods, datasets, show)
