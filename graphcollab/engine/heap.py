"""Memory that local steps free is kept for the next ones."""

from __future__ import annotations

import torch

__all__ = ["keep_heap"]

LARGEST = 2**25  # bytes of a block above which glibc learns nothing from it
HEAD = 2**13  # bytes, at most, that alignment and the allocator add to a block


def keep_heap() -> None:
    """Let the C library keep up to 64 MiB that are freed at the end of its heap, instead of 256 KiB or a little more.

    A step frees all its activations at its end. What exceeds twice the largest block that was freed so far, glibc then
    gives back to the system, and the next step gets it anew, page by page, each cleared first, which takes up to a
    fifth of a CNN's step. It learns from the blocks that are freed (``M_MMAP_THRESHOLD`` in mallopt(3)), and here it is
    shown a large one, of which nobody touches a byte. With another C library or allocator nothing happens.
    """
    torch.empty(LARGEST - HEAD, dtype=torch.uint8)
