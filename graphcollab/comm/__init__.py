"""Multi-process runs on machines that trust each other, launched by torchrun (docs/scaling.md): `Processes`."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.comm.launch import (
        deal as deal,
        is_main_process as is_main_process,
        meeting as meeting,
        only_main_process as only_main_process,
        raise_on_all as raise_on_all,
    )
    from graphcollab.comm.plane import Plane as Plane
    from graphcollab.comm.processes import Processes as Processes
    from graphcollab.comm.relation import Relation as Relation

__all__ = make_lazy(__name__)
