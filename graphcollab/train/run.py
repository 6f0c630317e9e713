"""`run`: the only outer loop, which `prepare` sets up and a `Session` plays."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Annotated, Literal

import torch

from graphcollab._base.errors import StateError
from graphcollab._base.memory import let_go
from graphcollab._base.settings import Count, Seed, checked
from graphcollab.components import Isolate, Participation
from graphcollab.data.tasks import Tasks
from graphcollab.methods.method import Method
from graphcollab.methods.phases import Phases
from graphcollab.train.callbacks import Callback
from graphcollab.train.graph_input import Graph
from graphcollab.train.prepare import meet_others, prepare
from graphcollab.train.result import Result
from graphcollab.train.settings import Checkpoint, Checkpoints, Compute, Computing, RunSettings
from graphcollab.train.start import Architecture, Model

AMethod = Annotated[Method | Phases, "a method, such as fedavg()"]
SomeTasks = Annotated[Tasks, "Tasks, made by Tasks.from_frame, Tasks.from_samples or a partition"]


@checked
def run(
    method: AMethod,
    tasks: SomeTasks,
    model: Model,
    graph: Graph = None,
    *,
    rounds: Count = 100,
    seed: Seed = 0,
    architecture: Architecture = None,
    evaluate_every: Count = 1,
    patience: Count | None = None,
    callbacks: Iterable[Callback] = (),
    on_nonfinite: Literal["stop", "isolate"] | Isolate = "stop",
    participation: Participation | None = None,
    checkpoint: Checkpoints = None,
    compute: Computing = "cpu",
) -> Result:
    """Train personalized models and the graph between them.

    Ctrl-C finishes the round, saves, evaluates if nothing was evaluated yet, and returns; a second Ctrl-C stops at
    once.

    Args:
        method: The collaboration method, for example ``graphcollab.methods.meta_l2c()``.
        tasks: The nodes' data.
        model: A module, or a function that makes one (initialized from the seed), or one per architecture; a function
            may make several, such as one that calls `graphcollab.models.split_models`. A function with an argument is
            called with the tasks: ``lambda tasks: build_model("mlp", tasks.input_shape, 2)``.
        graph: Edges along which nodes may hear each other: a ``Data``, an ``edge_index``, a topology transform, or a
            list of pairs (sender, receiver) by name or position, with or without a weight as third entry (`Graph`).
            None: all pairs (not listed if nodes search for their peers, such as ``dac``; no edges if the method sends
            nothing along them, such as ``local`` and ``fedavg``). Nodes never hear each other along other edges,
            whatever route models take: servers average within connected components, whose nodes must all be allowed to
            hear each other (``fedavg`` with ``incomplete="average"`` takes others too), and a node without neighbors
            sends nothing.
        rounds: Number of rounds.
        seed: Seed of all randomness.
        architecture: Architecture of every node, [K] or by name, if there are several.
        evaluate_every: Rounds between evaluations; the last round is always evaluated.
        patience: Early stopping: stop when the mean validation metric has not improved for this many evaluations, and
            return the state after the best one (ties are broken by the smallest validation loss).
        callbacks: See `Callback`; ``[Progress()]`` shows a progress bar.
        on_nonfinite: ``"stop"`` at a loss that is not finite, or ``"isolate"`` its node with a warning and continue:
            the node keeps its last good model, rests, and loses its edges. Nodes are checked before other nodes hear
            their models, against the bounds of `Isolate` (``Isolate(factor)`` for other bounds); this costs a gradient
            and a loss on all training samples a round. A resumed run may begin or stop isolating, but not with another
            factor.
        participation: Participation of nodes in rounds, with any method: `Participation` drops and delays nodes, and
            lets them join and leave. Default: all nodes always take part.
        checkpoint: A folder for checkpoints, from which a repeated run resumes; or `Checkpoint`, which also sets how
            often to save. Default: none are written.
        compute: A device, such as ``"cuda"``; or `Compute`, which also sets the number of threads, the chunk sizes, and
            the placement of nodes on processes. Default: on the CPU.

    Raises:
        ValueError: If the input is not usable; nothing has been trained then.
        RuntimeError: If another run is using the checkpoint folder, or in ``torch.inference_mode()``.
        TypeError: If a model is not one of these, or returns something other than one tensor.
        NonFiniteLossError: If a node's loss is not finite; the last checkpoint is intact. (After an error during
            evaluation, the checkpoint is of the round that was just played.)

    Example:
        >>> from graphcollab.methods import local
        >>> x, y = torch.randn(20, 3), torch.randint(2, (20,))
        >>> result = run(local(), Tasks.from_samples([(x, y), (x, y)]), torch.nn.Linear(3, 2), rounds=2)
        >>> result.history.rounds
        [1, 2]
    """
    if torch.is_inference_mode_enabled():
        raise StateError("run", "nothing can be trained inside torch.inference_mode(): call it outside")
    if patience is not None:
        tasks.require("val", "early stopping needs")
    settings = RunSettings(
        method,
        tasks,
        model,
        graph,
        rounds,
        seed,
        architecture,
        evaluate_every,
        patience,
        tuple(callbacks),
        on_nonfinite,
        participation,
        Checkpoint.of(checkpoint),
        Compute.of(compute),
    )
    settings, plane = meet_others(settings)
    with ExitStack() as held, plane.raise_on_all():
        held.callback(let_go)
        return prepare(settings, plane, held).play()
