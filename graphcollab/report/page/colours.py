"""Colours of a page, in the light and in the dark; charts name them as CSS variables, so they follow the reader."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DARK", "GAINS", "INK", "LIGHT", "METHODS", "WORDS", "colours_of", "styles"]

INK = "currentColor"  # that of the page's text

# Close to those of Okabe and Ito, darker or lighter, so that lines stand out from the paper by 3 to 1, and brown and
# violet in place of a second yellow and a second blue, so that they stand out from each other.
_METHODS = {
    "light": ("#0072b2", "#c84e00", "#00805d", "#b0528e", "#5b3100", "#5b21a8", "#6e6e6e"),
    "dark": ("#4d9be6", "#ff8540", "#2cc49a", "#e39ac6", "#f0b429", "#9f63ff", "#a8a8a8"),
}
# From the largest loss, orange, over nothing to the largest gain, blue; in the dark nothing is dark.
_GAINS = {
    "light": ("#b14a00", "#d77f3e", "#ebb08a", "#f7dccb", "#eeeeee", "#cfe2f1", "#94c0e0", "#5a9ccc", "#00609b"),
    "dark": ("#ff9a4d", "#c9722e", "#8a4e22", "#4d3626", "#353b42", "#263f54", "#2b5f8a", "#4189c2", "#7cc4f8"),
}
_WORDS = {
    "light": ("#ffffff", *["#15191d"] * 7, "#ffffff"),
    "dark": (*["#15191d"] * 2, *["#ffffff"] * 5, *["#15191d"] * 2),
}
_PAPER = {
    "light": {"ink": "#1d2329", "paper": "#ffffff", "soft": "#f3f5f7", "line": "#d4dae0", "mark": "#005a9c"},
    "dark": {"ink": "#e4e8ec", "paper": "#15191d", "soft": "#20262c", "line": "#3a434c", "mark": "#7cc0f5"},
}


def _named(mode: str) -> dict[str, str]:
    several = {"method": _METHODS[mode], "gain": _GAINS[mode], "word": _WORDS[mode]}
    return {
        **_PAPER[mode],
        **{f"{kind}-{n}": colour for kind, some in several.items() for n, colour in enumerate(some)},
    }


LIGHT, DARK = _named("light"), _named("dark")
METHODS, GAINS, WORDS = (
    [f"var(--{kind}-{n})" for n in range(many)] for kind, many in (("method", 7), ("gain", 9), ("word", 9))
)


def colours_of(count: int) -> list[str]:
    """Return a colour for each of so many, the same again after seven."""
    return [METHODS[n % len(METHODS)] for n in range(count)]


def styles() -> Mapping[str, str]:
    """Return the variables as CSS, of the light and of the dark."""
    return {"light": _declared(LIGHT), "dark": _declared(DARK)}


def _declared(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
