"""Builders of `Tasks`: from per-node samples, from flat arrays and from a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeAlias, TypedDict, Unpack, cast

from torch import Tensor

from graphcollab._base.errors import ConflictError, MismatchError
from graphcollab._base.settings import Fraction, Known, Natural, Real, Seed, checked
from graphcollab.data._fit import declared_columns
from graphcollab.data._frames import tasks_of_table
from graphcollab.data._pairs import Every, class_labels, facts_of_pool, gathered, to_tensors, to_weights
from graphcollab.data._rows import TableSettings
from graphcollab.data._sites import SAMPLES, Draw, find_sites, to_groups
from graphcollab.data.losses import LossName
from graphcollab.data.metric_fit import METRICS
from graphcollab.data.preparation import Preparation
from graphcollab.data.quality_of_samples import of_repeats, of_scales
from graphcollab.data.quality_of_values import warn_of
from graphcollab.data.samples import Pool, refuse_not_finite
from graphcollab.data.statistics import HERE, Statistics

Names: TypeAlias = Annotated[Iterable[object], "a sequence of names"]
AnyLoss: TypeAlias = LossName | Callable[..., Any]
AnyMetric: TypeAlias = Annotated[str, Known(METRICS)] | Callable[..., Any]
Strings: TypeAlias = Annotated[Sequence[str], "a list of names of columns"]
Declared: TypeAlias = Annotated[Mapping[str, Any], "a dict of categories, or classes, by column"]
Weights: TypeAlias = Annotated[Mapping[Any, Any], "a dict of weights by class"]
Part: TypeAlias = Annotated[float, Real(least=0, below=1)]


class TaskFields(TypedDict, total=False):
    """Arguments that every builder accepts in addition to its own; see `Tasks`."""

    names: Names | None
    loss: AnyLoss
    metric: AnyMetric
    node_id: Tensor | None


class Builders:
    """Constructors that `Tasks` inherits."""

    @classmethod
    @checked
    def from_samples(
        cls,
        train: Every,
        val: Every | None = None,
        test: Every | None = None,
        *,
        val_fraction: Part = 0.2,
        seed: Seed = 0,
        stratify: bool = True,
        cluster: Tensor | None = None,
        statistics: Statistics = HERE,
        **kwargs: Unpack[TaskFields],
    ) -> Self:
        """Build tasks from one dataset per node.

        Args:
            train: One pair (inputs, targets), dict or torch ``Dataset`` per node. A dict keyed by node name is sorted
                by name. Randomness is keyed by the node's name, or by its position in a list without ``names``. A
                node's dict, or a dict returned as a sample of a ``Dataset``, may contain sample weights under
                ``"weight"`` (see `from_arrays`); then all nodes must have weights, in every split.
            val: Validation samples per node, in the same format as ``train``. Default: ``val_fraction`` of the training
                samples, drawn at random.
            test: Optional test samples per node.
            val_fraction: Share of training samples set aside for validation when ``val`` is not given.
            seed: Seed of this random split.
            stratify: Whether to stratify this split by class; see `hold_out`.
            cluster: True cluster of every node, [K], in the order of ``train``, if known.
            statistics: Statistics over all samples, if some are in other processes.
            kwargs: ``names``, ``loss``, ``metric``, ``node_id``.
        """
        pools, splits, about = gathered(train, val, test, {**kwargs, "cluster": cluster})
        labeled = statistics.agree(facts_of_pool(pools["train"]), lambda facts: all(one["labeled"] for one in facts))
        own = cast(Any, cls)(pools, splits, split_given=test is not None, **about)
        may_train = own.splits["train"]
        if val is None:
            own = own.hold_out(val_fraction, seed, stratify and labeled)
        return cast(Self, statistics.union(own, may_train))

    @classmethod
    @checked
    def from_arrays(
        cls,
        inputs: Any,
        targets: Any,
        node: Any,
        *,
        weight: Any = None,
        group: Any = None,
        split: Any = None,
        val_fraction: Part = 0.2,
        test_fraction: Part = 0.2,
        stratify: bool = True,
        seed: Seed = 0,
        loss: AnyLoss = "cross_entropy",
        metric: AnyMetric = "accuracy",
        statistics: Statistics = HERE,
    ) -> Self:
        """Build tasks from flat arrays and an array that assigns every row to a node.

        Nodes are sorted by name, and randomness is keyed by name: only the order of rows within a node matters.
        float32 and int64 arrays are not copied.

        Args:
            inputs: Samples of all nodes, [N, ...].
            targets: Class labels from 0, [N], or real values, [N] or [N, D].
            node: Node name of every row, [N]: strings or integers.
            weight: Weight of every row in the losses and metrics of its node, which become weighted means, [N]. Weights
                must be finite and nonnegative; only their ratios within a node matter. Row counts are unweighted.
                Default: equal weights.
            group: Group of every row, such as the patient of a visit, [N]. All rows of a group stay in the same split,
                across nodes as well, and when `graphcollab.benefit` redraws the splits. Exception: if numeric groups
                run from 0 or 1 at every node, with few gaps, the same number at two nodes means two groups.
                Default: every row is its own group.
            split: ``"train"``, ``"val"`` or ``"test"`` for every row, [N]. Default: drawn at random.
            val_fraction: Share of a node's training rows, or of their groups, set aside for validation if ``split``
                contains no ``"val"``.
            test_fraction: Share of a node's rows, or groups, set aside for testing if ``split`` is not given.
            stratify: Whether to stratify the random splits by class; see `hold_out`.
            seed: Seed of the random splits.
            loss: See `Tasks`.
            metric: See `Tasks`.
            statistics: Statistics over all samples, if some are in other processes.

        Raises:
            ValueError: If the lengths differ, a row has no node name, an unknown split, a non-finite value or a
                negative weight, or if a node has too few rows, or no positive weight in some split. The message names
                the row and the site.

        Example:
            >>> import numpy as np
            >>> from graphcollab import Tasks
            >>> x, y = np.zeros((20, 3)), [0, 1] * 10
            >>> tasks = Tasks.from_arrays(x, y, ["south"] * 12 + ["north"] * 8)
            >>> tasks.names, tasks.sizes("train").tolist(), tasks.sizes("test").tolist()
            (('north', 'south'), [5, 8], [2, 2])
        """
        draw = Draw(split, val_fraction, test_fraction, stratify, seed)
        x, y = to_tensors(inputs, targets)
        sites = find_sites(node)
        rows = len(sites.owner)
        if not len(x) == len(y) == rows:
            raise MismatchError(
                "inputs",
                f"{len(x)} inputs, {len(y)} targets and {rows} names of nodes are given: give one of each per row",
            )
        hint = "fill it in or drop such rows; Tasks.from_frame can fill in missing values"
        refuse_not_finite("inputs", x, sites.at, hint)
        refuse_not_finite("targets", y, sites.at, "drop rows without a target")
        given = None if weight is None else to_weights(weight, rows, sites.at)
        pool = Pool(x, y, given, None if group is None else to_groups(sites, group))
        facts = statistics.agree({**facts_of_pool(pool), "splits": draw.said}, lambda facts: facts)
        draw = replace(draw, elsewhere=frozenset(word for one in facts for word in one["splits"]))
        labels = class_labels(y.cpu()) if all(one["labeled"] for one in facts) else None
        splits = draw.divide(sites, labels, pool.group)
        read = ({SAMPLES: pool}, splits, sites.names)
        found = (*of_repeats(*read), *of_scales(*read))
        warn_of(found)
        about = {"split_given": split is not None, "findings": found}
        own = cast(Any, cls)(*read, loss, metric, sites.node_id, **about)
        return cast(Self, statistics.union(own, draw.may_train(sites)))

    @classmethod
    @checked
    def from_frame(
        cls,
        frame: Any,
        node: str = "site",
        target: str = "y",
        *,
        event: str | None = None,
        weight: Any = None,
        class_weight: Literal["balanced"] | Weights | None = None,
        columns: Strings | None = None,
        leave_out: Strings = (),
        categorical: Strings = (),
        categories: Declared | None = None,
        pooled: Literal["sums", "per_site"] = "sums",
        indicator_above: Fraction = 0.0,
        standardize_target: bool = False,
        preparation: Preparation | None = None,
        refit: bool = False,
        group: Any = None,
        split: Any = None,
        drop_missing_target: bool = False,
        min_rows: Natural = 0,
        val_fraction: Part = 0.2,
        test_fraction: Part = 0.2,
        stratify: bool = True,
        seed: Seed = 0,
        loss: AnyLoss | None = None,
        metric: AnyMetric | None = None,
        statistics: Statistics = HERE,
    ) -> Self:
        """Build tasks from a table with a column that assigns every row to a site.

        Numbers are standardized, missing numbers become the mean, and text is one-hot encoded, all fitted on training
        rows only. No row leaves its site; `preparation` lists what sites share. Nodes are keyed by name, as in
        `from_arrays`.

        Args:
            frame: A pandas or polars frame, a dict of columns, a list of rows as dicts, the path of a CSV, Excel or
                Parquet file, or a dict {site: any of these}.
            node: The column with the site names. Optional if ``frame`` is a dict by site.
            target: The column to predict. Text and whole numbers are classes, other numbers are real values, unless
                ``loss`` decides: ``"mse"`` is for real values, ``"poisson"`` for counts, ``"cross_entropy"`` and
                ``"bce"`` for classes.
            event: The column that indicates, as 1/0, 2/1 or true/false, whether ``target`` is the time of an event or a
                censoring time. The default loss is then ``"cox"``.
            weight: The column with row weights, or one weight per row; see `from_arrays`. The preparation ignores
                weights.
            class_weight: Loss weight of every row by its class, {class: weight}, 1 for classes not listed.
                ``"balanced"``: rows / (classes · rows of the class), over the training rows of all sites. Metrics
                ignore class weights.
            columns: The input columns. Default: all other columns except those in ``leave_out``.
            leave_out: Columns to exclude from the inputs if ``columns`` is not given.
            categorical: Numeric columns to treat as categories. Text columns are always categorical.
            categories: All categories of some columns, and all classes of the target, {column: names}. Sites then share
                no names of these columns, and other values count as unknown.
            pooled: ``"sums"``: means and standard deviations over all sites, computed from shared sums. ``"per_site"``:
                separate ones for every site. Names of categories and classes are shared either way.
            indicator_above: Columns missing in a larger share of training rows get an indicator as an additional
                feature.
            standardize_target: Whether to standardize real targets, too. Loss and metric are then in standardized
                units, and ``preparation.restore`` converts predictions back.
            preparation: The preparation of other tasks, for new sites or additional rows; nothing is fitted. If given,
                ``node``, ``target``, ``columns``, ``leave_out`` and ``categorical`` must agree with it. ``categories``
                is not allowed, and without ``refit``, ``pooled``, ``indicator_above`` and ``standardize_target`` are
                ignored.
            refit: Whether to fit means and standard deviations anyway and keep only the columns, categories, classes
                and indicators of ``preparation``. Models then fit other splits, in which a rare category may be absent.
            group: The column of groups, such as patients, or one name per row; see `from_arrays`.
            split: The column with ``"train"``, ``"val"`` or ``"test"``, or one of these words per row. Default: drawn
                at random.
            drop_missing_target: Whether to drop rows without a target, a site name or a known ``event``, with a
                warning. Otherwise they raise an error.
            min_rows: Drop sites with fewer rows, or groups, with a warning that names them.
            val_fraction, test_fraction, stratify, seed: See `from_arrays`.
            loss: See `Tasks`. Default: ``"cross_entropy"`` for classes, ``"mse"`` for real values.
            metric: See `Tasks`. Default: ``"accuracy"`` for classes, ``"mae"`` for real values,
                ``"poisson_deviance"`` for counts, ``"concordance"`` for times.
            statistics: Statistics over all rows, if some are in other processes.

        Raises:
            ValueError: If a column is missing or invalid, or for any reason given in `from_arrays`. The message names
                the column, the row and the site.

        Example:
            >>> from graphcollab import Tasks
            >>> table = {"site": ["a", "b"] * 10, "age": range(20), "sex": ["f", "f", "m", "m"] * 5, "ill": [0, 1] * 10}
            >>> tasks = Tasks.from_frame(table, target="ill")
            >>> tasks.preparation.features, tasks.num_nodes
            (('age', 'sex = f', 'sex = m'), 2)
        """
        drawn, declared = Draw(split, val_fraction, test_fraction, stratify, seed), declared_columns(categories or {})
        if declared and preparation is not None:
            raise ConflictError(
                "categories", "categories= and preparation= both say what categories there are: give only one of them"
            )
        loss = "cox" if loss is None and event is not None else loss
        if (loss == "cox") != (event is not None) and not callable(loss):
            raise ConflictError(
                "event", f"event= and loss='cox' go together, got event={event!r} and loss={loss!r}: give both, or none"
            )
        columns_of = (node, target, weight, group, columns, leave_out, categorical, declared)
        fitted = (pooled == "per_site", indicator_above, standardize_target, preparation, refit)
        how = TableSettings(*columns_of, *fitted, drop_missing_target, min_rows, class_weight, event)
        return cast(Self, tasks_of_table(cast(Any, cls), frame, how, drawn, loss, metric, statistics))
