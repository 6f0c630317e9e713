"""A mixer that meta-L2C learned on some tasks tells other nodes, with other classes, whom to listen to (L2C's Table 4).

meta-L2C is trained on the source's tasks; its mixer is saved, and applied frozen to the target's nodes. On every
partition this is compared with training alone and with meta-L2C from scratch. If source and target are one dataset,
every partition draws anew which classes are the source's. Without arguments the nodes read handwritten digits. With
both datasets in DATA:

    transfer_meta_l2c.py --root DATA --source fashion_mnist --target cifar10 --gray --shards 8 --shard-size 30
"""

# ci: --seeds 2 --rounds 4 --shards 4 --out $OUT/transfer --json $OUT/transfer.json
# ci: --seeds 1 --rounds 2 --shards 2 --mixer $OUT/transfer/mixer.safetensors --out $OUT/applied

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _device import add_device  # type: ignore
from benchmark._figures import comparison_figures  # type: ignore
from tqdm import tqdm

from graphcollab import build_model, compare, load_dataset, report, run
from graphcollab._base.files import write_whole
from graphcollab._base.keyed import keyed_order
from graphcollab.analysis import Comparison
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.partition import shard_tasks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import local, meta_l2c
from graphcollab.models import MODELS
from graphcollab.nn import MixingEncoder
from graphcollab.train import RecordGraph

ROUNDS, EVALUATE_EVERY, SEEDS, SHARDS, CLASSES_PER_NODE = 50, 10, 10, 20, 2
SHOWN, SPLIT = (1, 10, 20), 0.6  # rounds in the heat maps; the source's share of the classes of a common dataset
LR, MIXER_LR, DROP_ROUND, SIDE = 0.05, 0.01, -1, 28  # SIDE: pixels of gray images from edge to edge


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--source", default="digits", help="dataset that the mixer is trained on (default: %(default)s)")
    add("--target", default="digits", help="dataset that it is applied to (default: %(default)s)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--gray", action="store_true", help=f"bring images of both datasets to one channel of {SIDE} x {SIDE} pixels")
    add("--mixer", type=Path, metavar="FILE", help="apply this mixer instead of training one on the source")
    add("--model", default="mlp", choices=MODELS, help="model of every node (default: mlp, 64 hidden units)")
    add("--shards", type=int, default=SHARDS, help="shards of every class (default: %(default)s)")
    add("--shard-size", type=int, help="training samples of one class at one node (default: all are dealt out)")
    add("--classes-per-node", type=int, default=CLASSES_PER_NODE, help="default: %(default)s")
    add("--lr", type=float, default=LR, help="step size of all models (default: %(default)s)")
    add("--mixer-lr", type=float, default=MIXER_LR, help="the mixer's step size (default: %(default)s)")
    add("--seeds", type=int, default=SEEDS, help="number of partitions of the target (default: %(default)s)")
    add("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    add("--drop-round", type=int, default=DROP_ROUND, help="when weak neighbors go, -1: never (default: %(default)s)")
    add_device(parser)
    add("--threads", type=int, default=1, help="CPU threads; small models gain nothing from many (default: 1)")
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/transfer_meta_l2c"), help="folder (default: %(default)s)")
    args = parser.parse_args()
    args.drop_round = None if args.drop_round < 0 else args.drop_round
    args.split = args.source == args.target
    return args


def split_classes(data: LabeledArrays, seed: int, split: bool) -> tuple[list[int], list[int]]:
    """Return the source's and the target's classes; those of one dataset are drawn anew for every partition."""
    if not split:
        return list(range(data.num_classes)), list(range(data.num_classes))
    order = keyed_order(seed, torch.arange(data.num_classes)).tolist()
    cut = round(SPLIT * data.num_classes)
    return sorted(order[:cut]), sorted(order[cut:])


def gray(data: LabeledArrays) -> LabeledArrays:
    """Average the channels of images, crop the center, and standardize the result as one channel."""
    top, left = ((size - SIDE) // 2 for size in data.input_shape[1:])
    center = (..., slice(top, top + SIDE), slice(left, left + SIDE))
    train, test = (pool.inputs.mean(1, keepdim=True)[center] for pool in (data.train, data.test))
    train, test = ((images - train.mean()) / train.std() for images in (train, test))
    return replace(data, train=replace(data.train, inputs=train), test=replace(data.test, inputs=test))


@only_main_process()
def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    source, target = (load_dataset(name, args.root) for name in (args.source, args.target))
    if args.gray:
        source, target = gray(source), gray(target)
    dealt = args.shards, args.classes_per_node
    source_model = partial(build_model, args.model, source.input_shape, source.num_classes)
    target_model = partial(build_model, args.model, target.input_shape, target.num_classes)
    mixer = (
        MixingEncoder.load(args.mixer) if args.mixer else MixingEncoder.create(ParamSpec.from_module(source_model()))
    )
    mixer.check(ParamSpec.from_module(target_model()))  # before any training: are the filters of one shape?
    settings: dict[str, Any] = {"evaluate_every": EVALUATE_EVERY, "compute": args.device, "rounds": args.rounds}
    scratch, path = partial(meta_l2c, lr=args.lr, mixer_lr=args.mixer_lr, drop_round=args.drop_round), args.mixer
    print(f"source {source}, target {target}")
    parts = []
    for seed in tqdm(range(args.seeds), unit="partition", disable=not is_main_process()):
        taught, asked = split_classes(target, seed, args.split)
        if not args.mixer and (args.split or path is None):
            classes = taught if args.split else None
            tasks = shard_tasks(source, *dealt, seed, classes=classes, shard_size=args.shard_size)
            trained = run(scratch(), tasks, source_model, **settings)
            path = trained.save_mixer(args.out / "mixer.safetensors")
        transferred = partial(meta_l2c, lr=args.lr, pretrained=path, frozen=True, drop_round=args.drop_round)
        parts.append(
            compare(
                {"local": partial(local, lr=args.lr), "transferred": transferred, "scratch": scratch},
                partial(shard_tasks, target, *dealt, classes=asked, shard_size=args.shard_size),
                target_model,
                [seed],
                callbacks=[RecordGraph({*SHOWN, args.rounds})],
                budget="rounds",
                **settings,
            )
        )
    comparison = Comparison.join(parts)
    gains = {name: comparison.paired(name, "local").mean for name in ("transferred", "scratch")}
    kept = gains["transferred"] / gains["scratch"] if gains["scratch"] > 0 else None
    print(f"\n{report.results_table(comparison)}", report.paired_table(comparison, over="seeds"), sep="\n\n")
    print(f"\nkept of the gain from scratch: {'there is none to keep' if kept is None else f'{100 * kept:.0f} %'}")
    if args.json:
        told: dict[str, Any] = {"kept": kept, "arguments": vars(args)}
        print("wrote", write_whole(args.json, report.results_json(comparison, "local", **told).encode()))
    title = f"{args.source} → {args.target}, {args.seeds} partitions"
    for name, figure in comparison_figures(comparison, ("transferred", "scratch"), title).items():
        print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
