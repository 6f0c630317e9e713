"""Tasks of next tokens that are no `text_tasks`: judged over tokens, or refused with what to give."""

from __future__ import annotations

import pytest
import torch

from graphcollab import Tasks, run
from graphcollab.llm import build_lora, perplexity, text_tasks, token_loss
from graphcollab.methods import local
from tests.llm.tiny import TEXTS, gpt, words
from tests.raising import raises

TEXT = text_tasks({"a": TEXTS[:4], "b": TEXTS[4:]}, words(), context=5, joined=False, val_fraction=0, test_fraction=0)
BLOCKS = TEXT.pools["train"].inputs
OWNER = ["a" if k in TEXT.splits["train"].of(0).tolist() else "b" for k in range(len(BLOCKS))]
COUNTS = (BLOCKS[:, 1:] >= 0).sum(1)


def own(x=BLOCKS, loss=token_loss, metric=perplexity, **more):
    return Tasks.from_arrays(
        x, torch.zeros(len(x)), OWNER, val_fraction=0, test_fraction=0, loss=loss, metric=metric, **more
    )


def play(tasks):
    return run(local(lr=0.1, epochs=1), tasks, lambda: build_lora(gpt(), dropout=0.0), rounds=1)


def test_blocks_with_weights_are_those_of_text_tasks():
    found, expected = (play(tasks).scores(split="train") for tasks in (own(weight=COUNTS), TEXT))
    assert torch.equal(found["perplexity"], expected["perplexity"])


def test_unequal_blocks_need_weights():
    with raises("missing", "weight"):
        play(own())
    play(own(weight=torch.ones(len(BLOCKS))))  # who says so may have means over blocks
    play(own(BLOCKS.clamp(min=0)))


@pytest.mark.parametrize(
    ("blocks", "code", "fact"),
    [(BLOCKS.masked_fill(BLOCKS < 0, -100), "contract", -100), (BLOCKS.flip(1), "value", "follows padding")],
)
def test_other_padding_is_refused(blocks, code, fact):
    with raises(code, None, fact):
        play(own(blocks, weight=COUNTS))


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_a_loss_that_compares_outputs_with_targets_is_refused(loss):
    with raises("conflict", "loss", repr(loss), "token_loss"):
        play(own(loss=loss, metric="mae" if loss == "mse" else "accuracy", weight=COUNTS))


def test_a_metric_that_compares_outputs_with_targets_is_refused():
    for metric in ("accuracy", "rmse"):
        with raises("conflict", "metric", repr(metric), "perplexity"):
            own(metric=metric, weight=COUNTS)
    result = play(TEXT)
    with raises("conflict", "metric", "'accuracy'"):
        result.scores("accuracy", split="train")
