"""Ways to make `Tasks`: of every node's samples, of flat arrays, and of a table."""

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
from graphcollab.data.metric_fit import METRICS
from graphcollab.data.preparation import Preparation
from graphcollab.data.quality_of_samples import of_repeats, of_scales
from graphcollab.data.quality_of_values import warn_of
from graphcollab.data.samples import Pool, refuse_not_finite
from graphcollab.data.statistics import HERE, Statistics

Names: TypeAlias = Annotated[Iterable[object], "a sequence of names"]
AnyLoss: TypeAlias = Literal["cross_entropy", "mse", "bce", "poisson", "cox"] | Callable[..., Any]
AnyMetric: TypeAlias = Annotated[str, Known(METRICS)] | Callable[..., Any]
Strings: TypeAlias = Annotated[Sequence[str], "a list of names of columns"]
Declared: TypeAlias = Annotated[Mapping[str, Any], "a dict of categories, or classes, by column"]
Weights: TypeAlias = Annotated[Mapping[Any, Any], "a dict of weights by class"]
Part: TypeAlias = Annotated[float, Real(least=0, below=1)]


class TaskFields(TypedDict, total=False):
    """What every builder takes besides its own arguments, see `Tasks`."""

    names: Names | None
    loss: AnyLoss
    metric: AnyMetric
    node_id: Tensor | None


class Builders:
    """What `Tasks` inherits its ways to be made from."""

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
        """Build tasks from every node's own arrays or datasets.

        Args:
            train: One pair (inputs, targets), dict or torch ``Dataset`` per node. A dict by name is sorted by name.
                Randomness is keyed by the node's name, in a list without ``names`` by its place. A dict, also as a
                sample of a ``Dataset``, may have weights as its entry ``"weight"``, see `from_arrays`; all nodes have
                some then, in every split.
            val: Validation samples per node, given like ``train``. Default: ``val_fraction`` of the training samples,
                drawn at random.
            test: Test samples per node, if there are any.
            val_fraction: Share of training samples set aside for validation when ``val`` is not given.
            seed: Seed of that draw.
            stratify: Whether it holds out some of every class; see `hold_out`.
            cluster: True cluster of every node where it is known, [K], in the order of ``train``.
            statistics: Statistics over all samples where some are elsewhere.
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
        """Build tasks from flat arrays, with a column that says whose row it is.

        Nodes are sorted by name, and randomness is keyed by it: only the order of a node's own rows matters. Arrays of
        float32 and int64 are not copied.

        Args:
            inputs: Samples of all nodes, [N, ...].
            targets: Class labels from 0, [N], or real values, [N] or [N, D].
            node: The name of every row's node, [N]: strings or whole numbers.
            weight: Weight of every row in losses and metrics of its node, which are then weighted means, [N]: finite,
                not negative; only ratios within a node matter. Numbers of rows count each as one. Default: all count
                alike.
            group: Group of every row, such as the patient whose visit it is, [N]: all rows of a group are in one split,
                also at other nodes, and where `graphcollab.benefit` deals them anew. Only numbers from 0 or 1 on at
                every node, with few gaps, are groups of their own there.
                Default: every row is by itself.
            split: ``"train"``, ``"val"`` or ``"test"`` for every row, [N]. Default: drawn at random.
            val_fraction: Share of a node's training rows, or of their groups, set aside for validation, where ``split``
                names none.
            test_fraction: Share of a node's rows, or groups, set aside for testing, where ``split`` is not given.
            stratify: Whether some rows of every class are set aside; see `hold_out`.
            seed: Seed of the draws.
            loss: See `Tasks`.
            metric: See `Tasks`.
            statistics: Statistics over all samples where some are elsewhere.

        Raises:
            ValueError: If the lengths differ, a row has no name, another split, a value that is not finite or a
                negative weight, or a node has too few rows, or in a split none whose weight is above 0. The message
                names row and site.

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
        """Build tasks from a table with a column that says whose row it is.

        Numbers are standardized, missing ones become the mean, text is encoded one-hot, as fitted on training rows
        only; no row leaves its site: `preparation` says what sites share. Nodes are known by name, as in `from_arrays`.

        Args:
            frame: A frame of pandas or polars, a dict of columns, a list of rows as dicts, the path of a CSV, Excel or
                Parquet file, or a dict {site: any of these}.
            node: The column with the names of sites. In a dict by site it may be there or not.
            target: The column to predict. Text and whole numbers are classes, other numbers are real values, unless
                ``loss`` says otherwise: ``"mse"`` is for real values, ``"poisson"`` for counts, ``"cross_entropy"`` and
                ``"bce"`` for classes.
            event: The column that says by 1 and 0, 2 and 1, or true and false whether ``target``, a time, is that of an
                event, or else none was seen until then. The loss is ``"cox"`` by default.
            weight: The column with the weights of rows, or a weight for every row; see `from_arrays`. The preparation
                counts all rows alike.
            class_weight: What rows count in the loss by their class, {class: weight}, 1 where none is given;
                ``"balanced"``: rows / (classes · rows of the class), over the training rows of all sites. Metrics do
                not heed it.
            columns: The columns to predict from. Default: all others but those in ``leave_out``.
            leave_out: The columns not to predict from, where ``columns`` does not say from which.
            categorical: Those whose numbers are categories. Columns of text always are.
            categories: All categories of some columns, of the target all classes, {column: names}: no names are shared
                then, and other values count as unknown.
            pooled: ``"sums"``: means and deviations of all sites, from sums that they share. ``"per_site"``: every
                site's own. Names of categories and classes are shared in any case.
            indicator_above: Columns missing in a larger share of training rows get an indicator, a further number.
            standardize_target: Whether real targets are standardized too. Loss and metric are then in these units, and
                ``preparation.restore`` brings predictions back.
            preparation: What other tasks were prepared by, for newcomers and further rows: nothing is fitted. Of the
                arguments above, columns may be named if they are the same ones; the others do not count.
            refit: Whether means and deviations are fitted all the same, and only the columns, categories, classes and
                indicators of ``preparation`` are kept. So models fit other splits, which may lack a rare category.
            group: The column of groups, such as patients, or a name for every row; see `from_arrays`.
            split: The column with ``"train"``, ``"val"`` or ``"test"``, or these words for every row. Default: drawn at
                random.
            drop_missing_target: Whether rows without a target, or without the name of a site, are left out, with a
                warning; else they are an error.
            min_rows: Sites with fewer rows, or groups, are left out, with a warning that names them.
            val_fraction, test_fraction, stratify, seed: See `from_arrays`.
            loss: See `Tasks`. Default: ``"cross_entropy"`` for classes, ``"mse"`` for real values.
            metric: See `Tasks`. Default: ``"accuracy"`` for classes, ``"mae"`` for real values,
                ``"poisson_deviance"`` for counts, ``"concordance"`` for times.
            statistics: Statistics over all rows where some are elsewhere.

        Raises:
            ValueError: If a column is not there or not what it must be, or as `from_arrays`. The message names column,
                row and site.

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
                "event",
                f"event= names the column that says whether an event was seen, and loss='cox' is for times until then: "
                f"give both, or none, got event={event!r} and loss={loss!r}",
            )
        columns_of = (node, target, weight, group, columns, leave_out, categorical, declared)
        fitted = (pooled == "per_site", indicator_above, standardize_target, preparation, refit)
        how = TableSettings(*columns_of, *fitted, drop_missing_target, min_rows, class_weight, event)
        return cast(Self, tasks_of_table(cast(Any, cls), frame, how, drawn, loss, metric, statistics))
