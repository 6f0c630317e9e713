"""The judge slot: the models that nodes are judged by."""

from __future__ import annotations

from graphcollab.judge.fine_tuned import FineTuned
from graphcollab.judge.judged_by import JudgedBy
from graphcollab.judge.nearest_prototype import NearestPrototype

__all__ = [
    "FineTuned",
    "JudgedBy",
    "NearestPrototype",
]
