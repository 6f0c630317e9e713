"""Options that several commands share: type, default and help of each, in groups that are arguments of functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from graphcollab import methods
from graphcollab.cli.values import METRIC, SEVERAL
from graphcollab.data.losses import LossName

if TYPE_CHECKING:
    from graphcollab.train.settings import Compute

    Method = str
else:
    Method = Literal[*methods.__all__]

DATA, METHODS, TRAINING, EVALUATION, COMPUTING, OUTPUT = (
    Group.create_ordered(name)
    for name in ("Data", "Methods and model", "Training", "Evaluation", "Computing", "Output and more")
)
Strings = Annotated[tuple[str, ...], SEVERAL]


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Columns:
    """Arguments of `Tasks.from_frame`, but for the column of sites and that of parts."""

    target: str = "y"
    """Column to predict: text and whole numbers are classes, other numbers are not, unless --loss decides."""
    event: str | None = None
    """Column that says whether the target, a time, is that of an event (1, or 2 of 1 and 2), or of the last look."""
    weight: str | None = None
    """Column of sample weights. Default: all rows have the same weight."""
    class_weight: Literal["balanced"] | None = None
    """balanced: in training, rows of rare classes count more, in inverse proportion to their number."""
    columns: Annotated[tuple[str, ...] | None, SEVERAL] = None
    """Columns to predict from. Default: all except those of --leave-out."""
    leave_out: Strings = ()
    """Columns not to predict from, such as patient numbers."""
    categorical: Strings = ()
    """Columns of numbers that are categories; columns of text always are."""
    categories: tuple[str, ...] = ()
    """All categories of a column, chest_pain=1,2,3,4, or all classes of the target, including those absent."""
    pooled: Literal["sums", "per_site"] = "sums"
    """Means and standard deviations over all sites, from sums that they share, or of each site."""
    standardize_target: bool | None = None
    """Divide a regression target by its standard deviation; predictions are in the table's units. Default: in
    benefit."""
    group: str | None = None
    """Column of group labels, such as a patient ID; rows of one group stay in the same part."""
    drop_missing_target: bool = False
    """Leave out rows without a target, or without a site, with a warning. Default: they are an error."""
    val_fraction: float = 0.2
    """Share of a site's training rows for validation."""
    test_fraction: float = 0.2
    """Share of a site's rows for testing."""
    stratify: bool = True
    """Set aside rows of every class."""
    loss: Annotated[LossName | None, Parameter(group=EVALUATION)] = None
    """Training loss: cross_entropy or bce for classification, mse for regression, poisson for counts, cox for times
    with --event. Default: by the target."""
    metric: Annotated[str | None, METRIC, Parameter(group=EVALUATION)] = None
    """Metric by which models are compared (docs/comparing.md). Default: accuracy, mae, poisson_deviance
    or concordance."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Table(Columns):
    """Arguments of `Tasks.from_frame`."""

    node: str = "site"
    """Column of site names."""
    min_rows: int = 0
    """Leave out sites with fewer rows, with a warning that names them."""
    split: str | None = None
    """Column that assigns each row to train, val or test. Default: drawn at random."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class Dealing:
    """How a dataset without sites is partitioned."""

    partition: Literal["shards", "groups"] = "shards"
    """Partition of a dataset without sites: a few random classes a site, or classes shared by groups of sites."""
    groups: int = 5
    """Groups of sites, with --partition groups."""
    sites: int = 20
    """Number of sites."""
    classes_per_node: int = 2
    """Classes of a site, with --partition shards; must divide the number of classes."""
    shard_size: int | None = None
    """Samples of each class at a site. Default: all samples are dealt."""


@Parameter(name="*", group=METHODS)
@dataclass(frozen=True, kw_only=True)
class Model:
    """The model of a site, and the methods' own settings."""

    hidden: Annotated[tuple[int, ...] | None, SEVERAL] = None
    """Widths of the hidden layers; none: a linear model. Default: one of 64; in comparisons of tables also a linear
    model, whichever is better on validation rows."""
    set: tuple[str, ...] = ()
    """A method's own setting, cobo.rho=0.1; cobo.rho=0.05,0.1 tries both, '*.lr=0.1' sets it for all methods."""


@Parameter(name="*", group=COMPUTING)
@dataclass(frozen=True, kw_only=True)
class Computing:
    """Where and how `run` computes."""

    device: Literal["auto", "cpu", "cuda"] | str = "cpu"
    """Device; auto takes the GPU if there is one."""
    num_threads: int | None = None
    """Threads of the processor. Default: by the size of the models."""


def compute_of(asked: Mapping[str, Any]) -> Compute:
    """Return where and how to compute, as was asked for."""
    from graphcollab.train.settings import Compute  # here, since importing it takes long

    return Compute(device=asked["device"], num_threads=asked["num_threads"])


@Parameter(name="*", group=TRAINING)
@dataclass(frozen=True, kw_only=True)
class Training:
    """Arguments of `run` that comparisons and sites have in common."""

    on_nonfinite: Annotated[Literal["stop", "isolate"], Parameter(group=TRAINING)] = "stop"
    """Where a site's training diverges: stop, or isolate that site and go on with the others."""
    evaluate_every: Annotated[int, Parameter(group=EVALUATION)] = 1
    """Rounds between evaluations; with --budget steps, of the method with the most local steps in a round."""


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of all commands that take settings."""

    config: Path | None = None
    """TOML file of settings; options on the command line take precedence."""
    quiet: Annotated[bool, Parameter(alias="-q", negative="")] = False
    """Print nothing but the answer."""
