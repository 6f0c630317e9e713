"""Sparse mixing of models and its gradient; distances and cosines per edge."""

from __future__ import annotations

from graphcollab.ops.distances import edge_cosines, edge_distances
from graphcollab.ops.mixing import edge_products, mix
from graphcollab.ops.structure import Structure

__all__ = ["Structure", "edge_cosines", "edge_distances", "edge_products", "mix"]
