"""Runs in several processes of machines that trust each other, by torchrun (docs/scaling.md): `Processes`."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.distributed.launch import (
        agreed as agreed,
        among as among,
        deal as deal,
        launched as launched,
        meet as meet,
        meeting as meeting,
        one_voice as one_voice,
        speaks as speaks,
    )
    from graphcollab.distributed.meeting import ProcessLostError as ProcessLostError
    from graphcollab.distributed.processes import Processes as Processes

__all__ = make_lazy(__name__)
