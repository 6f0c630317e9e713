"""Trials before a run: differences between backends and plain PyTorch, and where to pad."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphcollab.engine.backend import Backend, Work
from graphcollab.engine.footprint import ROOM, Counted
from graphcollab.engine.modules import Padding, padding_by_type, positions_of
from graphcollab.engine.optimizer import SGD
from graphcollab.engine.randomness import keyed_layers, keyed_stream, randomness_by_row
from graphcollab.engine.reference import BUFFERS, JUDGED, PLACES, PLAIN_STEP, RATE, SIZES, TRAINED, Numbers, Reference

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-4}  # relative to the largest number
COARSE = 0.03  # for other data types
NOISE = 10.0  # errors up to this multiple of plain PyTorch's own, relative to double precision, are rounding
AMONG, KEPT = (2, 0, 3, 1, 1), [1, 3]  # positions in the sample, and which of them are the second node's own batch
WIDE = 64, 300  # numbers of samples in larger batches
MOST_INPUTS, MOST_WEIGHTS = 2**18, 2**29  # numbers in a larger batch, and parameters times its samples or tokens
FAILURES = RuntimeError, ValueError, TypeError, IndexError, AttributeError


def difference(backend: Backend, reference: Reference, expected: Numbers) -> str | None:
    """Return a difference between a backend and plain PyTorch, such as ``"its gradient ('weight')"``, or None.

    It compares outputs, losses and gradients in both modes, and models with their buffers after a step, on two nodes'
    batches of unequal length; modules that are random in training only if the backend draws node by node.
    """
    found = _numbers(backend, reference)
    judged = JUDGED if reference.noisy else ()  # a loss that draws is keyed in training only
    trained = () if backend.by_node or not reference.random else TRAINED
    names = [name for name in found if name not in (*judged, *trained)]
    wrong = [name for name in names if _difference(name, expected[name], found[name], reference)]
    if wrong and not reference.random:
        exact = reference.in_double()
        noise = {} if exact is None else {n: NOISE * float((expected[n] - exact[n]).abs().max()) for n in wrong}
        wrong = [n for n in wrong if _difference(n, expected[n], found[n], reference, noise.get(n, 0.0))]
    return _difference(wrong[0], expected[wrong[0]], found[wrong[0]], reference) if wrong else None


def padding_of(reference: Reference, expected: Numbers) -> Padding:
    """Return where batches may be padded, or raise a ValueError if two identical passes differ.

    Nowhere if a sample's output changes with the other samples, also among 64 or 300 (unless that is expensive). Not in
    training if gradients change, layers normalize batches, or something draws, since longer batches draw other numbers.
    """
    by_type = padding_by_type(reference.module, reference.spec)
    if by_type == "never":
        return "never"
    weight = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0]).to(reference.flat) if not reference.objective.reads.alike else None
    batch = reference.pick(AMONG)
    if batch[0].is_floating_point():
        batch[0][2] = 0.3 * batch[0][2] + 0.7 * batch[0][1]  # a new sample
    outputs, _, gradient = reference.forward(1, batch, False, weight, key=2)
    if not _close(reference.seen[False], outputs[KEPT]):
        reference.require_repeatable(expected, train=False)
        return "never"
    if not _alike_in_large_batches(reference, batch[0], train=False):
        return "never"
    if by_type == "always" and weight is not None and not reference.random:
        outputs, _, trained = reference.forward(1, batch, True, weight)
        pairs = (
            (reference.seen[True], outputs[KEPT]),
            (expected["gradient"][1], gradient),
            (expected["gradient in training"][1], trained),
        )
        if all(_close(one, other) for one, other in pairs):
            return "always" if _alike_in_large_batches(reference, batch[0], train=True) else "evaluation"
    reference.require_repeatable(expected, train=True)
    return "evaluation"


def mixes_samples(reference: Reference) -> bool:
    """Return whether samples affect each other's results in training, or random draws cannot be assigned to samples."""
    reference.spec.load_into(reference.module, reference.flat[1]).train()
    batches = [reference.pick(places[:2])[0] for places in PLACES]
    with torch.no_grad():
        alone = []
        for key, inputs in enumerate(batches):
            with keyed_layers(key):
                alone.append(reference.run(inputs.clone()))
        try:
            rows = range(len(batches))
            with keyed_layers(0), randomness_by_row([keyed_stream(row) for row in rows], rows):
                together = reference.run(torch.cat(batches))
        except FAILURES:
            return True
    return not _close(torch.cat(alone), together)


def _alike_in_large_batches(reference: Reference, few: Tensor, train: bool) -> bool:
    """Return whether outputs are unchanged among many more samples; few: inputs [5, ...] with a node's samples."""
    alone = reference.seen[train]
    work = sum(p.numel() for p in reference.module.parameters()) * positions_of(few)
    for width in WIDE:
        if width * few[0].numel() > MOST_INPUTS or width * work > MOST_WEIGHTS:
            return True
        if width == WIDE[0]:
            with Counted(len(few)) as seen:
                reference.outputs(1, few, train)
        if width * (seen.total if train else seen.most) > ROOM * len(few):
            return True
        inputs = few.repeat(-(-width // len(few)), *[1] * (few.dim() - 1))[:width]
        try:
            outputs = reference.outputs(1, inputs, train)[KEPT]
        except (RuntimeError, ValueError, IndexError):
            return False  # it accepts small batches only, and a padded one is larger
        if not _close(alone, outputs):
            return False
    return True


def _numbers(backend: Backend, reference: Reference) -> Numbers:
    flat, objective, anchor = reference.flat, reference.objective, reference.anchor
    inputs, targets = reference.batches()
    together, apart = [slice(0, 2)], [slice(0, 1), slice(1, 2)]
    outputs: list[Tensor] = []
    for r in apart if backend.padding == "never" else together:
        batch = inputs[r, : max(SIZES[r])].clone()
        parts = backend.embed(flat[r], batch) if reference.embeds else (backend.predict(flat[r], batch),)
        outputs += torch.cat([part.reshape(*part.shape[:2], -1) for part in parts], 2).unbind()
    outputs = [part[:size] for part, size in zip(outputs, SIZES, strict=True)]
    pairs = []
    for r in apart if objective.reads.alike or backend.padding != "always" else together:
        sizes = torch.tensor(SIZES[r], device=flat.device)[:, None]
        width = int(sizes.max())
        weight = (torch.arange(width, device=flat.device) < sizes) / sizes.to(flat.dtype) if len(sizes) > 1 else None
        near = None if anchor is None else anchor[r]
        batch, labels = inputs[r, :width].clone(), targets[r, :width].clone()
        pairs.append(backend.gradient(flat[r], batch, labels, weight, objective, near)[:2])
    loss, gradient = (torch.cat(pieces) for pieces in zip(*pairs, strict=True))
    state = {"momentum": torch.zeros_like(gradient)}  # after one step it is the gradient
    work = Work(reference.feed(), SGD(lr=RATE, momentum=0.9), objective, state, torch.zeros(2, dtype=torch.int64))
    after, state, losses = backend.fit(flat, work)
    found = reference.collect(outputs, loss, gradient, losses[0], state["momentum"], after)
    if backend.layers:  # their steps without momentum are compiled
        plain, _, _ = backend.fit(flat, replace(work, optimizer=SGD(lr=RATE), state={}))
        found[PLAIN_STEP] = plain[:, : reference.spec.num_parameters]
    else:
        del found[PLAIN_STEP]
    return found


def _difference(name: str, one: Tensor, other: Tensor, reference: Reference, more: float = 0.0) -> str | None:
    """Name the first parameter or buffer that differs, or return None; buffers are compared on their own scale."""
    spec, count = reference.spec, reference.spec.num_named_parameters
    if name == BUFFERS:
        parts = (values.split(spec.sizes[count:], 1) for values in (one, other))
        names = (own for own, a, b in zip(spec.names[count:], *parts, strict=True) if not _close(a, b, more))
        return next((f"its {name} ({own!r})" for own in names), None)
    if _close(one, other, more):
        return None
    if one.dim() < 2:
        return f"its {name}"
    column = int(torch.nan_to_num((one - other).abs(), nan=torch.inf).max(0).values.argmax())
    ends = torch.tensor(spec.sizes).cumsum(0)
    return f"its {name} ({spec.names[int((ends > column).int().argmax())]!r})"


def _close(one: Tensor, other: Tensor, more: float = 0.0) -> bool:
    """Return whether numbers are equal up to rounding; overflow in both, NaN or infinite, counts as equal."""
    largest = float(torch.nan_to_num(one.detach().abs(), nan=0.0, posinf=0.0).max()) if one.numel() else 0.0
    apart = (one - other).abs().masked_fill((one == other) | ~(one.isfinite() | other.isfinite()), 0.0)
    return bool((apart <= max(TOLERANCE.get(one.dtype, COARSE) * max(largest, 1e-3), more)).all())
