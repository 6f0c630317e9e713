"""Sparse mixing of models and its gradient."""

from graphcollab.ops.mixing import edge_products, mix
from graphcollab.ops.structure import Structure

__all__ = ["Structure", "edge_products", "mix"]
