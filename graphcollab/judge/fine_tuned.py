"""The judge slot of fine-tuning: nodes are judged by what they make of their model on their own data."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field

from torch_geometric.data import Data

from graphcollab.engine.rows import NonFiniteLossError
from graphcollab.keyed import keyed_seed
from graphcollab.local.fit import Fit
from graphcollab.piece import Judge
from graphcollab.stack import Stacks
from graphcollab.typing import Env

__all__ = ["FineTuned"]

_TUNE_STREAM = 123


@dataclass(frozen=True)
class FineTuned(Judge):
    """A node is judged by its model after some local steps on its own data, taken when the model is asked for.

    Every evaluation fine-tunes anew from the models at hand, with batches of its own, and nothing of it goes back into
    training: the models that are trained and exchanged are bit for bit those of the same method without it. Isolated
    nodes are judged by the model they have.

    Args:
        local: The local steps. Their objective may ask for an anchor: the model that they start from.

    Raises:
        ValueError: If the local steps keep state from round to round.

    Example:
        >>> FineTuned(Fit(steps=40)).local.steps
        40
    """

    local: Fit = field(default_factory=Fit)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local.keep_state:
            raise ValueError("fine-tuning starts anew every time and keeps no state: use keep_state=False")

    def init(self, data: Data, env: Env) -> Data:
        """Check the batches' lengths."""
        return self.local.init(data, env)

    def __call__(self, data: Data, env: Env) -> Stacks:
        """Return the fine-tuned models.

        Raises:
            NonFiniteLossError: If a loss is not finite, unless the run isolates such nodes: then the node is judged by
                the model it has, with a warning.
        """
        start = copy.copy(data)
        start.trains, start.x_start = ~data.isolated, data.x
        tuned = self.local(start, env._replace(seed=keyed_seed(_TUNE_STREAM, env.seed)))
        bad = tuned.bad_step >= 0
        if not bool(bad.any()):
            return tuned.x
        node, others = int(bad.nonzero()[0]), int(bad.sum()) - 1
        more = f" (and {others} more nodes)" if others else ""
        message = (
            f"{env.engine.tasks.names[node]}{more}: loss is not finite after {data.round} rounds at step "
            f"{int(tuned.bad_step[node])} of fine-tuning"
        )
        if not env.isolate:
            raise NonFiniteLossError(f"{message}: use a smaller step size for it")
        warnings.warn(f"{message}: judged by the model as it is", RuntimeWarning, stacklevel=2)
        return tuned.x.where(bad, data.x)
