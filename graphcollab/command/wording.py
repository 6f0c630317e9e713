"""Words of a command's settings where those for Python would not do, and under which heading its help has them."""

from __future__ import annotations

from graphcollab.metrics import METRICS

__all__ = ["GROUPS", "OF_METHODS", "PLAIN", "group_of"]

DATA, METHODS, TRAINING, JUDGING, COMPUTING, OUTPUT = GROUPS = (
    "Data",
    "Methods and model",
    "Training",
    "Evaluation",
    "Computing",
    "Output and more",
)

IN = {
    METHODS: ("methods", "method", "set", "hidden", "graphs"),
    TRAINING: ("rounds", "budget", "epochs", "batch_size", "lrs", "select", "patience", "on_nonfinite"),
    JUDGING: (
        "loss",
        "metric",
        "metrics",
        "seeds",
        "seed",
        "repeats",
        "evaluations",
        "evaluate_every",
        "level",
        "limit",
    ),
    COMPUTING: ("jobs", "device", "threads", "backend", "chunk", "microbatch", "autocast", "compile", "tuned"),
    OUTPUT: ("out", "save", "proba", "checkpoint_every", "dry_run", "others", "listeners"),
}


def _named(of_classes: bool) -> str:
    return ", ".join(name for name, metric in METRICS.items() if metric.of_classes is of_classes)


PLAIN = {
    "node": "The column with the names of sites.",
    "weight": "The column that says how much every row counts. Default: all count alike.",
    "target": "The column to predict. Text and whole numbers are classes, other numbers are amounts, unless --loss "
    "says otherwise.",
    "leave_out": "Columns not to predict from, such as numbers of patients.",
    "columns": "The columns to predict from. Default: all but those of --leave-out.",
    "categorical": "Columns whose numbers are names of categories. Columns of text always are.",
    "standardise_target": "Divide amounts to predict by their standard deviation; predictions are in the table's units "
    "again, losses and metrics are not.",
    "group": "The column with what rows belong together by, such as the patient whose visit each is: all rows of one "
    "are in the same part, training, validation or test.",
    "split": "The column that says of every row train, val or test. Default: drawn at random.",
    "val_fraction": "Share of a site's training rows set aside for validation.",
    "test_fraction": "Share of a site's rows set aside for testing.",
    "stratify": "Set aside some rows of every class (the default), or any.",
    "loss": "What training makes small: cross_entropy and bce are for classes, mse is for amounts. Default: by the "
    "target.",
    "metric": f"What models are judged by. Of classes: {_named(of_classes=True)}; of amounts: "
    f"{_named(of_classes=False)}. docs/comparing.md explains them. Default: accuracy, or mae.",
    "metrics": "Further metrics by which to judge the same models.",
    "budget": "steps: all methods take as many local steps as the costliest does in --rounds; rounds: all play "
    "--rounds, whatever they do in them; a number: so many local steps a site.",
    "jobs": "How many processes to work in. Results are the same.",
    "on_nonfinite": "Where a site's training fails with numbers that are too large: stop, or isolate that site, with a "
    "warning, and go on with the others.",
    "backend": "How models are computed: all at once (vmap), one after the other (loop), or with shared layers once.",
    "microbatch": "Rows of a site that go through its model at once in training, at most; less takes less memory. "
    "Default: by rule.",
    "threads": "Threads of the processor. Default: as many as suit the models.",
    "compile": "Compile models by torch.compile: slow to start, may pay on a GPU.",
    "device": "Where to compute. auto: on the GPU, if there is one.",
    "autocast": "Compute in half precision (bfloat16).",
    "checkpoint_every": "Rounds between savings. Default: as often as saving takes at most a tenth of the time.",
    "hidden": "Widths of the model's hidden layers. none: no hidden layer, a linear model.",
    "repeats": "How many times rows are split anew.",
    "limit": "Sites up to which all pairs are tried; of more, as many are drawn.",
}
"""What is said of a setting, by name, where its docstring speaks of what only Python has, or at length."""


OF_METHODS = {"optimizer": "How a step follows from a gradient. Its state starts afresh in every round."}
"""What is said of a setting of methods where its docstring speaks of what only Python has."""


def group_of(name: str) -> str:
    """Return the heading of a setting in the help."""
    return next((group for group, names in IN.items() if name in names), DATA)
