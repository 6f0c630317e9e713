"""Sparse mixing of models and its gradient."""

from __future__ import annotations

from graphcollab.ops.mixing import edge_products, mix
from graphcollab.ops.structure import Structure

__all__ = ["Structure", "edge_products", "mix"]
