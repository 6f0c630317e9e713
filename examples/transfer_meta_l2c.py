"""A mixer that meta-L2C learned on some tasks tells other nodes, with other classes, whom to listen to (L2C's Table 4).

meta-L2C is trained on the source's tasks, its mixer saved, and applied frozen to the target's nodes; on every partition
it is compared with training alone and with meta-L2C that starts from scratch. Without arguments, source and target are
different handwritten digits. With Fashion-MNIST and CIFAR-10 in DATA:

    transfer_meta_l2c.py --root DATA --source fashion_mnist --target cifar10 --grey --shards 8 --shard-size 30
"""

# ci: --seeds 2 --rounds 4 --source-rounds 4 --shards 4 --out $OUT/transfer --json $OUT/transfer.json
# ci: --seeds 1 --rounds 2 --shards 2 --mixer $OUT/transfer/mixer.safetensors --out $OUT/applied

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from graphcollab import Mixer, build_model, compare, load_dataset, local, meta_l2c, report, run, shard_tasks
from graphcollab.datasets import LabelledArrays
from graphcollab.models import MODELS
from graphcollab.stack import ParamSpec
from graphcollab.train import RecordGraph
from graphcollab.train.files import write_whole

ROUNDS, SOURCE_ROUNDS, EVALUATE_EVERY, SEEDS, SHARDS, CLASSES_PER_NODE = 100, 100, 10, 10, 20, 2
SHOWN, SPLIT = (1, 5, 10), 0.6  # rounds in the heat maps; the source's share of the classes of a common dataset
MIXER_LR, SIDE = 0.03, 28  # the mixer's step; pixels of grey images from edge to edge


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--source", default="digits", help="dataset that the mixer is trained on (default: %(default)s)")
    add("--target", default="digits", help="dataset that it is applied to (default: %(default)s)")
    add("--root", help="folder with the datasets (default: the variable GRAPHCOLLAB_DATA)")
    add("--grey", action="store_true", help=f"bring images of both datasets to one channel of {SIDE} x {SIDE} pixels")
    add("--mixer", type=Path, metavar="FILE", help="apply this mixer instead of training one on the source")
    add("--model", default="mlp", choices=MODELS, help="model of every node (default: mlp, 64 hidden units)")
    add("--shards", type=int, default=SHARDS, help="shards of every class (default: %(default)s)")
    add("--shard-size", type=int, help="training samples of one class at one node (default: all are dealt out)")
    add("--classes-per-node", type=int, default=CLASSES_PER_NODE, help="default: %(default)s")
    add("--mixer-lr", type=float, default=MIXER_LR, help="the mixer's step size (default: %(default)s)")
    add("--seeds", type=int, default=SEEDS, help="number of partitions of the target (default: %(default)s)")
    add("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    add("--source-rounds", type=int, default=SOURCE_ROUNDS, help="rounds on the source (default: %(default)s)")
    add("--device", default="cpu", help="default: %(default)s")
    add("--threads", type=int, default=1, help="CPU threads; small models gain nothing from many (default: 1)")
    add("--json", metavar="FILE", help="write the results there")
    add(
        "--out", type=Path, default=Path("results/transfer_meta_l2c"), help="for mixer, pictures (default: %(default)s)"
    )
    return parser.parse_args()


def grey(data: LabelledArrays) -> LabelledArrays:
    """Average the channels, cut out the centre and standardise anew."""

    def convert(images: Tensor) -> Tensor:
        top, left = ((size - SIDE) // 2 for size in images.shape[-2:])
        return images.mean(1, keepdim=True)[..., top : top + SIDE, left : left + SIDE]

    train, test = convert(data.train_inputs), convert(data.test_inputs)
    mean, std = train.mean(), train.std()
    return replace(data, train_inputs=(train - mean) / std, test_inputs=(test - mean) / std)


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    source, target = (load_dataset(name, args.root) for name in (args.source, args.target))
    if args.grey:
        source, target = grey(source), grey(target)
    cut = round(SPLIT * source.num_classes) if args.source == args.target else 0
    source_classes, target_classes = range(cut or source.num_classes), range(cut, target.num_classes)
    deal = partial(shard_tasks, shards=args.shards, classes_per_node=args.classes_per_node, shard_size=args.shard_size)
    source_model = partial(build_model, args.model, source.input_shape, source.num_classes)
    target_model = partial(build_model, args.model, target.input_shape, target.num_classes)
    mixer = Mixer.load(args.mixer) if args.mixer else Mixer.create(ParamSpec.from_module(source_model()))
    mixer.check(ParamSpec.from_module(target_model()))  # before any training: are the filters of one shape?
    path = args.mixer or args.out / "mixer.safetensors"
    settings: dict[str, Any] = {"evaluate_every": EVALUATE_EVERY, "device": args.device}
    scratch = partial(meta_l2c, mixer_lr=args.mixer_lr)
    if not args.mixer:
        tasks = deal(source, classes=source_classes)
        print(f"source: {source}, {tasks.num_nodes} nodes, classes {list(source_classes)}")
        trained = run(scratch(), tasks, source_model, rounds=args.source_rounds, progress="source", **settings)
        print("wrote", trained.save_mixer(path))
    print(f"target: {target}, {deal(target, classes=target_classes).num_nodes} nodes, classes {list(target_classes)}")
    with tqdm(total=3 * args.seeds, unit="run") as bar:
        comparison = compare(
            {"local": local, "transferred": partial(meta_l2c, pretrained=path, frozen=True), "scratch": scratch},
            lambda seed: deal(target, seed=seed, classes=target_classes),
            target_model,
            range(args.seeds),
            on_trial=lambda *_: bar.update(1),
            rounds=args.rounds,
            callbacks=[RecordGraph({*SHOWN, args.rounds})],
            **settings,
        )
    gains = {name: comparison.paired(name, "local").mean for name in ("transferred", "scratch")}
    kept = gains["transferred"] / gains["scratch"] if gains["scratch"] > 0 else None
    print("\n" + report.results_table(comparison.rows()), report.paired_table(comparison), sep="\n\n")
    print(f"\nkept of the gain from scratch: {'there is none to keep' if kept is None else f'{100 * kept:.0f} %'}")
    if args.json:
        text = report.results_json(comparison, "local", kept=kept, arguments=vars(args))
        print("wrote", write_whole(args.json, text.encode()))
    figures = report.comparison_figures(comparison, ("transferred", "scratch"), f"{args.source} → {args.target}")
    for name, figure in figures.items():
        print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
