"""FedProto's objective: latents near the prototypes of their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch_geometric.data import Data

from graphcollab.engine.objective import Context, Objective, Reads
from graphcollab.engine.prototypes import PROTOTYPES, with_prototypes
from graphcollab.piece import Field
from graphcollab.settings import NonNegative
from graphcollab.typing import Env

__all__ = ["PrototypeDistance"]


@dataclass(frozen=True)
class PrototypeDistance(Objective):
    r"""λ times the mean squared error between latents and the class prototypes that a node was given.

    From `FedProto: Federated Prototype Learning across Heterogeneous Clients (Tan et al., AAAI 2022)
    <https://arxiv.org/abs/2105.00243>`_:

    .. math::
        \frac{\lambda}{B} \sum_{q=1}^{B} \frac{1}{d_z} \lVert z_q - \bar c_{y_q} \rVert^2

    A sample whose class has no prototype counts as 0, and still as one of the B.

    The paper writes a sum, over classes, of distances between class means. This is the authors' code: one distance for
    every sample, as a mean over components, which needs no class mean of a batch.

    Args:
        lam: λ.

    Shapes:
        Reads ``context.latent`` [B, d_z], and the node's ``prototypes`` [C, d_z] and ``prototype_known`` [C]. It
        begins a run with no class known, unless an earlier phase has left some.

    Raises:
        ValueError: When called, if latents or prototypes are not there.

    Example:
        >>> import torch
        >>> prototypes, known = torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.tensor([True, False])
        >>> given = {"prototypes": prototypes, "prototype_known": known}
        >>> context = Context(None, {}, latent=torch.tensor([[1.0, 4.0], [7.0, 7.0], [1.0, 1.0]]), given=given)
        >>> PrototypeDistance()(torch.zeros(3, 2), torch.tensor([0, 1, 0]), context)  # (9 / 2 + 0 + 0) / 3
        tensor(1.5000)
    """

    lam: NonNegative = 1.0

    keeps: ClassVar[tuple[Field, ...]] = PROTOTYPES
    reads: ClassVar[Reads] = Reads(latents=True, fields=tuple(field.name for field in PROTOTYPES))

    def init(self, data: Data, env: Env) -> Data:
        """Check models and labels, and begin without prototypes."""
        return with_prototypes(data, env)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Return λ times the mean over the samples of the batch."""
        if context.latent is None or context.given is None:
            raise ValueError("PrototypeDistance reads latents and class prototypes that were received: train by Fit")
        prototypes, known = context.given["prototypes"], context.given["prototype_known"]
        place = targets.clamp(0, len(prototypes) - 1)  # a label that is no class has no prototype either
        counts = known[place] & (targets == place)
        error = (context.latent - prototypes[place]).square().mean(1)
        return self.lam * context.mean(error.masked_fill(~counts, 0))
