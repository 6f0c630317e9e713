"""Make the mixers that the package brings, `meta_l2c(pretrained="digits")`, and find out where they help.

Each is what meta-L2C learns on some tasks (`save_mixer`). It is then applied, frozen, to tasks that it has not seen,
and compared on ten partitions with training alone, with averaging, and with meta-L2C that learns a mixer anew. Mixer
and card are written to --out:

    pretrain_mixers.py digits
    pretrain_mixers.py fashion_mnist parkinsons --root DATA

digits: of classes 0 to 5, applied to 6 to 9. fashion_mnist: of clothes, applied to MNIST's digits, and to its own
classes dealt anew. parkinsons: of 21 patients drawn at random, applied to the other 21.
"""

# ci: digits --quick --out $OUT/mixers

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _answers import split  # type: ignore
from _device import add_device  # type: ignore

from graphcollab import Tasks, build_model, compare, load_dataset, report, run
from graphcollab._base.files import write_whole
from graphcollab._base.keyed import keyed_order
from graphcollab.comm import only_main_process
from graphcollab.data.partition import shard_tasks
from graphcollab.methods import fedavg, local, meta_l2c

Draw = Callable[[int], Tasks]
SEED = 1000  # of the source's partition; the target's are 0 to 9


@dataclass(frozen=True)
class Recipe:
    """How a mixer is made and tried.

    Args:
        what: What it has learned on, for the card.
        source: Its tasks.
        targets: Other tasks by name, from a seed.
        model: Makes a node's model of tasks.
        hidden: Which model that is, for the card.
        settings: Of all methods: step size, epochs and batch size.
        mixing: Of meta-L2C besides.
    """

    what: str
    source: Tasks
    targets: Mapping[str, Draw]
    model: Callable[[Tasks], torch.nn.Module]
    hidden: str
    settings: Mapping[str, Any]
    mixing: Mapping[str, Any]


def digits(root: str | None) -> Recipe:
    """Handwritten digits, 8 x 8 pixels: 60 nodes with two of the classes 0 to 5."""
    data = load_dataset("digits")
    deal = partial(shard_tasks, data, 20, 2)
    return Recipe(
        "digits 0 to 5 of scikit-learn's `digits`, 60 nodes with two classes each and 20 images of a class",
        deal(SEED, classes=range(6)),
        {"digits 6 to 9, 40 nodes": partial(deal, classes=range(6, 10))},
        lambda tasks: build_model("mlp", tasks.input_shape, 10),
        'build_model("mlp", (1, 8, 8), 10)',
        {"lr": 0.05},
        {},
    )


def fashion_mnist(root: str | None) -> Recipe:
    """Clothes, 28 x 28 pixels: 50 nodes with two of the ten classes."""
    clothes, figures = load_dataset("fashion_mnist", root), load_dataset("mnist", root)
    dealt: dict[str, Any] = {"shards": 10, "classes_per_node": 2, "shard_size": 15}
    return Recipe(
        "Fashion-MNIST, 50 nodes with two classes each, and 12 images of a class to learn from",
        shard_tasks(clothes, seed=SEED, **dealt),
        {
            "MNIST, 50 nodes": lambda seed: shard_tasks(figures, seed=seed, **dealt),
            "Fashion-MNIST dealt anew, 50 nodes": lambda seed: shard_tasks(clothes, seed=seed, **dealt),
        },
        lambda tasks: build_model("mlp", tasks.input_shape, 10),
        'build_model("mlp", (1, 28, 28), 10)',
        {"lr": 0.05},
        {},
    )


def parkinsons(root: str | None) -> Recipe:
    """How severe is a patient's disease, by recordings of the voice: 21 of 42 patients."""
    table = load_dataset("parkinsons", root)
    order = keyed_order(SEED, torch.arange(42))

    def deal(seed: int, part: int) -> Tasks:
        tasks = split(table, 8, 2, seed, loss="mse", metric="mae", standardize_target=True)
        return tasks.select(order.chunk(2)[part].sort().values)

    return Recipe(
        "UCI Parkinsons Telemonitoring, 21 of 42 patients, 8 recordings each, in units by which all 42 were "
        "standardized",
        deal(SEED, 0),
        {"the other 21 patients": lambda seed: deal(seed, 1)},
        lambda tasks: build_model("mlp", tasks.input_shape, 1, hidden=32),
        'build_model("mlp", (19,), 1, hidden=32)',
        {"lr": 0.02, "epochs": 5, "batch_size": 10},
        {},
    )


RECIPES = {"digits": digits, "fashion_mnist": fashion_mnist, "parkinsons": parkinsons}


@only_main_process()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("names", nargs="+", choices=RECIPES, help="which mixers to make")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--rounds", type=int, default=50, help="default: %(default)s")
    add("--seeds", type=int, default=10, help="partitions of the target (default: %(default)s)")
    add("--quick", action="store_true", help="two rounds on one partition, to see that it runs")
    add_device(parser)
    add("--out", type=Path, default=Path("results/mixers"), help="folder (default: %(default)s)")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seeds = 2, 1
    torch.set_num_threads(1)
    for name in args.names:
        recipe = RECIPES[name](args.root)
        print(f"{name}: learning on {recipe.what}", flush=True)
        make = partial(recipe.model, recipe.source)
        taught = run(
            meta_l2c(**recipe.settings, **recipe.mixing), recipe.source, make, rounds=args.rounds, compute=args.device
        )
        path = taught.save_mixer(args.out / f"{name}.safetensors")
        found = {target: try_out(recipe, draw, path, args) for target, draw in recipe.targets.items()}
        print("wrote", path, "and", write_whole(path.with_suffix(".md"), card(name, recipe, found, args).encode()))


def try_out(recipe: Recipe, draw: Draw, path: Path, args: argparse.Namespace) -> str:
    """Return tables of what a mixer is worth on other tasks, and of what others are."""
    settings: dict[str, Any] = dict(recipe.settings)
    contestants = {
        "local": partial(local, **settings),
        "fedavg": partial(fedavg, **settings),
        "pretrained": partial(meta_l2c, pretrained=path, frozen=True, **settings),
        "anew": partial(meta_l2c, **settings, **recipe.mixing),
    }
    play: dict[str, Any] = {"rounds": args.rounds, "budget": "rounds", "evaluate_every": max(args.rounds // 5, 1)}
    found = compare(contestants, draw, recipe.model, range(args.seeds), compute=args.device, **play)
    told = str(report.results_table(found)), str(report.paired_table(found, "local", over="seeds"))
    print("\n".join(told), flush=True)
    return "\n\n".join(told)


def card(name: str, recipe: Recipe, found: Mapping[str, str], args: argparse.Namespace) -> str:
    """Return what a mixer's card says."""
    given = ", ".join(f"{key}={value}" for key, value in {**recipe.settings, **recipe.mixing}.items())
    parts = [
        f"# The mixer `{name}`",
        f'`meta_l2c(pretrained="{name}", frozen=True)` takes it, for nodes whose model is `{recipe.hidden}`, or has '
        "layers of the same names whose filters have as many weights.",
        f"- Learned by `meta_l2c({given})` in {args.rounds} rounds on {recipe.what}.\n"
        f"- Made by `python examples/pretrain_mixers.py {name}`, which also wrote this card.\n"
        "- Below, all methods have these settings of training, and choose from no others.",
    ]
    parts += [f"## Tried on {target}\n\n```\n{told.strip()}\n```" for target, told in found.items()]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
