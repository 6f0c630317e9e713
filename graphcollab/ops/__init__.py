"""Sparse mixing of models and its gradient; distances and cosines per edge; simplices, cones and Laplacians."""

from __future__ import annotations

from graphcollab.ops.bundles import bundle_gram, bundle_sum
from graphcollab.ops.cone import cone_coefficients
from graphcollab.ops.distances import edge_cosines, edge_distances
from graphcollab.ops.laplacian import laplacian_bound, laplacian_radius
from graphcollab.ops.matching import matching_distances
from graphcollab.ops.mixing import edge_products, mix
from graphcollab.ops.simplex import project_simplex
from graphcollab.ops.structure import Structure

__all__ = [
    "Structure",
    "bundle_gram",
    "bundle_sum",
    "cone_coefficients",
    "edge_cosines",
    "edge_distances",
    "edge_products",
    "laplacian_bound",
    "laplacian_radius",
    "matching_distances",
    "mix",
    "project_simplex",
]
