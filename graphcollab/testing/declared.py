"""The checks of the contract that are about declarations: what pieces keep in the ``Data``, and what they send."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.phases import Phases
from graphcollab.piece import Field, Piece
from graphcollab.plane import Plane
from graphcollab.testing.claims import AnyMethod, require, rounds_of
from graphcollab.testing.scene import Scene

__all__ = ["LOOP", "check_declared", "check_sends", "pieces_of"]

LOOP = (
    Field("x", "rows", "the nodes' models", "run", "owner"),
    Field("x_init", "rows", "the models that a run begins with", "run"),
    Field("x_start", "rows", "the models that a round began with", "round", "owner"),
    Field("x_local", "rows", "the models after the local update, before they are mixed", "round", "owner"),
    Field("edge_index", "per_edge", "senders and receivers", "run"),
    Field("edge_weight", "per_edge", "how much a receiver takes of a sender's model", "run", "receiver"),
    Field("last_graph", "relation", "edges and weights of the last exchange, where the next round has others", "phase"),
    Field("allowed", "relation", "edges that may exist", "run"),
    Field("component", "per_node", "number of a node's component of these", "run"),
    Field("server", "relation", "which nodes are at which server", "phase"),
    Field("node_id", "per_node", "name of a node for random draws, whatever its place", "run"),
    Field("num_nodes", "scalar", "K", "run"),
    Field("round", "scalar", "rounds played", "run"),
    Field("phase_start", "scalar", "round in which the phase began", "phase"),
    Field("trains", "per_node", "who trains in the round", "run"),
    Field("serves", "per_node", "whose model others may hear of in the round", "run"),
    Field("present", "per_node", "who has joined and not left", "run"),
    Field("isolated", "per_node", "who has diverged and takes no further part", "run"),
    Field("isolated_because", "scalar", "why, by node", "run"),
    Field("bad_step", "per_node", "first local step whose loss was not finite, or -1", "run"),
    Field("train_loss", "per_node", "mean training loss of the last local update", "run", "owner"),
    Field("bytes_sent", "per_node", "bytes that a node has sent", "run"),
    Field("messages_sent", "per_node", "models that a node has sent", "run"),
)
"""What the loop itself keeps, with or without pieces."""

PENDING = {
    *("affinity", "bag", "center_count", "centers", "chosen", "chosen_rounds", "coded", "edge_alignment"),
    *("edge_confidence", "edge_gain", "edge_logit", "edge_logit_exp_avg", "edge_logit_exp_avg_sq", "edge_member"),
    *("edge_prior", "edge_score", "edge_share", "edge_trial", "fit_state", "fit_step", "memory", "mixer"),
    *("mixer_exp_avg", "mixer_exp_avg_sq", "mixer_step", "neighbors", "own_share", "pairs_compared"),
    *("prototype_known", "prototypes", "pull_warned", "received", "scores", "unused", "x_personal"),
    *("best_x", "best_start", "best_loss", "stale", "stopped", "probe", "val_loss_before", "val_loss_after"),
    *("val_metric_before", "val_metric_after", "center", "edge_weight_given"),
}
"""Fields of pieces that do not declare what they keep yet."""

SILENT = {
    *("AdaptivePeers", "CenterAverage", "ChannelAttention", "ClassifierSimilarity", "CosineUpdates", "CosineWeights"),
    *("CrossGradients", "Exchange", "FirstOrderGain", "GradientAlignment", "HeadAffinity", "InverseDistance"),
    *("InverseLoss", "LaplacianPull", "NeighborhoodAverage", "PrototypeAverage", "Receive", "ServerAverage"),
    *("ServerMix", "TaskPeers", "TrialMixtures"),
}
"""Pieces that cause bytes and do not say yet what they send."""


def pieces_of(method: AnyMethod) -> Iterator[Piece]:
    """Yield all pieces of a method, or of all phases, those inside other pieces too."""
    if isinstance(method, Phases):
        yield from pieces_of(method.method)
        yield from pieces_of(method.next)
        return
    for slot in fields(method):
        piece = getattr(method, slot.name)
        if isinstance(piece, Piece):
            yield from piece.walk()


def check_declared(method: AnyMethod) -> None:
    """What is in the ``Data`` is declared by the loop or by a piece, and what lives for a round is gone after it."""
    declared = [*LOOP, *(field for piece in pieces_of(method) for field in piece.keeps)]
    data, env = Scene.small(embeds=method.embeds).begin(method)
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
        written = {name for name in sorted(data.keys()) if name not in PENDING}
        unknown = sorted(name for name in written if not any(field.covers(name) for field in declared))
        require(not unknown, f"{unknown} are in the data, and no piece declares them in its `keeps`")
        lives = {field.name for field in declared if field.lifetime == "round"}
        late = sorted(lives & written)
        require(not late, f"{late} are declared to live for a round, and are there after it")


class _Ledger(Plane):
    """Counts bytes as `Plane` does, and notes on whose account they go."""

    def __init__(self) -> None:
        super().__init__()
        self.payers: list[Piece] = []

    def charge(self, data: Data, senders: Tensor, floats: float | Tensor, at: Tensor | None = None) -> Data:
        """Add what nodes sent, and find the piece that says so: the innermost one that is at work."""
        frame = sys._getframe(1)
        while frame is not None and not isinstance(frame.f_locals.get("self"), Piece):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            self.payers.append(frame.f_locals["self"])
        return super().charge(data, senders, floats, at)


def check_sends(method: AnyMethod) -> None:
    """A piece that causes bytes says in `travels` what it is that leaves a node."""
    data, env = Scene.small(embeds=method.embeds).begin(method)
    ledger = _Ledger()
    env = env._replace(plane=ledger)
    for _ in range(rounds_of(method)):
        data = method.play(data, env)
    silent = {type(piece).__name__ for piece in ledger.payers if not piece.travels}
    require(not silent - SILENT, f"{sorted(silent - SILENT)} cause bytes, and do not say in `travels` what is sent")
