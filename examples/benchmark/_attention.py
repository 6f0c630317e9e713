"""`WatchWeights`: what becomes of the weights that nodes give each other, and of what makes them."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from graphcollab import Method
from graphcollab.components import ChannelAttention, Env
from graphcollab.components.state import LOOP, tell_all
from graphcollab.nn.filters import layers_of
from graphcollab.nn.functional import edge_products
from graphcollab.persistence import History
from graphcollab.train import Callback
from graphcollab.train.findings import spread_in_round


class WatchWeights(Callback):
    """Keep, for every node, how the weights were spread that it gave others and its own model, every round.

    Evaluations keep the last round's in ``history.values``:

    - ``own_weight``: what the node gave its own model, which is what the others leave of 1;
    - ``weight_entropy``: the entropy of its weights, the own model's among them: 1 if all are equal, 0 if one is all
      there is;
    - ``largest_weight``: the largest that it gave another node;
    - ``weigher/…``: what `attention` says of meta-L2C's encoders.

    Nodes that no other model reached in a round keep their values, and nodes that never did have none (NaN). Where
    models do not travel along edges, as with ``fedavg``, nothing is kept.
    """

    def on_start(self, data: Data, history: History, rounds: int) -> None:
        self.now: dict[str, Tensor] = {}

    def after_mixing(self, data: Data, env: Env, method: Method) -> None:
        nothing = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64)
        inside = attention(method.weigh, data, env) if isinstance(method.weigh, ChannelAttention) else {}
        data = tell_all(data, (*LOOP, *method.fields), env.plane)
        if (spread := spread_in_round(method.exchange, data, env.plane)) is None:
            self.now = dict.fromkeys(self.now, nothing)
            return
        found = {"own_weight": spread.own, "weight_entropy": spread.entropy, "largest_weight": spread.largest}
        found |= {f"weigher/{name}": value for name, value in inside.items()}
        for name, value in found.items():
            self.now[name] = torch.where(spread.neighbors > 0, value, self.now.get(name, nothing))
        self.now |= dict.fromkeys(self.now.keys() - found.keys(), nothing)  # of the encoders of another phase

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.now)


def attention(weigh: ChannelAttention, data: Data, env: Env) -> dict[str, Tensor]:
    """Return what attention looks like from inside, after the exchange and the step of its encoders.

    - ``code_norm`` [K]: norm of every node's code; with cosines it is the square root of the temperature.
    - ``layer_share/…`` [K]: each layer's share in the logits of a node's in-neighbors, by their absolute values.
    - ``force/gradient``, ``force/decay`` []: norms of the validation losses' gradient and of weight decay, λ‖φ‖, on the
      encoders, where they learn. Both are before Adam's scaling.
    """
    then = copy.copy(data)
    then.x = data.x_local
    with torch.no_grad():
        halo, encoding = weigh._encoding(data.mixer, then, env)
        code = encoding.codes()
        num_edges, receiver = data.edge_index.shape[1], data.edge_index[1]
        layers, start, parts = layers_of(data.x.specs[0], weigh.part), 0, []
        for channels, _ in layers.values():
            piece = code[:, start : start + channels * (code.shape[1] // sum(c for c, _ in layers.values()))]
            start += piece.shape[1]
            logit = halo.put(edge_products(piece[: data.x.num_nodes], piece, halo.edge_index), num_edges).abs()
            logit = logit.masked_fill(data.edge_index[0] == receiver, 0)
            parts.append(scatter(logit, receiver, dim_size=data.num_nodes))
    total, norm = torch.stack(parts).sum(0), code[: data.x.num_nodes].norm(dim=1).cpu()
    found = {"code_norm": env.plane.from_local(norm)}
    found |= {f"layer_share/{name}": part / total for name, part in zip(layers, parts, strict=True)}
    found = {
        name: env.plane.all_gather(env.plane.local_values(value.cpu().double()))[0] for name, value in found.items()
    }
    if "mixer_forces" in data:
        gradient, decay = data.mixer_forces.cpu().double()
        found |= {"force/gradient": gradient, "force/decay": decay}
    return found
