"""Local training: nobody talks to anybody."""

from __future__ import annotations

from typing import Unpack

from graphcollab.declare import Training, fit, method, patient
from graphcollab.method import Method
from graphcollab.settings import Count


@method(lr=0.01, epochs=5, batch_size=10, weight_decay=5e-4)
def local(*, patience: Count | None = None, **training: Unpack[Training]) -> Method:
    """Local training: every node trains a model on its own data only."""
    return patient(Method("local", local=fit(training)), patience)
