"""Parties with text in Catalan, Spanish, German and Dutch fine-tune a language model: who helps whom?

It is the experiment of CoBo's section 4.3 with two parties for each language. All share one frozen base, which has read
English only (`pretrain_base.py` makes it, once), and train LoRA adapters on 150 sentences each. Step sizes, and the
pulls of Ditto and CoBo where several are given, are chosen on validation text, for all methods alike; all take the same
number of steps. `cobo_published` compares gradients as the authors' code does, which says nothing of the other party.
`same_language` is told the languages. Sentences are read from `text/commonvoice_<language>.txt` below `--root`; without
a root parties have the documentation of four packages instead (`--texts topics`). More than the default, which takes
minutes:

    finetune_languages.py --root DATA --seeds 5 --lrs 0.004 0.006 0.01 --rhos 10 30 60 --lams 0.1 1
    finetune_languages.py --root DATA --base smollm2 --seeds 1 --parties 1 --rounds 12 --batch-size 4 --lrs 0.003
"""

# ci: --texts topics --base tiny --quick --out $OUT/languages --json $OUT/languages.json

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _bases import load_base  # type: ignore
from _device import add_device  # type: ignore
from _language_methods import GRIDS, contestants  # type: ignore
from _language_tables import language_table, listening_table  # type: ignore
from _languages import draw_tasks, read_texts  # type: ignore

from graphcollab import compare, report
from graphcollab._base.files import write_whole
from graphcollab.comm import is_main_process, only_main_process
from graphcollab.comm.launch import launched
from graphcollab.llm import build_lora
from graphcollab.train import RecordGraph

METHODS = "fedavg", "fedavg_finetuned", "ditto", "cobo", "cobo_published"
QUICK = {"rounds": 4, "seeds": 1, "train": 10, "val": 4, "test": 4, "context": 16, "batch_size": 2, "jobs": 1}
COUNTS = {"rounds": 30, "seeds": 2, "parties": 2, "train": 150, "val": 50, "test": 60, "context": 64, "batch-size": 8}
COUNTS |= {"pair-batch": 2, "rank": 4, "jobs": 2, "threads": 1}
NUMBERS = {"lrs": [0.006, 0.01], "rhos": [30.0], "lams": [0.1]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--root", help="folder with text/ (default: the variable GRAPHCOLLAB_DATA)")
    add("--texts", choices=("languages", "topics"), help="default: languages with a root, topics without one")
    add(
        "--base",
        default="small",
        help="small, tiny, smollm2, a .gguf file or a wheel with one, or what transformers reads (default: small)",
    )
    add("--methods", nargs="+", default=list(METHODS), help="beside local (default: %(default)s)")
    for name, values in NUMBERS.items():
        add(f"--{name}", type=float, nargs="+", default=values, help=f"to choose from (default: {values})")
    add("--gamma", type=float, default=0.05, help="γ of CoBo (default: %(default)s, of its authors' code)")
    for name, value in COUNTS.items():
        add(f"--{name}", type=int, default=value, help="default: %(default)s")
    add("--quick", action="store_true", help="a few steps, to see that it runs")
    add_device(parser)
    add("--checkpoint", type=Path, help="folder for checkpoints, to stop and resume")
    add("--json", metavar="FILE", help="write the results there")
    add("--out", type=Path, default=Path("results/finetune_languages"), help="folder for pictures")
    args = parser.parse_args()
    for name, value in (QUICK if args.quick else {}).items():
        setattr(args, name, value)
    return args


@only_main_process()
def main() -> None:
    args = arguments()
    texts = read_texts(args.texts, args.root)
    base, tokenizer = load_base(args.base)  # where it must be made first, by all threads
    torch.set_num_threads(args.threads)
    sizes = {name: getattr(args, name) for name in ("parties", "train", "val", "test", "context")}
    draw: Any = partial(draw_tasks, texts, tokenizer, **sizes)
    chosen, grids, budget = contestants(args)
    shown = sorted({1, args.rounds // 4, args.rounds // 2, args.rounds} - {0})
    kept: dict[int, Any] = {}  # the graphs of every trial

    def keep(trial: Any, result: Any, number: int, total: int) -> None:
        setting = ", ".join(f"{key}={value:g}" for key, value in trial.setting.items())
        mean = trial.summary.get("mean", float("nan"))  # of one that has failed there is none
        print(f"{number} of {total}: {trial.method} ({setting}) on seed {trial.seed}: {mean:.1f}", flush=True)
        if result is not None:
            kept[id(trial)] = result.history.graphs

    jobs = 1 if launched() else args.jobs
    play: dict[str, Any] = {"budget": budget, "evaluate_every": args.rounds, "on_trial": keep, "n_jobs": jobs}
    play |= {"callbacks": [RecordGraph(shown)], "checkpoint": args.checkpoint, "progress": jobs > 1}
    play["compute"] = args.device
    model = partial(build_lora, base, rank=args.rank)
    found = compare(chosen, draw, model, range(args.seeds), grids, **play)
    if not is_main_process():
        return  # graphs are recorded, and told, by the first process
    if args.json:
        print("wrote", write_whole(args.json, report.results_json(found, "local", arguments=vars(args)).encode()))
    tasks = draw(0)
    print(f"\n{report.results_table(found, reference='local')}")
    if len(found.chosen) > 1:
        print(f"\n{report.paired_table(found, 'local')}")
    print("\n" + language_table(found, tasks.cluster, [*texts]))
    for name in (name for name in chosen if name in GRIDS and name != "ditto" and not found.failed(name)):
        graphs = [kept[id(trial)] for trial in found.chosen[name] if not trial.failure]
        for round_ in shown[1:] or shown:
            print(f"\n{name}: what the other parties of a language get of a party's weight, in round {round_}")
            print(listening_table([one[round_] for one in graphs], tasks.cluster, [*texts]))
        figure = report.weight_heatmaps(graphs[-1], len(tasks.cluster), tasks.cluster, name, tasks.names)
        print("wrote", report.save_figure(figure, args.out / f"{name}.png"))


if __name__ == "__main__":
    main()
