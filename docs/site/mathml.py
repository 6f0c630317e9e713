"""Formulas as MathML, which browsers show by themselves: nothing is loaded, and nothing has to run."""

from __future__ import annotations

from docutils import nodes
from math_core import LatexToMathML
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

CONVERT = LatexToMathML().convert_with_local_state


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(CONVERT(node.astext(), displaystyle=False))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    r"""Write a formula of its own; one with ``\\`` has several lines, as in Sphinx's other formats."""
    text = node.astext()
    text = rf"\begin{{aligned}}{text}\end{{aligned}}" if r"\\" in text else text
    self.body.append(f'<div class="formula">{CONVERT(text, displaystyle=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the way in which formulas are written."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
