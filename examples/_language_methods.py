"""The methods that finetune_languages.py compares: all take one step of AdamW a round, which keeps its moments."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab import Method, methods
from graphcollab._base.keyed import keyed_seed
from graphcollab.components import Env, Fit, FitPersonal, GradientAlignment
from graphcollab.engine import Rows

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

        product = env.plane.broadcast(env.plane.evaluate_at(rows, products), pairs[0], pairs[1]).cpu()
        return product.masked_fill(~env.plane.is_local(pairs[1]), torch.nan)


def contestants(args: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, int]]:
    """Return the methods by name, the settings to choose from, and how many rounds make ``args.rounds`` steps."""
    rounds, few = args.rounds, max(args.rounds // 4, 1)
    step = {"batch_size": args.batch_size, "optimizer": "adamw", "weight_decay": DECAY, "steps": 1}
    lora = {**step, "part": "lora"}
    make: dict[str, Any] = {"local": partial(kept, methods.local, **step)}
    make["fedavg"] = partial(kept, methods.fedavg, **lora)
    make["fedavg_finetuned"] = partial(kept, methods.fedavg_finetuned, finetune_steps=few, **lora)
    make["ditto"] = partial(kept, methods.ditto, **lora)
    aligned: dict[str, Any] = {"domain": "simplex", "sampling": "all", "gamma": args.gamma}
    aligned |= {"pair_batch": args.pair_batch} | {key: value for key, value in lora.items() if key != "steps"}
    make["cobo"] = partial(methods.cobo, **aligned)
    make["cobo_published"] = partial(published_cobo, **aligned)
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
    """Return a method whose optimizer goes on with its moments from round to round, instead of starting afresh."""
    made: Method = make(**settings)
    local = made.local
    if isinstance(local, FitPersonal):
        return made.replace(local=replace(local, fit=replace(local.fit, keep_state=True)))
    if not isinstance(local, Fit):
        raise TypeError(f"expected a method whose nodes train by Fit, got {local!r}")
    return made.replace(local=replace(local, keep_state=True))


def published_cobo(**settings: Any) -> Method:
    """Return `cobo` whose pairs are compared as the authors' code does."""
    made = methods.cobo(**settings)
    return made.replace(weigh=PublishedAlignment(**{f.name: getattr(made.weigh, f.name) for f in fields(made.weigh)}))
