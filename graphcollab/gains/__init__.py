"""Which sites gain by collaborating, by whom, and by how much."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.gains.benefit import benefit as benefit
    from graphcollab.gains.evidence import Gain as Gain
    from graphcollab.gains.outcome import Benefit as Benefit
    from graphcollab.gains.resplit import resplit as resplit

__all__ = make_lazy(__name__)
