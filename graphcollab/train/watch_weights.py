"""`WatchWeights`: what becomes of the weights that nodes give each other, and of what makes them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.control.at_work import edges_in_use
from graphcollab.control.shares import tell_all
from graphcollab.control.state import LOOP
from graphcollab.env import Env
from graphcollab.errors import ContractError
from graphcollab.method import Method
from graphcollab.metrics import WeightSpread, weight_spread
from graphcollab.plane import Plane
from graphcollab.slots import Exchanger, Weigher
from graphcollab.train.callbacks import Callback
from graphcollab.train.history import History


class WatchWeights(Callback):
    """Keep, for every node, how the weights were spread that it gave others and its own model, every round.

    Evaluations keep the last round's in ``history.values``:

    - ``own_weight``: what the node gave its own model, which is what the others leave of 1;
    - ``weight_entropy``: the entropy of its weights, the own model's among them: 1 if all are equal, 0 if one is all
      there is;
    - ``largest_weight``: the largest that it gave another node;
    - ``weigher/…``: what the weigher has to say (`Weigher.inspect`), if anything.

    They are those of edges in use: what a node would have given others that were not there is its own, or makes its
    other weights grow, as in the exchange. A step size that the exchange multiplies weights by, such as CoBo's, is left
    out; where weights that pull sum to more than 1, nothing is left for the own model. Nodes that heard nobody in a
    round, because they or all others were at rest, keep their values, and nodes that never did have none (NaN). Where
    models do not travel along edges, as with ``fedavg``, nothing is kept. `graphcollab.report.own_weight_curves` draws
    it.
    """

    def on_start(self, data: Data, history: History, rounds: int) -> None:  # a resumed history has the last values
        self.whole, self.now = history.weighing, dict(history.weighing)

    def after_learning(self, method: Method, data: Data, env: Env) -> None:
        nothing = torch.full((data.num_nodes,), torch.nan, dtype=torch.float64)
        inspected = _inspected(method.weigh, data, env)
        data = tell_all(data, (*LOOP, *method.fields), env.plane)
        if (spread := spread_in_round(method.exchange, data, env.plane)) is None:
            self.now = dict.fromkeys(self.now, nothing)
            return
        found = {"own_weight": spread.own, "weight_entropy": spread.entropy, "largest_weight": spread.largest}
        found |= {f"weigher/{name}": value for name, value in inspected.items()}
        for name, value in found.items():
            self.now[name] = torch.where(spread.neighbors > 0, value, self.now.get(name, nothing))
        self.now |= dict.fromkeys(self.now.keys() - found.keys(), nothing)  # said by the weigher of another phase

    def on_round(self, data: Data, history: History) -> None:
        history.weighing.update(self.now)  # now that the round is whole

    def values(self) -> Mapping[str, Tensor]:
        return dict(self.whole)


def spread_in_round(exchange: Exchanger, data: Data, plane: Plane) -> WeightSpread | None:
    """Return how the weights of a round are spread over edges in use, or None where models do not travel along edges.

    The data's edges, weights and masks must be that round's. Nodes that do not train hear nobody. Of weights that are
    not told here, as between sites, nothing is said.
    """
    if not exchange.along_edges:
        return None
    in_use = edges_in_use(data)
    used = data.trains[data.edge_index[1]] if in_use is None else in_use & data.trains[data.edge_index[1]]
    used = used & plane.known(data.edge_index[1]) if plane.private else used
    return weight_spread(data.edge_index[:, used], exchange.shares(data)[used], data.num_nodes)


def _inspected(weigher: Weigher, data: Data, env: Env) -> Mapping[str, Tensor]:
    """Return what a weigher has to say, [K] or [] by name, float64."""
    found = weigher.inspect(data, env)
    for name, value in found.items():
        if not isinstance(value, Tensor) or value.shape not in ((), (data.num_nodes,)):
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ContractError(
                f"{type(weigher).__name__}.inspect",
                f"{type(weigher).__name__}.inspect()[{name!r}] must be a tensor with a value for all nodes, [], or one "
                f"for each, [{data.num_nodes}], got {got}",
            )
    plain = {name: value.detach().cpu().double() for name, value in found.items()}
    own = env.plane.own
    if env.plane.private:  # others are not told, as of weights
        return {k: torch.full_like(v, torch.nan).index_copy(0, own, v[own]) if v.dim() else v for k, v in plain.items()}
    return {name: env.plane.publish(value) if value.dim() else value for name, value in plain.items()}
