"""Runs in several processes of machines that trust each other, by torchrun (docs/scaling.md): `Processes`."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.comm.launch import (
        agreed as agreed,
        deal as deal,
        meeting as meeting,
        one_voice as one_voice,
        speaks as speaks,
    )
    from graphcollab.comm.meeting import ProcessLostError as ProcessLostError
    from graphcollab.comm.plane import Plane as Plane
    from graphcollab.comm.processes import Processes as Processes
    from graphcollab.comm.relation import Relation as Relation

__all__ = make_lazy(__name__)
