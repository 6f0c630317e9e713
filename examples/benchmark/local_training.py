"""Times whole rounds of federated averaging, stacked and one node after the other, and the evaluation of all nodes.

A round is one epoch of SGD on every node and the average of all models. The contenders are graphcollab, a bare PyTorch
loop over the nodes with one module, and pfl 0.6.0 and FedLab 1.3.0 if they are installed (the script prints how). All
get the same models and, in the first round, the same batches; their models after that round must agree. The others read
prepared batches, while graphcollab shuffles and gathers its own in every round. The CNN is also trained with forward
passes in bfloat16, by graphcollab (``autocast=True``) and by a loop whose images and weights have their channels last.
"""

# ci: --nodes 4 --samples 20 --repeats 1 --json $OUT/local_training.json

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _fedlab import INSTALL as INSTALL_FEDLAB, fedlab_round  # type: ignore
from _loop import loop_round  # type: ignore
from _measure import Ratio, arguments, interleave, machine, on_gpu, write  # type: ignore
from _pfl import INSTALL as INSTALL_PFL, pfl_round  # type: ignore
from torch import Tensor, nn

from graphcollab import Tasks
from graphcollab.analysis.metrics import as_metric
from graphcollab.comm import Plane
from graphcollab.components import Env
from graphcollab.data.samples import Pool, Split
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import Engine, Rows
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import fedavg
from graphcollab.models import MLP
from graphcollab.models.classifiers import fedavg_cnn
from graphcollab.train.start import build_graph, build_modules

LR, CLASSES, HALF = 0.01, 10, "bfloat16"
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def make_tasks(nodes: int, samples: int, shape: tuple[int, ...], device: str) -> Tasks:
    """Give every node random samples, for training and for test."""
    generator = torch.Generator().manual_seed(0)
    count = nodes * samples
    inputs, labels = (
        torch.randn(count, *shape, generator=generator),
        torch.randint(CLASSES, (count,), generator=generator),
    )
    split = Split("all", torch.arange(count), torch.arange(0, count + 1, samples))
    return Tasks({"all": Pool(inputs, labels)}, {"train": split, "test": split}).to(device)


def compare_rounds(
    make: Callable[[], nn.Module], tasks: Tasks, batch_size: int, args: argparse.Namespace, half: bool = False
) -> dict[str, Any]:
    """Time rounds of all contenders, in bfloat16 too if asked to, and check that their first rounds agree."""
    module = build_modules(make, 0)[0].to(args.device)
    spec = ParamSpec.from_module(module)
    start = spec.flatten(module)
    method = fedavg(epochs=1, lr=LR, weight_decay=0.0, batch_size=batch_size)
    envs = [Env(Engine(tasks, [module], [spec], autocast=autocast), Plane(), 0) for autocast in (False, True)]
    data = [method.start(build_graph(tasks, [module], method=method), env) for env in envs]
    nodes, split, pool = torch.arange(tasks.num_nodes), tasks.splits["train"], tasks.pools["all"]
    schedule = make_schedule(split.sizes, tasks.ids, 0, 0, batch_size)
    order = torch.cat([schedule.position[:, n, :size] for n, size in enumerate(schedule.size[0].tolist())], 1)
    samples = [(pool.inputs[index], pool.targets[index]) for index in split.gather(nodes, order)]

    def play(which: int) -> None:
        data[which] = method.play(data[which], envs[which])

    bare, fast = copy.deepcopy(module), copy.deepcopy(module)
    contenders = {"graphcollab": partial(play, 0), "loop": loop_round(bare, samples, batch_size, LR)}
    if half:
        contenders[f"graphcollab {HALF}"] = partial(play, 1)
        contenders[f"loop {HALF}"] = loop_round(fast, samples, batch_size, LR, half=True)
    trained = {"loop": bare}
    for name, play_round, install in (("pfl", pfl_round, INSTALL_PFL), ("fedlab", fedlab_round, INSTALL_FEDLAB)):
        peer = copy.deepcopy(module)
        try:
            contenders[name] = play_round(peer, samples, batch_size, LR, args.device)
        except ImportError as error:
            print(f"  without {name} ({error}); to have it: {install}")
        else:
            trained[name] = peer

    def check() -> None:
        mine = data[0].x.tensors[0][0]
        moved = float((mine - start).abs().max())
        for name, other in trained.items():
            apart = float((spec.flatten(other) - mine).abs().max())
            if not apart < 1e-2 * moved:  # by rounding another pixel may be the largest of four
                raise RuntimeError(f"after a round {name} is {apart:.1e} from graphcollab, of a step of {moved:.1e}")
            print(f"  after the first round at most {apart:.1e} from {name}, of a step of {moved:.1e}")

    timed = interleave(contenders, args.repeats, args.device, check, CLOCKS[args.clock])
    mine = timed["graphcollab"]
    ratios = {f"graphcollab / {name}": mine.over(timed[name]) for name in trained}
    if half:
        quick = timed[f"graphcollab {HALF}"]
        ratios[f"{HALF}: graphcollab / its own float32"] = quick.over(mine)
        ratios[f"{HALF}: graphcollab / loop"] = quick.over(timed[f"loop {HALF}"])
    return report(ratios, {name: value.as_dict() for name, value in timed.items()})


def compare_evaluation(tasks: Tasks, args: argparse.Namespace) -> dict[str, Any]:
    """Time loss and metric of all nodes against the bare stacked forward passes over the same batches."""
    module = build_modules(lambda: MLP(784, 100, CLASSES), 0)[0].to(args.device)
    spec, metric = ParamSpec.from_module(module), as_metric(tasks.metric)
    engine = Engine(tasks, [module], [spec])
    models = build_graph(tasks, [module], torch.empty(2, 0, dtype=torch.int64)).x
    rows = Rows.own(models.map(lambda x: x + 0.01 * torch.randn_like(x)))
    batches: list[tuple[Tensor, Tensor]] = []
    predict = engine.backends[0].predict

    def whole() -> None:
        for chunk in engine.predict(rows, "test"):
            engine.losses_of(chunk)
            metric(chunk.outputs, chunk.targets, chunk.mask)

    def record(flat: Tensor, inputs: Tensor) -> Tensor:
        batches.append((flat, inputs))
        return predict(flat, inputs)

    def bare() -> None:
        for flat, inputs in batches:
            w1, b1, w2, b2 = spec.views(flat)
            torch.baddbmm(b2[:, None], torch.baddbmm(b1[:, None], inputs, w1.mT).relu_(), w2.mT)

    engine.backends[0].predict = record  # type: ignore[method-assign]
    whole()
    engine.backends[0].predict = predict  # type: ignore[method-assign]
    both, clock = {"graphcollab": whole, "forward passes": bare}, CLOCKS[args.clock]
    timed = interleave(both, args.repeats, args.device, clock=clock)
    ratio = timed["graphcollab"].over(timed["forward passes"])
    return report({"graphcollab / forward passes": ratio}, {name: value.as_dict() for name, value in timed.items()})


def report(ratios: dict[str, Ratio], times: dict[str, Any]) -> dict[str, Any]:
    """Print ratios and return everything."""
    for name, value in ratios.items():
        print(f"  {name:40} {value}")
    return {"ratios": {name: [round(part, 3) for part in value] for name, value in ratios.items()}, "times": times}


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, help="default: 100; for the CNN on a CPU 20")
    parser.add_argument("--samples", type=int, help="samples of each node; default: 100; CNN: 480; evaluation: 400")
    parser.add_argument("--clock", default="wall", choices=CLOCKS, help="processor: without what others take of it")
    args = parser.parse_args()
    print(machine(args.device))
    few = 100 if on_gpu(args.device) else 20
    mlp = make_tasks(args.nodes or 100, args.samples or 100, (784,), args.device)
    cnn = make_tasks(args.nodes or few, args.samples or 480, (1, 28, 28), args.device)
    many = make_tasks(args.nodes or 100, args.samples or 400, (784,), args.device)
    batch = 10 if on_gpu(args.device) else min(32, args.samples or 32)
    print(f"MLP 784-100-10, {mlp.num_nodes} nodes, batch 10")
    results = {"mlp": compare_rounds(lambda: MLP(784, 100, CLASSES), mlp, 10, args)}
    print(f"two-layer CNN, {cnn.num_nodes} nodes, batch {batch}")
    results["cnn"] = compare_rounds(lambda: fedavg_cnn((1, 28, 28), CLASSES), cnn, batch, args, half=True)
    print(f"evaluation of {many.num_nodes} MLPs")
    results["evaluation"] = compare_evaluation(many, args)
    write(results, args)


if __name__ == "__main__":
    main()
