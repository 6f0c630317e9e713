"""Where batches may be padded, and divided, by a trial of a module."""

from __future__ import annotations

import torch
from torch import Tensor

from graphcollab.engine.footprint import ROOM, Counted
from graphcollab.engine.modules import Padding, copy_module, embed_arguments, padding_by_type, positions_of
from graphcollab.engine.randomness import keyed_layers, keyed_stream, randomness_by_row
from graphcollab.engine.trial import ALIKE, FAILURES, PLACES, SIZES, Trial, close, joined

AMONG, KEPT = (2, 0, 3, 1, 1), [1, 3]  # positions in the sample, and which of them are the second node's own batch
WIDE = 64, 300  # numbers of samples in larger batches
MOST_INPUTS, MOST_WEIGHTS = 2**18, 2**29  # numbers in a larger batch, and parameters times its samples or tokens


def padding_of(trial: Trial) -> Padding:
    """Return where batches may be padded.

    Nowhere if a sample's output changes with the other samples, also among 64 or 300 (unless that is expensive).
    Not in training if gradients change, layers normalize batches, or something draws, since longer batches draw
    other numbers.
    """
    by_type = padding_by_type(trial.module, trial.spec)
    if by_type == "never":
        return "never"
    some, (own, targets), (few, labels) = slice(1, 2), trial.pick(PLACES[1][: SIZES[1]]), trial.pick(AMONG)
    if few.is_floating_point():
        few[2] = 0.3 * few[2] + 0.7 * few[1]  # a new sample
    batches = [(few[index], labels[index]) for index in _widened(trial, few)]
    try:
        judged = trial.outputs(trial.loop, some, own[None])[0]
        if not all(close(judged, trial.outputs(trial.loop, some, inputs[None])[0][KEPT]) for inputs, _ in batches):
            return "never"
    except (RuntimeError, ValueError, IndexError):
        return "never"  # it accepts small batches only, and a padded one is larger
    if by_type != "always" or trial.random or trial.objective.reads.alike:
        return "evaluation"
    for key in (None, (0, torch.ones(1, dtype=torch.int64), 0)):
        alone = trial.gradient(trial.loop, some, (own[None], targets[None]), None, key)
        for inputs, labels in batches:
            weight = torch.zeros(1, len(inputs)).to(trial.flat)
            weight[0, KEPT] = 0.5
            if not all(map(close, alone, trial.gradient(trial.loop, some, (inputs[None], labels[None]), weight, key))):
                return "evaluation"
    return "always"


def _widened(trial: Trial, few: Tensor) -> list[Tensor]:
    """Return positions of few samples [5, ...] in batches: once each, and repeated unless that is expensive."""
    with torch.no_grad(), Counted(len(few)) as seen:
        trial.loop.module.eval()(few.clone())
    weights = sum(p.numel() for p in trial.module.parameters())
    most = min(
        MOST_INPUTS // few[0].numel(), MOST_WEIGHTS // (weights * positions_of(few)), ROOM * len(few) // seen.total
    )
    return [torch.arange(width) % len(few) for width in (len(few), *WIDE) if width <= max(most, len(few))]


def mixes_samples(trial: Trial) -> bool:
    """Return whether samples affect each other's results in training, or draws cannot be assigned to samples."""
    module = trial.spec.load_into(copy_module(trial.module), trial.flat[1]).train()
    batches, more = [trial.pick(places[:ALIKE])[0] for places in PLACES], embed_arguments(trial.embeds)
    with torch.no_grad():
        alone = []
        for row, inputs in enumerate(batches):
            with keyed_layers(row):
                alone.append(joined(module(inputs.clone(), **more)))
        try:
            rows = range(len(batches))
            with keyed_layers(0), randomness_by_row([keyed_stream(row) for row in rows], rows):
                together = joined(module(torch.cat(batches), **more))
        except FAILURES:
            return True
    return not close(torch.cat(alone), together)
