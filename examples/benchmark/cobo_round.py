"""Times rounds of CoBo against plain local training plus the gradients of equally many pairs.

Nodes take one local step a round; CoBo also compares the gradients of the pairs it samples (K - 1 of them on average)
and pulls the models. The target is 1.3 times as long as a local round and the pairs' gradients together. The time of
the gradients is measured in two ways: by computing the gradients of equally many rows, and as that many K-ths of a
local round.
"""

# ci: --model mlp --nodes 4 --samples 40 --batch-size 8 --repeats 2 --json $OUT/cobo_round.json

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from _measure import arguments, interleave, machine, write  # type: ignore

from graphcollab import Tasks, build_model, methods
from graphcollab.engine import Engine, Rows
from graphcollab.method import Method
from graphcollab.models import MODELS
from graphcollab.plane import Plane
from graphcollab.stack import ParamSpec
from graphcollab.tasks import Pool, Split
from graphcollab.train import build_graph, build_modules
from graphcollab.typing import Env


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

        def gradients(cobo: Player = cobo, pairs: list[int] = pairs, env: Env = env) -> None:
            pairs.append(cobo.data.pairs_compared - cobo.before.pairs_compared)
            node = torch.arange(2 * pairs[-1], device=args.device) % args.nodes
            for few in node.split(env.engine.plans[0].chunk):
                env.engine.batch_gradient(Rows.own(cobo.data.x, few), seed=1, round_=0, batch_size=args.batch_size)

        print(f"{name}: {specs[0].num_parameters:,} parameters, {args.nodes} nodes, batches of {args.batch_size}")
        timed = interleave(
            {"local round": local, "CoBo round": cobo, "pairs' gradients": gradients}, args.repeats, args.device
        )
        turns = [timed[contender].rest for contender in ("CoBo round", "local round", "pairs' gradients")]
        ratios = sorted(c / (r + g) for c, r, g in zip(*turns, strict=True))
        shares = sorted(c / (r + r * 2 * m / args.nodes) for c, r, m in zip(*turns[:2], pairs[1:], strict=True))
        middle = len(ratios) // 2
        print(f"  CoBo / (local + gradients)           {ratios[middle]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        print(f"  CoBo / local (1 + 2 pairs / nodes)   {shares[middle]:.2f} ({shares[0]:.2f} to {shares[-1]:.2f})")
        results[name] = {
            "cobo / (local + gradients)": ratios[middle],
            "cobo / local (1 + 2 pairs / nodes)": shares[middle],
            "pairs": pairs,
            "times": {contender: values.as_dict() for contender, values in timed.items()},
        }
    write(results, args)


if __name__ == "__main__":
    main()
