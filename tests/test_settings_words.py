"""What messages say that a setting may be, for annotations of collections and unions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from torch import Tensor

from graphcollab._base.ranges import describe
from graphcollab._base.settings import SettingError, check_setting
from graphcollab.components import Count, Positive
from tests.raising import raises

PAIRS = Annotated[Sequence[Any], "pairs, such as [(0, 1)]"]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Mapping[str, Mapping[str, Any]], "Mapping[str, Mapping[str, Any]]"),
        (Sequence[tuple[Count, float]], "Sequence[tuple[a whole number of at least 1, a finite number]]"),
        (Sequence[Sequence[Positive]], "Sequence[Sequence[a finite number above 0]]"),
        (Sequence[Tensor] | None, "Sequence[Tensor] or None"),
        (type[ValueError], "type[ValueError]"),
        (PAIRS, "pairs, such as [(0, 1)]"),
        (Literal["a", "b"] | bool, "one of 'a', 'b' or bool"),
        (Callable[[int], int], "a function"),
    ],
)
def test_what_is_allowed_is_described(annotation: Any, words: str) -> None:
    assert describe(annotation) == words


def test_functions_that_were_not_called_are_told_to_be() -> None:
    def rate() -> float:
        return 0.1

    with raises("value", "lr", "rate()", kind=SettingError):
        check_setting("lr", Positive, rate)
    with raises("value", "lr", kind=SettingError) as caught:
        check_setting("lr", Positive, lambda: 0.1)
    assert str(caught.value).endswith("(a function)")
