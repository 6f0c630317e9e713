"""Times rounds of CoBo against plain local training plus the gradients of equally many pairs.

Nodes take one local step a round; CoBo also compares the gradients of the pairs it samples (K - 1 of them on average)
and pulls the models, which is timed by itself, too. The target is 1.3 times as long as a local round and the pairs'
gradients together. The time of the gradients is measured in two ways: by computing the gradients of equally many rows,
and as that many K-ths of a local round.
"""

# ci: --model mlp --nodes 4 --samples 40 --batch-size 8 --repeats 2 --json $OUT/cobo_round.json

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import torch
from _measure import Timed, arguments, interleave, machine, write  # type: ignore

from graphcollab import Method, Tasks, build_model, methods
from graphcollab.comm import Plane
from graphcollab.components import Env
from graphcollab.data.samples import Pool, Split
from graphcollab.engine import Engine, Rows
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MODELS
from graphcollab.train.start import build_graph, build_modules


def make_tasks(nodes: int, samples: int, shape: tuple[int, ...], device: str) -> Tasks:
    """Give every node random images."""
    draw = torch.Generator().manual_seed(0)
    count = nodes * samples
    pool = Pool(torch.randn(count, *shape, generator=draw), torch.randint(10, (count,), generator=draw))
    split = Split("all", torch.arange(count), torch.arange(0, count + 1, samples))
    return Tasks({"all": pool}, {"train": split}).to(device)


class Player:
    """Plays rounds of a method."""

    def __init__(self, method: Method, tasks: Tasks, env: Env, modules: Any) -> None:
        self.method, self.env = method, env
        self.data = method.start(build_graph(tasks, modules), env)

    def __call__(self) -> None:
        """Play a round."""
        self.before = self.data
        self.data = self.method.play(self.data, self.env)


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    add = parser.add_argument
    add("--model", nargs="+", default=["mlp", "small_cnn", "resnet9"], choices=MODELS, help="models of the nodes")
    add("--width", type=int, default=8, help="width of resnet9; the paper's has 64")
    add("--nodes", type=int, default=8)
    add("--samples", type=int, default=3000, help="training samples of each node")
    add("--batch-size", type=int, default=128)
    add("--shape", type=int, nargs=3, default=[1, 28, 28])
    args = parser.parse_args()
    print(machine(args.device))
    tasks = make_tasks(args.nodes, args.samples, tuple(args.shape), args.device)
    results = {}
    for name in args.model:
        options = {"width": args.width} if name == "resnet9" else {}
        modules = build_modules(partial(build_model, name, args.shape, 10, **options), 0, torch.device(args.device))
        specs = [ParamSpec.from_module(module) for module in modules]
        env = Env(Engine(tasks, modules, specs), Plane(), 0)
        step: dict[str, Any] = {"batch_size": args.batch_size, "weight_decay": 0.0}
        local = Player(methods.local(steps=1, **step), tasks, env, modules)
        cobo = Player(methods.cobo(**step), tasks, env, modules)
        pairs: list[int] = []

        def cobo_round(cobo: Player = cobo, pairs: list[int] = pairs) -> None:
            cobo()
            pairs.append(cobo.data.pairs_compared - cobo.before.pairs_compared)

        def gradients(cobo: Player = cobo, pairs: list[int] = pairs, env: Env = env) -> None:
            node = torch.arange(2 * pairs[-1]) % args.nodes
            for few in node.split(env.engine.plans[0].chunk):
                env.engine.batch_gradient(Rows.own(cobo.data.x, few), seed=1, round_=0, batch_size=args.batch_size)

        def pulls(cobo: Player = cobo, env: Env = env) -> None:
            data = copy.copy(cobo.data)
            data.x_start = cobo.before.x
            cobo.method.exchange(data, env)

        print(f"{name}: {specs[0].num_parameters:,} parameters, {args.nodes} nodes, batches of {args.batch_size}")
        calls = {"local round": local, "CoBo round": cobo_round, "pairs' gradients": gradients, "pulls": pulls}
        timed = interleave(calls, args.repeats, args.device)
        alone, rounds, compared, _ = (timed[contender].rest for contender in calls)
        both = Timed([0.0, *(one + other for one, other in zip(alone, compared, strict=True))])
        steps = Timed([0.0, *(one + one * 2 * m / args.nodes for one, m in zip(alone, pairs[1:], strict=True))])
        ratios = {
            "CoBo / (local + gradients)": Timed([0.0, *rounds]).over(both),
            "CoBo / local (1 + 2 pairs / nodes)": Timed([0.0, *rounds]).over(steps),
            "pulls / local": timed["pulls"].over(timed["local round"]),
        }
        for ratio, value in ratios.items():
            print(f"  {ratio:36} {value}")
        results[name] = {
            "ratios": {ratio: value._asdict() for ratio, value in ratios.items()},
            "pairs": pairs,
            "times": {contender: values.as_dict() for contender, values in timed.items()},
        }
    write(results, args)


if __name__ == "__main__":
    main()
