"""Names to choose from on the command line. `make generate` writes this file."""

from __future__ import annotations

from typing import Literal

Dataset = Literal[
    "heart_disease",
    "parkinsons",
    "digits",
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "mnist",
    "svhn",
    "mini_imagenet",
]
Method = Literal[
    "cga",
    "cobo",
    "dac",
    "dfedavgm",
    "directed",
    "ditto",
    "dpfl",
    "dpsgd",
    "fc",
    "fedamp",
    "fedavg",
    "fedavg_finetuned",
    "fedclassavg",
    "fedproto",
    "fedsim",
    "flt",
    "fomo",
    "heurfedamp",
    "ifca",
    "l2c",
    "local",
    "mapl",
    "meta_l2c",
    "oracle",
    "panm",
    "pens",
    "pfedgraph",
    "pfedsim",
    "random_peers",
]
Metric = Literal[
    "accuracy",
    "auc",
    "brier",
    "ece",
    "log_loss",
    "mae",
    "mse",
    "r2",
    "rmse",
]
