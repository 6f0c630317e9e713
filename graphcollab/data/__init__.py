"""What nodes own: their samples, how a dataset is dealt out to them, and the batches they train on.

Builders of tasks raise a ``ValueError`` where samples or classes are too few, and say how many are needed.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data._pairs import Samples as Samples
    from graphcollab.data.preparation import Column as Column, Preparation as Preparation
    from graphcollab.data.samples import Pool as Pool, Split as Split
    from graphcollab.data.schedule import Schedule as Schedule
    from graphcollab.data.table import Table as Table
    from graphcollab.data.tasks import Tasks as Tasks

__all__ = make_lazy(__name__)
