"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on.

Builders of tasks raise a ``ValueError`` where samples or classes are too few, and say how many are needed.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data._pairs import Samples as Samples
    from graphcollab.data.preparation import Preparation as Preparation
    from graphcollab.data.table import Table as Table

__all__ = make_lazy(__name__)
