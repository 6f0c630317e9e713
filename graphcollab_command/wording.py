"""What the package says to those who write Python, as those read it who write a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

__all__ = ["on_the_line", "printable"]

INSTEAD = {
    r"\bpaired_table\b": "the table of differences",
    r"\bresume=False\b": "remove it",
    r", or read it into a frame and give that\b": " (in Excel: CSV UTF-8)",
    r", a function or\b": " or",
    r", 'isolate' or an Isolate\b": " or 'isolate'",
    r" \(unless pooled=\"per_site\"\)": " (not with --pooled per_site)",
    r"; graphcollab\.tasks\.told_by_site lists them\b": "",
    r"\bwith callbacks=\[RecordGraph\(\)\] a run keeps all\b": "where models are evaluated more often, more are kept",
    r"\bgive Tasks\(\.\.\., cluster=\.\.\.\), which is not possible between sites": "leave the method out, or compare "
    "methods on a dataset dealt out by --partition groups",
    r"\bgive root=FOLDER or set\b": "set",
    r"\bgive `test` to Tasks\.from_samples, or test_fraction above 0 to .*'test'\)": "give --test-fraction above 0",
    r"=True in Tasks\.from_frame\b": "=True",
    r"\bTrue or False\b": "true or false",
    r" or None\b": " or none",
    r"\bNone\b": "none",
}
TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
VALUE = rf"(?P<value>{TEXT}|\[(?:{TEXT}|[^\]'\"])*\]|\.{{3}}|[\w+−-](?:[\w.+−-]*\w)?)?"


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal or browser obeys and does not show: control characters, and those that turn the direction of text."""


def printable(text: str) -> str:
    r"""Return a text with codes for what would be obeyed and not shown; lines and tabs stay.

    Example:
        >>> print(printable("Bern\x1b[2J, \u202egnp.exe"))
        Bern\x1b[2J, \u202egnp.exe
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def on_the_line(text: str, names: Collection[str]) -> str:
    """Return a text in which settings are options: ``loss='mse'`` becomes ``--loss mse``.

    Args:
        text: The text.
        names: Names of settings, as in Python.

    Example:
        >>> on_the_line("give loss='mse', or name it in leave_out=['age']", ["loss", "leave_out"])
        'give --loss mse, or name it in --leave-out age'
        >>> on_the_line("leave them out by leave_out=['Unnamed: 0', 'age']", ["leave_out"])
        "leave them out by --leave-out 'Unnamed: 0' age"
        >>> on_the_line("the run has rounds=7; say by target= which", ["rounds", "target"])
        'the run has --rounds 7; say by --target which'
        >>> on_the_line("try more of them, repeats=...", ["repeats"])
        'try more of them, --repeats'
    """
    for words, instead in INSTEAD.items():
        text = re.sub(words, instead, text)
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w.\-\['])(?P<name>{known})={VALUE}", _option, text) if names else text


def _option(found: re.Match[str]) -> str:
    """Return a setting and its value as an option."""
    name, value = found["name"].replace("_", "-"), found["value"] or ""
    if value in ("true", "True", "False"):
        return f"--{'no-' * (value == 'False')}{name}"
    texts = re.findall(TEXT, value)
    bare = re.sub(r"[\[\],]", "", value).replace("...", "")
    said = [shlex.quote(re.sub(r"\\([\\'\"])", r"\1", one[1:-1])) for one in texts] or [bare]
    return " ".join([f"--{name}", *said]).strip()
