"""Runs in several processes of machines that trust each other: `Processes`, over `torch.distributed`.

Start a script by ``torchrun --nproc-per-node 2 script.py``, and every `graphcollab.run` in it is played by all
processes together: docs/scaling.md says how. Without such a launcher nothing of this is used.
"""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.distributed.errors import ProcessLostError as ProcessLostError
    from graphcollab.distributed.launch import (
        Company as Company,
        agreed as agreed,
        among as among,
        deal as deal,
        launched as launched,
        meet as meet,
        meeting as meeting,
        one_voice as one_voice,
        speaks as speaks,
    )
    from graphcollab.distributed.processes import Processes as Processes

__all__ = make_lazy(__name__)
