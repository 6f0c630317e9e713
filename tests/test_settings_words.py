"""What messages say that a setting may be, for annotations of collections and unions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import pytest
from torch import Tensor

from graphcollab.settings import Count, Positive, SettingError, Share, check_setting

PAIRS = Annotated[Sequence[Any], "pairs, such as [(0, 1)]"]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Mapping[str, Mapping[str, Any]], "a mapping of strings to mappings of strings to anything"),
        (Sequence[tuple[Count, float]], "a sequence of tuples of a whole number of at least 1 and a finite number"),
        (Sequence[Sequence[Positive]], "a sequence of sequences of positive finite numbers"),
        (Iterable[Share | str], "a sequence of numbers above 0 and at most 1 or strings"),
        (Sequence[Tensor], "a sequence of Tensors"),
        (Sequence[type[ValueError]], "a sequence of classes such as ValueError"),
        (Mapping[str, Callable[[], int] | None], "a mapping of strings to functions or None"),
        (PAIRS | None, "pairs, such as [(0, 1)], or None"),
        (Sequence[PAIRS], "a sequence of pairs, such as [(0, 1)]"),
        (Sequence[bool], "a sequence of True and False"),
    ],
)
def test_collections_are_described_in_plain_words(annotation: Any, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        check_setting("given", annotation, 0.5)
    assert str(caught.value) == f"given must be {words}, got 0.5"


def test_functions_that_were_not_called_are_told_to_be() -> None:
    def rate() -> float:
        return 0.1

    with pytest.raises(
        SettingError, match=r"^lr must be a positive .*; if what it returns is meant, call it: rate\(\)$"
    ):
        check_setting("lr", Positive, rate)
    with pytest.raises(SettingError, match=r"\(a function\)$"):
        check_setting("lr", Positive, lambda: 0.1)
