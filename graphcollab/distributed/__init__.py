"""Runs in several processes of machines that trust each other: `Processes`, over `torch.distributed`.

Start a script by ``torchrun --nproc-per-node 2 script.py``, and every `graphcollab.run` in it is played by all
processes together: docs/scaling.md says how. Without such a launcher nothing of this is used.
"""

from graphcollab.distributed.errors import ProcessLostError
from graphcollab.distributed.launch import Company, agreed, among, deal, launched, meet, meeting, one_voice, speaks
from graphcollab.distributed.processes import Processes

__all__ = [
    "Company",
    "ProcessLostError",
    "Processes",
    "agreed",
    "among",
    "deal",
    "launched",
    "meet",
    "meeting",
    "one_voice",
    "speaks",
]
