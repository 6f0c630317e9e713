"""The data of nodes: samples, partitions of datasets over nodes, and training batches.

Builders of tasks raise a ``ValueError`` if there are too few samples or classes, and state how many are needed.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data._pairs import Samples as Samples
    from graphcollab.data.preparation import Preparation as Preparation

__all__ = make_lazy(__name__)
