"""Checksums of tensors, of the weights that all nodes share, and of the samples that every node has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from graphcollab.keyed import keyed_bits
from graphcollab.tasks.samples import ELSEWHERE, Split

_WORD_STREAM = 175
_WORDS = 2**22  # of 8 bytes that are multiplied at a time
_DIGEST = 16  # bytes
_known: MutableMapping[Tensor, tuple[int, str]] = WeakIdKeyDictionary()
"""How often a tensor had been written to when its content was read, and what was found: a base is read once."""


def checksum(value: Tensor | np.ndarray | np.generic) -> str:
    """Return the shape, number type and checksum of an array."""
    if isinstance(value, np.ndarray | np.generic):
        held = np.asarray(value)
        try:
            value = torch.as_tensor(held)
        except (TypeError, ValueError):  # texts, dates and the like
            return f"{list(held.shape)} {held.dtype} {hashed(np.ascontiguousarray(held).tobytes())}"
    tensor = value.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_sparse_coo().coalesce()
        return f"{list(tensor.shape)} sparse {checksum(tensor.indices())} {checksum(tensor.values())}"
    return f"{list(tensor.shape)} {tensor.dtype} {hashed(_content(tensor))}"


def weights_checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the BLAKE2b of tensors (names, shapes, types, bytes) in any order, 32 digits; read once if unchanged."""
    told = [f"{name} {_digest(tensors[name])}\n" for name in sorted(tensors)]
    return hashlib.blake2b("".join(told).encode(), digest_size=_DIGEST).hexdigest()


def _digest(tensor: Tensor) -> str:
    version = -1 if tensor.is_inference() else tensor._version  # those of inference mode do not count
    if version < 0 or _known.get(tensor, (None,))[0] != version:
        found = hashlib.blake2b(_content(tensor.detach()), digest_size=_DIGEST).hexdigest()
        _known[tensor] = version, f"{list(tensor.shape)} {tensor.dtype} {found}"
    return _known[tensor][1]


def _content(tensor: Tensor) -> memoryview | bytes:
    if not tensor.numel():
        return b""
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    content: memoryview = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return content


def digests(split: Split, values: Tensor) -> Tensor:
    """Return a checksum of every node's share of values [N, ...], in its order, [K] int64; 0 of nodes elsewhere.

    Places in the pool do not count. Words of 8 bytes are multiplied by keyed odd numbers and summed modulo 2^64, which
    two samples survive alike with a probability of about 2^-63; then samples are, keyed by their place.
    """
    here = (split.index != ELSEWHERE).nonzero().flatten()
    rows = split.index[here]
    owner = torch.repeat_interleave(torch.arange(split.num_nodes), split.sizes)[here]
    place = here - split.ptr[owner]
    used, which = rows.unique(return_inverse=True)
    found = torch.zeros(len(used), dtype=torch.int64)
    width = -(-values[:1].numel() * values.element_size() // 8) if len(values) else 0
    key = keyed_bits(0, _WORD_STREAM, torch.arange(width)) | 1
    for start in range(0, len(used), step := max(_WORDS // max(width, 1), 1)):
        some = values[used[start : start + step].to(values.device)].detach().cpu().contiguous()
        raw = torch.zeros(len(some), 8 * width, dtype=torch.uint8)
        content = some.reshape(len(some), -1).view(torch.uint8)
        raw[:, : content.shape[1]] = content
        found[start : start + step] = (raw.view(torch.int64) * key).sum(1)
    mixed = keyed_bits(0, _WORD_STREAM, found[which], place)
    return torch.zeros(split.num_nodes, dtype=torch.int64).index_add(0, owner, mixed)


def hashed(*parts: str | bytes | memoryview) -> str:
    """Return a short checksum of texts and bytes."""
    made = hashlib.sha256()
    for part in parts:
        made.update(part.encode() + b"\n" if isinstance(part, str) else part)
    return made.hexdigest()[:12]
