"""What a run says that has used up the memory: which of its settings take less of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from graphcollab.engine import Plan
from graphcollab.memory import used_up

KINDS = (torch.OutOfMemoryError, MemoryError, RuntimeError)


@contextmanager
def name_limits(plans: Sequence[Plan]) -> Iterator[None]:
    """Let an error of memory that is used up say which settings to lower, and what they are; its cause is the error."""
    try:
        yield
    except KINDS as error:
        if not used_up(error):
            raise
        chunks = ", ".join(dict.fromkeys(f"{plan.chunk} rows" for plan in plans))
        parts = ", ".join(dict.fromkeys(f"{plan.microbatch or 'all'} samples of a batch" for plan in plans))
        kind = next(one for one in KINDS if isinstance(error, one))
        raise kind(
            f"memory is used up ({' '.join(str(error).split())[:300]}): lower chunk (now {chunks} at a time), or "
            f"microbatch (now {parts} at a time)"
        ) from error
