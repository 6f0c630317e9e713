"""Fair comparisons of methods, and an analysis of which sites gain by collaborating, with whom, and by how much."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.analysis.comparison import Comparison as Comparison
    from graphcollab.analysis.evidence import Gain as Gain
    from graphcollab.analysis.outcome import Benefit as Benefit
    from graphcollab.analysis.resplit import resplit as resplit
    from graphcollab.analysis.trial import Trial as Trial

__all__ = make_lazy(__name__)
