"""Memory that local steps free is kept for the next ones."""

from __future__ import annotations

import ctypes
import os
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # what mallopt(3) calls them
THRESHOLDS = "trim_threshold", "mmap_threshold"
KEPT = 2**28  # bytes: the activations of a thousand tokens in a small language model
LARGEST = 2**25  # bytes, as large as glibc lets blocks be that come from its heap


def keep_heap() -> None:
    """Let the C library keep up to 256 MiB that are freed at the end of its heap, instead of 256 KiB or a little more.

    A step frees all its activations at its end. What exceeds the threshold, glibc then gives back to the system, and
    the next step gets it anew, page by page, each cleared first, which takes up to a fifth of a CNN's step. With
    another C library or allocator nothing happens, nor where the user has set a threshold through the environment.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    tuned = any(f"MALLOC_{name.upper()}_" in os.environ or f"malloc.{name}" in tunables for name in THRESHOLDS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not tuned:
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, KEPT)
