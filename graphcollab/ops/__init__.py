"""Sparse mixing of models and its gradient; distances and cosines per edge; simplices, cones and Laplacians."""

from graphcollab.ops.distances import edge_cosines, edge_distances, matching_distances
from graphcollab.ops.laplacian import laplacian_bound, laplacian_radius
from graphcollab.ops.mixing import edge_products, mix
from graphcollab.ops.projections import bundle_gram, bundle_sum, cone_coefficients, project_simplex
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
