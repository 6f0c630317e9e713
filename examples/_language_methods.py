"""The methods that finetune_languages.py compares: all take one step of AdamW a round, which keeps its moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import methods
from graphcollab.engine import AdamW, Rows
from graphcollab.exchange import Exchange
from graphcollab.keyed import keyed_seed
from graphcollab.local import Fit, FitPersonal
from graphcollab.method import Method
from graphcollab.typing import Env
from graphcollab.weigh import GradientAlignment

DECAY = 0.01  # weight decay of AdamW, PyTorch's default
GRIDS = {"ditto": ("lam", "lams"), "cobo": ("rho", "rhos"), "cobo_published": ("rho", "rhos")}  # setting, option
_FIRST_STREAM, _SECOND_STREAM = 901, 902


@dataclass(frozen=True)
class PublishedAlignment(GradientAlignment):
    r"""`GradientAlignment` as CoBo's authors have it for language models: both gradients are of one node's data.

    .. math::
        p_{ij} = \langle \nabla f_i(z_{ij}; \xi_i), \nabla f_i(z_{ij}; \xi'_i) \rangle

    It is an estimate of :math:`\|\nabla f_i(z_{ij})\|^2`: how large i's gradient is, and nothing of j's data. The
    pair's i is the node with the smaller ``node_id``, and its product is of both directions. It is here for comparison
    only; what travels is counted as if it were the paper's.
    """

    def _products(self, data: Data, env: Env, pairs: Tensor) -> Tensor:
        half = torch.full_like(pairs.T, 0.5, dtype=data.x.dtype)
        rows = Rows(data.x_start, pairs[0], pairs.T, half, self.part)

        def products(rows: Rows) -> Tensor:
            one, other = (
                env.engine.batch_gradient(
                    rows,
                    seed=keyed_seed(env.seed, stream),
                    round_=data.round,
                    batch_size=self.batch_size,
                    part=self.part,
                )[1]
                for stream in (_FIRST_STREAM, _SECOND_STREAM)
            )
            return (one * other).sum(1, dtype=torch.float64)

        product = env.plane.tell(env.plane.at_data(rows, products), pairs[0], pairs[1]).cpu()
        return product.masked_fill(~env.plane.known(pairs[1]), torch.nan)


def contestants(args: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the methods by name, the settings to choose from, and how many rounds make ``args.rounds`` steps."""
    rounds, few = args.rounds, max(args.rounds // 4, 1)
    step = {"batch_size": args.batch_size, "optimizer": "adamw", "weight_decay": DECAY, "steps": 1}
    lora = {**step, "part": "lora"}
    make: dict[str, Any] = {"local": partial(kept, methods.local, **step)}
    make["fedavg"] = partial(kept, methods.fedavg, **lora)
    make["fedavg_finetuned"] = partial(kept, methods.fedavg_finetuned, finetune_steps=few, **lora)
    make["ditto"] = partial(kept, methods.ditto, **lora)
    aligned = {"gamma": args.gamma, "batch_size": args.batch_size, "pair_batch": args.pair_batch}
    make["cobo"] = partial(cobo_simplex, **aligned)
    make["cobo_published"] = partial(cobo_simplex, weigher=PublishedAlignment, **aligned)
    make["same_language"] = partial(kept, methods.fedavg, within="cluster", **lora)
    several = min(5, rounds)
    make["dac"] = partial(kept, methods.dac, **{**lora, "steps": several}, samples=3)
    make["fedsim"] = partial(kept, methods.fedsim, **lora)
    make["meta_l2c"] = partial(kept, methods.meta_l2c, **{**lora, "steps": several})
    if unknown := sorted(set(args.methods) - set(make)):
        raise SystemExit(f"--methods {' '.join(unknown)} is unknown: choose from {' '.join(make)}")
    chosen = {name: make[name] for name in dict.fromkeys(["local", *args.methods])}
    grids = {name: {setting: getattr(args, option)} for name, (setting, option) in GRIDS.items() if name in chosen}
    budget = dict.fromkeys(chosen, rounds) | {n: rounds // several for n in ("dac", "meta_l2c") if n in chosen}
    if "fedavg_finetuned" in chosen:
        budget["fedavg_finetuned"] = max(rounds - few, 1)
    return chosen, {"*": {"lr": args.lrs}, **grids}, budget


def kept(make: Any, **settings: Any) -> Method:
    """Return a method whose optimiser goes on with its moments from round to round, instead of starting afresh."""
    made: Method = make(**settings)
    local = made.local
    if isinstance(local, FitPersonal):
        return made.replace(local=replace(local, fit=replace(local.fit, keep_state=True)))
    if not isinstance(local, Fit):
        raise TypeError(f"expected a method whose nodes train by Fit, got {local!r}")
    return made.replace(local=replace(local, keep_state=True))


def cobo_simplex(
    *, lr: float, rho: float, gamma: float, batch_size: int, pair_batch: int, weigher: Any = GradientAlignment
) -> Method:
    r"""CoBo as in section 4.3 of its paper: AdamW, weights on the simplex, and all pairs in every round.

    Deviations from algorithm 1: the step is AdamW's; the pull comes after it, :math:`x_i \leftarrow x_i - \rho \sum_j
    w_{ij} (x_i - x_j)`, at the models after the step and not multiplied by the step size, as in the authors' code
    (there ρ = 0.001 in 500 iterations); gradients at midpoints are of smaller batches than the steps'. Deviations from
    that code: weights move before models, w_ii is none of the weights, and, unless it is `PublishedAlignment`, the
    second gradient is of j's data, as in the paper.

    Args:
        lr: Step size of AdamW.
        rho: ρ.
        gamma: γ, the authors' 0.05.
        batch_size: Blocks of a step.
        pair_batch: Blocks that a gradient at a midpoint is of.
        weigher: How pairs are compared.
    """
    step = AdamW(lr=lr, weight_decay=DECAY)
    return Method(
        "cobo",
        local=Fit(steps=1, batch_size=batch_size, optimizer=step, keep_state=True),
        weigh=weigher(gamma=gamma, domain="simplex", sampling="all", batch_size=pair_batch, part="lora"),
        exchange=Exchange("x", "x", "lora", against="x", scale=rho),
    )
