"""Memory: `new_rows` for models, reused from round to round; heap thresholds; `used_up` for out-of-memory errors."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import threading
import weakref

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.errors import InvalidValueError

LEAST = 2**22  # bytes; PyTorch's own allocator also keeps smaller blocks for reuse
PAGE = 2**21  # bytes of a large page: sizes are multiples of it
KEPT = 6  # free blocks per size: a round of meta-L2C, the most demanding method, needs as many beside the models
TURNS = 64  # allocations after which free blocks of a size that is not requested are released
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # parameter numbers of mallopt(3)
THRESHOLDS = "trim_threshold", "mmap_threshold"
HEAP_KEPT = 2**28  # bytes: the activations of a thousand tokens in a small language model
LARGEST_BLOCK = 2**25  # bytes, the maximum that glibc allows for blocks from its heap


class _Free:
    """Unused blocks by size, and the turn in which each size was last requested."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[mmap.mmap]] = {}
        self.asked: dict[int, int] = {}
        self.turn = 0
        self.taking = threading.RLock()  # the garbage collector may give a block back in the middle of `take`

    def take(self, size: int) -> mmap.mmap:
        with self.taking:
            self.turn += 1
            self.asked[size] = self.turn
            if free := self.blocks.get(size):
                return free.pop()
            for other in [other for other, turn in self.asked.items() if turn < self.turn - TURNS]:
                del self.asked[other]
                self.blocks.pop(other, None)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def give_back(self, block: mmap.mmap) -> None:
        with self.taking:
            free = self.blocks.setdefault(len(block), [])
            if len(block) in self.asked and len(free) < KEPT:
                free.append(block)

    def let_go(self) -> None:
        with self.taking:
            self.blocks.clear()
            self.asked.clear()


_FREE = _Free()


def address(values: Tensor) -> int:
    """Return the memory address of a tensor's data, for compiled kernels.

    A ValueError refuses tensors whose numbers are not stored there: wrappers around other tensors, such as those of
    `torch.func` or a trace, freed storage, and lazily negated tensors.
    """
    try:
        place = values.data_ptr()
    except RuntimeError:
        place = 0
    if (not place and values.numel()) or values.is_neg():
        raise InvalidValueError(
            "values",
            f"expected a tensor with memory of its own, got a {type(values).__name__} ({values.layout}, "
            f"{values.device}): call outside of torch.vmap and torch.func",
        )
    return place


def used_up(error: BaseException) -> bool:
    """Return whether an error, possibly of another process, reports that a CPU or GPU is out of memory."""
    words = "can't allocate memory", "Unable to allocate", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED"
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or (isinstance(error, RuntimeError) and any(word in str(error) for word in words))


def let_go() -> None:
    """Return unused blocks to the system at the end of a run, and also blocks of these sizes that are freed later."""
    _FREE.let_go()


def new_rows(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialized tensor of a given shape, with the number type and device of ``like``.

    Large tensors on the CPU use blocks that are recycled when the last view is gone: new memory would cost more than
    the arithmetic on it, since the system clears every page on first write.
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < LEAST:
        return like.new_empty(shape)
    block = _FREE.take(-(-size // PAGE) * PAGE)
    raw = np.frombuffer(block, np.uint8, size)
    weakref.finalize(raw, _FREE.give_back, block).atexit = False
    return torch.from_numpy(raw).view(like.dtype).view(shape)


def keep_heap() -> None:
    """Let the C library keep up to 256 MiB freed at the end of its heap, instead of 256 KiB or slightly more.

    glibc returns memory above that threshold to the system after every step, and the next step gets it back page by
    page, each cleared: up to a fifth of a CNN's step. Other C libraries, and thresholds that the user has set through
    the environment, are left unchanged.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    tuned = any(f"MALLOC_{name.upper()}_" in os.environ or f"malloc.{name}" in tunables for name in THRESHOLDS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not tuned:
        mallopt(MMAP_THRESHOLD, LARGEST_BLOCK)
        mallopt(TRIM_THRESHOLD, HEAP_KEPT)
